"""Two hops in a process of its own, to be killed by tests: queue, Spark, queue, Spark, table.

Reads <queue> into <queue>-mid by the options in SINK (JSON), and <queue>-mid into Parquet files in
`output`; each reader has a write-ahead log in the folder. Ends in good order when a file `stop`
appears.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

folder, queue = Path(sys.argv[1]), sys.argv[2]
account = {"secret.connectionString": os.environ["CONNECTION_STRING"]}
spark = (
    SparkSession.builder.master(os.environ["MASTER"])
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


def read(name: str) -> object:
    """A queue, with a log."""
    options = {"writeAheadLog": f"file:{folder}/wal-{name}", "maxMessagesPerTrigger": "100"}
    frame = spark.readStream.format("azqueue").options(**account, queue=name, **options)
    return frame.option("visibilityTimeout", "30").load().select("body")


hops = [
    read(queue)
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
