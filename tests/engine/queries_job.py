"""Streaming queries in a process of their own, to be killed by tests.

QUERIES is a JSON list of {"folder", "queue", "options", "format"}. Each query appends to the table
`output` in its folder, as Parquet or Delta. The body of every row passes through a Python worker,
which waits while a file `hold` stands in the query's folder. The job ends in good order when a file
`stop` appears in its own folder. It leaves in the folder of each Delta table `bodies.json`: what it
has, for who has no Delta. PLANT, if set, is written where a text must not show: so a search for
such texts can find something.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from patience import patiently
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # 50 small tasks otherwise
}

job = Path(sys.argv[1])
queries: list[dict[str, Any]] = json.loads(os.environ["QUERIES"])
plant = os.environ.get("PLANT")
if plant:
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)  # repeats every call it makes
conf = json.loads(os.environ.get("CONF", "{}"))
if jars := os.environ.get("JARS"):
    conf |= DELTA | {"spark.jars": ",".join(str(jar) for jar in Path(jars).glob("*.jar"))}
# A batch that is held keeps its task: there are more of them than cores.
builder = SparkSession.builder.master(f"local[{len(queries) + 1},4]")
builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
for name, value in conf.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("INFO" if plant else "ERROR")


def passing(folder: Path) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pass rows on, but not while they are to be held."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if plant:
                print("worker", plant, file=sys.stderr)
            (folder / f"holding-{os.getpid()}").touch()
            while (folder / "hold").exists():
                time.sleep(0.05)
            yield batch

    return pass_on


def start(folder: Path, queue: str, options: dict[str, str], format: str) -> StreamingQuery:
    """Start one query."""
    return (
        spark.readStream.format("azqueue")
        .option("secret.connectionString", os.environ["CONNECTION_STRING"])
        .option("queue", queue)
        .options(**options)
        .load()
        .select("message_id", "body")
        .mapInArrow(passing(folder), "message_id string, body string")
        .writeStream.format(format)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "output"))
    )


if plant:
    spark.sparkContext.setJobDescription(plant)
    spark.range(1).collect()
    logging.getLogger("spark_azqueue").warning("driver %s", plant)
running = [
    patiently(lambda of=query: start(**{**of, "folder": Path(of["folder"])})) for query in queries
]
while not (job / "stop").exists():
    for each in running:
        each.awaitTermination(0.1)
for each in running:
    each.stop()
for query in queries:
    if query["format"] != "delta":
        continue
    folder = Path(query["folder"])
    rows = spark.read.format("delta").load(str(folder / "output")).collect()
    (folder / "bodies.json").write_text(json.dumps(sorted(row.body for row in rows)))
spark.stop()
