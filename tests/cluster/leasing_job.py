"""A stream whose tasks lease, into Parquet files, on a cluster.

`leasing_job.py <folder> <queues> <shape>`; the master is in MASTER, the connection string in TEXT,
settings of Spark in CONF, more options in OPTIONS, both as JSON. Ends when the queues are read; on
Spark 4.0 and 4.1 when the file `end` stands in the folder, too.
`shape`: `shuffle` for a stage behind that of the source, whose tasks wait while the file `hold`
stands in the folder; empty otherwise.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from asked_session import session
from pyspark import TaskContext
from pyspark.sql.functions import udf

folder, queues, shape = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
PLANTED = os.environ["PLANTED"]
print(f"driver {PLANTED}", file=sys.stderr)
spark = session()
spark.sparkContext.setJobDescription(PLANTED)


def say(_: object) -> None:
    """Write a word where a worker would write a secret."""
    print(f"worker {PLANTED}", file=sys.stderr)


@udf("string")
def held(body: str) -> str:
    context = TaskContext.get()
    assert context
    if (folder / "hold").exists():
        (folder / f"holding-{context.partitionId()}").touch()
    while (folder / "hold").exists():
        time.sleep(0.05)
    return body


spark.sparkContext.parallelize([0], 1).foreach(say)
rows = (
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
)
if shape == "shuffle":
    rows = rows.repartition(4, "message_id").select("message_id", held("body").alias("body"))
writer = (
    rows.writeStream.format("parquet")
    .option("path", str(folder / "rows"))
    .option("checkpointLocation", str(folder / "checkpoint"))
)
if tuple(map(int, spark.version.split(".")[:2])) >= (4, 2):
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(170), "the query did not end"
else:  # one availableNow run is one batch there
    query = writer.start()
    while not (folder / "end").exists():
        assert query.isActive, query.exception()
        time.sleep(0.05)
    query.processAllAvailable()
    query.stop()
found = spark.read.parquet(str(folder / "rows")).collect()
print(
    json.dumps(
        {
            "rows": len(found),
            "bodies": len({row.body for row in found}),
            "twice": [body for body, count in Counter(r.body for r in found).items() if count > 1],
        }
    )
)
spark.stop()
