"""A streaming job that writes into a Delta table, to be killed between Delta's commit and Spark's.

WAY says how it writes: `merge` as in docs/delivery.md, `txn` as in docs/exactly-once.md.
With LOG the source has a write-ahead log; with PACKED its messages are packs.
While a file `hold` stands in its folder, a batch that has written its rows waits there. It ends in
good order when a file `stop` appears, and leaves in `counts.json` how many rows the table has.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from spark_azqueue import unpack

folder, queue = Path(sys.argv[1]), sys.argv[2]
table = f"delta.`{folder}/table`"
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", ",".join(str(jar) for jar in Path(os.environ["JARS"]).glob("*.jar")))
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.databricks.delta.snapshotPartitions", "1")  # 50 small tasks otherwise
    .getOrCreate()
)
spark.sparkContext.setLogLevel("ERROR")


# [merge]
def merge(batch: DataFrame, number: int) -> None:
    """Insert what is not there yet: a message keeps its id at every redelivery."""
    batch.dropDuplicates(["message_id"]).createOrReplaceTempView("arrived")
    batch.sparkSession.sql(
        f"""
        MERGE INTO {table} AS t
        USING arrived AS a
        ON t.message_id = a.message_id
        WHEN NOT MATCHED THEN INSERT (message_id, body) VALUES (a.message_id, a.body)
        """
    )


# [/merge]


# [txn]
def append(batch: DataFrame, number: int) -> None:
    """Append; Delta skips a batch number that it has. Needs a source with a write-ahead log."""
    rows = batch.select("message_id", "body").write.format("delta").mode("append")
    rows = rows.option("txnAppId", "orders").option("txnVersion", number)
    rows.save(f"{folder}/table")


# [/txn]


def work(batch: DataFrame, number: int) -> None:
    {"merge": merge, "txn": append}[os.environ["WAY"]](batch, number)
    (folder / f"holding-{os.getpid()}").touch()
    while (folder / "hold").exists():
        time.sleep(0.05)


spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (message_id STRING, body STRING) USING delta")
messages = (
    spark.readStream.format("azqueue")
    .option("secret.connectionString", os.environ["CONNECTION_STRING"])
    .option("queue", queue)
    .options(**({"writeAheadLog": f"file:{folder}/wal"} if os.environ["LOG"] else {}))
    .load()
)
rows = unpack(messages, "body STRING") if os.environ.get("PACKED") else messages
query = (
    rows.writeStream.foreachBatch(work)
    .option("checkpointLocation", str(folder / "checkpoint"))
    .start()
)
while not (folder / "stop").exists():
    query.awaitTermination(0.1)
query.stop()
counts = spark.sql(f"SELECT count(*) AS n, count(DISTINCT message_id) AS ids FROM {table}").first()
(folder / "counts.json").write_text(json.dumps(counts.asDict()))
spark.stop()
