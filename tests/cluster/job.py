"""A stream from a queue into Parquet files, or into a queue, on a cluster.

`job.py <folder> <queue> <trouble>`; the master is in MASTER, the connection string in TEXT, more
settings of Spark in CONF, as JSON; with SINK (JSON) it writes to a queue with these options.
`trouble`: what happens to the tasks.

    hold    each waits while the file `hold` stands in the folder
    slow    one waits until a second attempt of it has begun
    fail    one fails in its first two attempts
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

folder, queue, trouble = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
THE_ONE = "m7"
PLANTED = os.environ["PLANTED"]
print(f"driver {PLANTED}", file=sys.stderr)
spark = session()
spark.sparkContext.setLogLevel("INFO")
spark.sparkContext.setJobDescription(PLANTED)


@udf("string")
def troubled(body: str) -> str:
    context = TaskContext.get()
    assert context
    if trouble == "hold":
        (folder / f"holding-{context.partitionId()}-{context.attemptNumber()}").touch()
        while (folder / "hold").exists():
            time.sleep(0.05)
    if trouble != "hold" and body == THE_ONE:
        (folder / f"attempt-{context.attemptNumber()}").touch()
        if trouble == "fail" and context.attemptNumber() < 2:
            raise RuntimeError("a task that fails twice")
        while trouble == "slow" and not (folder / "attempt-1").exists():
            time.sleep(0.05)
    if body == THE_ONE:
        print(f"worker {PLANTED}", file=sys.stderr)
    return body


rows = (
    spark.readStream.format("azqueue")
    .option("secret.connectionString", os.environ["TEXT"])
    .option("queue", queue)
    .option("maxMessagesPerTrigger", "1000")
    .option("messagesPerPartition", "250")
    .load()
    .select("message_id", troubled("body").alias("body"))
)
sink = json.loads(os.environ.get("SINK", "null"))
if sink:
    writer = rows.select("body").writeStream.format("azqueue").options(**sink)
else:
    writer = rows.writeStream.format("parquet").option("path", str(folder / "rows"))
writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
query = writer.trigger(availableNow=True).start()
assert query.awaitTermination(150), "the query did not end"
if sink:
    print("null")
    sys.exit()
rows = spark.read.parquet(str(folder / "rows")).collect()
print(
    json.dumps(
        {
            "rows": len(rows),
            "ids": len({row.message_id for row in rows}),
            "bodies": len({row.body for row in rows}),
            "twice": [body for body, count in Counter(r.body for r in rows).items() if count > 1],
        }
    )
)
spark.stop()
