"""A workflow of two stages in a process of its own, to be killed by tests.

Stage 1 of a message is noted in `rows.jsonl`, then saved by updating the message to {"stage": 2};
stage 2 is noted, then the message is deleted. A stage 2 waits while a file `hold` stands in the
folder. Ends in good order when a file `stop` appears.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

folder, queue = Path(sys.argv[1]), sys.argv[2]
options = {"secret.connectionString": os.environ["CONNECTION_STRING"], "queue": queue}
spark = (
    SparkSession.builder.master(os.environ["MASTER"])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def note(rows: list[tuple[str, int]]) -> None:
    with (folder / "rows.jsonl").open("a") as file:
        for order, stage in rows:
            file.write(json.dumps({"body": f"{order} stage {stage}"}) + "\n")


def change(frame: DataFrame, operation: str) -> None:
    frame.write.format("azqueue").mode("append").options(**options, operation=operation).save()


def work(batch: DataFrame, number: int) -> None:
    parsed = batch.selectExpr(
        "message_id",
        "pop_receipt",
        "get_json_object(body, '$.order') AS order",
        "int(get_json_object(body, '$.stage')) AS stage",
    )
    first, second = parsed.where("stage = 1"), parsed.where("stage = 2")
    note([(row.order, 1) for row in first.collect()])
    saved = "to_json(named_struct('order', order, 'stage', 2)) AS body"
    change(first.selectExpr("message_id", "pop_receipt", saved), "update")

    due = second.collect()
    if due:
        (folder / f"holding-{os.getpid()}").touch()
        while (folder / "hold").exists():
            time.sleep(0.05)
    note([(row.order, 2) for row in due])
    change(second.select("message_id", "pop_receipt"), "delete")


query = (
    spark.readStream.format("azqueue")
    .options(**options, deleteOnCommit="false", visibilityTimeout="600")
    .load()
    .writeStream.foreachBatch(work)
    .option("checkpointLocation", str(folder / "checkpoint"))
    .start()
)
while not (folder / "stop").exists():
    query.awaitTermination(0.1)
query.stop()
spark.stop()
