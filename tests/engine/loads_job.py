"""A query over one load or a union of several, in a process of its own, to be killed by tests.

QUERY is JSON: {"loads", "columns", "format", "writer"}; writer has more options of the sink. Each
load is {"options", "account", "name"}: account is the environment variable with the connection
string (null: none is given), name that of a named source (null: it has none).

Each row passes through a Python worker, which waits while a file `hold` stands in the job's folder,
and then appends its body to a file `passed-…`. The job ends in good order when a file `stop`
appears.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from patience import patiently
from pyspark.sql import DataFrame, SparkSession

folder = Path(sys.argv[1])
asked: dict[str, Any] = json.loads(os.environ["QUERY"])
builder = SparkSession.builder.master(os.environ["MASTER"])
builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
for name, value in json.loads(os.environ.get("CONF", "{}")).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def load(of: dict[str, Any]) -> DataFrame:
    """The rows of one load, with the columns that are asked for."""
    reader = spark.readStream.format("azqueue").options(**of["options"])
    if of["account"]:
        reader = reader.option("secret.connectionString", os.environ[of["account"]])
    if of["name"]:
        reader = reader.name(of["name"])
    return reader.load().select(*asked["columns"])


def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass rows on, but not while they are to be held."""
    for batch in batches:
        if (folder / "hold").exists():
            (folder / f"holding-{os.getpid()}").touch()
        while (folder / "hold").exists():
            time.sleep(0.05)
        with (folder / f"passed-{os.getpid()}").open("a") as file:
            file.writelines(json.dumps(body) + "\n" for body in batch.column("body").to_pylist())
        yield batch


rows = reduce(DataFrame.unionByName, map(load, asked["loads"]))
writer = rows.mapInArrow(pass_on, rows.schema).writeStream.format(asked["format"])
writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
writer = writer.options(**asked["writer"])
to = {"path": str(folder / "output")} if asked["format"] == "parquet" else {}
query = patiently(lambda: writer.start(**to))
while not (folder / "stop").exists():
    query.awaitTermination(0.1)
query.stop()
spark.stop()
