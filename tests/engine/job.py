"""A streaming job in a process of its own, to be killed by tests.

It appends each batch's rows to `rows.jsonl`, waiting in the middle of a batch while a file `hold`
stands in its folder, and ends in good order when a file `stop` appears.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

folder, queue = Path(sys.argv[1]), sys.argv[2]
spark = (
    SparkSession.builder.master(os.environ.get("MASTER", "local[2,4]"))
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def work(batch: DataFrame, number: int) -> None:
    rows = batch.select("message_id", "body").collect()
    if rows:
        (folder / f"holding-{os.getpid()}").touch()
        while (folder / "hold").exists():
            time.sleep(0.05)
    assert batch.count() == len(rows), "the same rows again, whatever was killed meanwhile"
    with (folder / "rows.jsonl").open("a") as file:
        for row in rows:
            file.write(json.dumps({"batch": number, **row.asDict()}) + "\n")


query = (
    spark.readStream.format("azqueue")
    .option("secret.connectionString", os.environ["CONNECTION_STRING"])
    .option("queue", queue)
    .option("visibilityTimeout", os.environ.get("VISIBILITY", "600"))
    .load()
    .writeStream.foreachBatch(work)
    .option("checkpointLocation", str(folder / "checkpoint"))
    .start()
)
while not (folder / "stop").exists():
    query.awaitTermination(0.1)
query.stop()
spark.stop()
