"""Every use of the connector, each by itself, where the package came to a cluster in some way.

`uses.py <folder> <queue>`; the master is in MASTER (or the address of a Connect server in REMOTE),
the connection string in TEXT, settings in CONF. FILE: given to `addPyFile` (or `addArtifact`).
REGISTER: call `spark.dataSource.register`. Prints which uses work, as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

folder, queue = sys.argv[1:]
remote = os.environ.get("REMOTE")
builder = SparkSession.builder
builder = builder.remote(remote) if remote else builder.master(os.environ["MASTER"])
for name, value in json.loads(os.environ["CONF"]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
file = os.environ.get("FILE")
if file and remote:
    spark.addArtifact(file, pyfile=True)
elif file:
    spark.sparkContext.addPyFile(file)
if os.environ.get("REGISTER"):
    from spark_azqueue import AzQueueDataSource

    spark.dataSource.register(AzQueueDataSource)
azure = {"secret.connectionString": os.environ["TEXT"], "queue": queue}
rows = spark.range(4).selectExpr("string(id) AS body")


def sink():
    rows.write.format("azqueue").mode("append").options(**azure).save()


def sink_of_a_stream():
    rows.write.mode("overwrite").text(f"{folder}/texts")
    stream = spark.readStream.text(f"{folder}/texts").withColumnRenamed("value", "body")
    end(stream.writeStream.format("azqueue").options(**azure), "of_stream")


def peek():
    spark.read.format("azqueue").options(**azure).load().collect()


def source():
    stream = spark.readStream.format("azqueue").options(**azure).load()
    end(stream.writeStream.format("parquet").option("path", f"{folder}/rows"), "of_source")


def end(writer, name):
    writer = writer.option("checkpointLocation", f"{folder}/{name}")
    assert writer.trigger(availableNow=True).start().awaitTermination(120)


seen = {}
for use in (sink, sink_of_a_stream, peek, source):
    try:
        use()
        seen[use.__name__] = "works"
    except (PySparkException, Py4JError) as error:
        print(use.__name__, error, file=sys.stderr)
        seen[use.__name__] = type(error).__name__
print(json.dumps(seen))
spark.stop()
