"""A stream whose tasks lease, into Parquet files, on a cluster.

`leasing_job.py <folder> <queues>`; the master is in MASTER, the connection string in TEXT, settings
of Spark in CONF, more options in OPTIONS, both as JSON. Ends when the queues are read.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

folder, queues = Path(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master(os.environ["MASTER"])
for name, value in json.loads(os.environ["CONF"]).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
query = (
    spark.readStream.format("azqueue")
    .option("secret.connectionString", os.environ["TEXT"])
    .option("queue", queues)
    .option("leaseOn", "executors")
    .option("writeAheadLog", f"file:{folder}/log")
    .option("deleteAfter", "log")
    .option("visibilityTimeout", "30 seconds")
    .options(**json.loads(os.environ["OPTIONS"]))
    .load()
    .select("message_id", "body")
    .writeStream.format("parquet")
    .option("path", str(folder / "rows"))
    .option("checkpointLocation", str(folder / "checkpoint"))
    .trigger(availableNow=True)
    .start()
)
assert query.awaitTermination(170), "the query did not end"
rows = spark.read.parquet(str(folder / "rows")).collect()
print(
    json.dumps(
        {
            "rows": len(rows),
            "bodies": len({row.body for row in rows}),
            "twice": [body for body, count in Counter(r.body for r in rows).items() if count > 1],
        }
    )
)
spark.stop()
