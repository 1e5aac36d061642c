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
from pathlib import Path
from typing import Any

from held_rows import passing, session
from patience import patiently
from pyspark.sql.streaming import StreamingQuery

job = Path(sys.argv[1])
queries: list[dict[str, Any]] = json.loads(os.environ["QUERIES"])
plant = os.environ.get("PLANT")
if plant:
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)  # repeats every call it makes
conf = json.loads(os.environ.get("CONF", "{}"))
# A batch that is held keeps its task: there are more of them than cores.
spark = session(f"local[{len(queries) + 1},4]", {"spark.sql.shuffle.partitions": "2"} | conf)
spark.sparkContext.setLogLevel("INFO" if plant else "ERROR")


def start(folder: Path, queue: str, options: dict[str, str], format: str) -> StreamingQuery:
    """Start one query."""
    return (
        spark.readStream.format("azqueue")
        .option("secret.connectionString", os.environ["CONNECTION_STRING"])
        .option("queue", queue)
        .options(**options)
        .load()
        .select("message_id", "body")
        .mapInArrow(passing(folder, plant), "message_id string, body string")
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
