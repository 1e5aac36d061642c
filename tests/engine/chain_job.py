"""Two hops in a process of its own, to be killed by tests: queue, Spark, queue, Spark, table.

Reads <queue> into <queue>-mid by the options in SINK (JSON), and <queue>-mid into Parquet files in
`output`; each reader has a write-ahead log in the folder. With PACKED (a schema) both queues have
many rows in a message. Ends in good order when a file `stop` appears.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_azqueue import pack, unpack

folder, queue = Path(sys.argv[1]), sys.argv[2]
account = {"secret.connectionString": os.environ["CONNECTION_STRING"]}
spark = (
    SparkSession.builder.master(os.environ["MASTER"])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


schema = os.environ.get("PACKED")
pack_rows = int(os.environ.get("PACK_ROWS", "70"))


def read(name: str) -> DataFrame:
    """The rows of a queue, with a log: bodies, or what is packed in them."""
    most = "10" if schema else "100"
    options = {"writeAheadLog": f"file:{folder}/wal-{name}", "maxMessagesPerTrigger": most}
    frame = spark.readStream.format("azqueue").options(**account, queue=name, **options)
    messages = frame.option("visibilityTimeout", "30").load()
    if not schema:
        return messages.select("body")
    return unpack(messages, schema).drop("message_id", "message_row", *OF_THE_SOURCE)


OF_THE_SOURCE = (
    *("queue", "insertion_time", "expiration_time", "next_visible_time"),
    *("dequeue_count", "pop_receipt"),
)
first = read(queue)


hops = [
    (pack(first, max_rows=pack_rows) if schema else first)
    .writeStream.format("azqueue")
    .options(**account, queue=f"{queue}-mid", **json.loads(os.environ["SINK"]))
    .option("checkpointLocation", str(folder / "checkpoint-1"))
    .start(),
    read(f"{queue}-mid")
    .writeStream.format("parquet")
    .option("checkpointLocation", str(folder / "checkpoint-2"))
    .start(str(folder / "output")),
]
while not (folder / "stop").exists():
    for hop in hops:
        hop.awaitTermination(0.1)
(folder / "stopping").touch()
for hop in hops:
    hop.stop()
spark.stop()
