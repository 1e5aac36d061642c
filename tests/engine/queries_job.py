"""A streaming job that appends to Parquet in a process of its own, to be killed by tests.

The body of every row passes through a Python worker, which waits while a file `hold` stands in the
job's folder. Ends in good order when a file `stop` appears. PLANT, if set, is written where a text
must not show: so a search for such texts can find something.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

folder, queue = Path(sys.argv[1]), sys.argv[2]
plant = os.environ.get("PLANT")
if plant:
    logging.basicConfig(level=logging.DEBUG)
    logging.getLogger("py4j").setLevel(logging.INFO)  # repeats every call it makes
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
for name, value in json.loads(os.environ.get("CONF", "{}")).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("INFO" if plant else "ERROR")


def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if plant:
            print("worker", plant, file=sys.stderr)
        (folder / f"holding-{os.getpid()}").touch()
        while (folder / "hold").exists():
            time.sleep(0.05)
        yield batch


if plant:
    spark.sparkContext.setJobDescription(plant)
    spark.range(1).collect()
    logging.getLogger("spark_azqueue").warning("driver %s", plant)
query = (
    spark.readStream.format("azqueue")
    .option("secret.connectionString", os.environ["CONNECTION_STRING"])
    .option("queue", queue)
    .options(**json.loads(os.environ.get("OPTIONS", "{}")))
    .load()
    .select("message_id", "body")
    .mapInArrow(pass_on, "message_id string, body string")
    .writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint"))
    .start(str(folder / "output"))
)
print("QUERY", query.id, flush=True)
while not (folder / "stop").exists():
    query.awaitTermination(0.1)
query.stop()
spark.stop()
