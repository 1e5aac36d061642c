"""A job to test: orders from a queue into Parquet."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def run(spark: SparkSession, azure: dict[str, str], folder: str) -> None:
    """Read what is in the queue `orders`, and end."""
    order = F.from_json("body", "order_id BIGINT, quantity INT")
    (
        spark.readStream.format("azqueue")
        .options(**azure, queue="orders")
        .load()
        .select("message_id", "body", order.alias("o"))
        .select("message_id", "body", "o.order_id", "o.quantity")
        .writeStream.format("parquet")
        .option("path", f"{folder}/orders")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )
