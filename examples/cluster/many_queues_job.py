"""A job for spark-submit: many queues, read by the executors of a cluster.

spark-submit --master <master> examples/cluster/many_queues_job.py \\
    --queues "orders-*" --log blob:checkpoints/orders-log --slots 16 \\
    --rows <table's folder> --checkpoint <folder>

The package is installed on the driver and on every executor.
The account is in AZURE_STORAGE_CONNECTION_STRING, the account of the log in
LOG_CONNECTION_STRING, if it is another one: both on the driver alone.
"""

from __future__ import annotations

import argparse
import os

from pyspark.sql import SparkSession


def main() -> None:
    """Read until the queues are empty, or for ever with --forever."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--queues", required=True, help="names and patterns")
    parser.add_argument("--log", required=True, help="blob:<container>/<folder>")
    parser.add_argument("--slots", default="auto", help="most tasks of a batch")
    parser.add_argument("--rows", required=True, help="where the Parquet files go")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--forever", action="store_true")
    given = parser.parse_args()
    account = {"secret.connectionString": os.environ["AZURE_STORAGE_CONNECTION_STRING"]}
    if other := os.environ.get("LOG_CONNECTION_STRING"):
        account["secret.blobConnectionString"] = other

    spark = SparkSession.builder.appName("many-queues").getOrCreate()
    writer = (
        spark.readStream.format("azqueue")
        .options(**account)
        .option("queue", given.queues)
        .option("leaseOn", "executors")
        .option("executorSlots", given.slots)
        .option("writeAheadLog", given.log)
        .option("deleteAfter", "log")
        .load()
        .select("queue", "message_id", "body")
        .writeStream.format("parquet")
        .queryName("many-queues")
        .option("path", given.rows)
        .option("checkpointLocation", given.checkpoint)
    )
    if not given.forever:
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
