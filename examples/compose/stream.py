"""The job of the compose file: orders go in and come out, with metrics at port 9464.

The account is in AZURE_STORAGE_CONNECTION_STRING. About one message in five hundred is
no order and makes its batch fail, so that there is poison to look at.
"""

from __future__ import annotations

import os
import sys

import prometheus_client
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import AzQueueListener, export_to_prometheus, run_until_done

DATA = os.environ.get("DATA", "/data")
BAD_SHARE = float(os.environ.get("BAD_SHARE", "0.002"))
PORT = int(os.environ.get("METRICS_PORT", "9464"))


def send(
    spark: SparkSession,
    azure: dict[str, str],
    rows_per_second: int = 5,
    bad_share: float = BAD_SHARE,
) -> StreamingQuery:
    """Put some orders into the queue each second, and some texts that are none."""
    rates = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", str(rows_per_second))
        .load()
    )
    bodies = rates.selectExpr(
        f"IF(rand() < {bad_share}, 'no order', string(value)) AS body"
    )
    return (
        bodies.writeStream.format("azqueue")
        .options(**azure)
        .queryName("send")
        .option("queue", "orders")
        .option("createQueue", "true")
        .option("checkpointLocation", f"{DATA}/send")
        .start()
    )


def read(
    spark: SparkSession, azure: dict[str, str], every: str = "5 seconds"
) -> StreamingQuery:
    """Read the orders. A body that is no number makes the batch fail."""

    def take(batch: DataFrame, number: int) -> None:
        orders = batch.selectExpr("message_id", "CAST(body AS BIGINT) AS order_id")
        orders.write.mode("append").parquet(f"{DATA}/orders")

    messages = (
        spark.readStream.format("azqueue").options(**azure).option("queue", "orders")
    )
    return (
        messages.option("maxDequeueCount", "2")
        .option("createQueue", "true")
        .load()
        .writeStream.foreachBatch(take)
        .queryName("orders")
        .option("checkpointLocation", f"{DATA}/read")
        .trigger(processingTime=every)
        .start()
    )


def main() -> int:
    """Run both until the reader cannot go on. Returns the exit status."""
    spark = SparkSession.builder.master("local[2]").appName("orders").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    export_to_prometheus(AzQueueListener.attach(spark))
    prometheus_client.start_http_server(PORT)
    azure: dict[str, str] = {}  # the account is in the environment
    sender = send(spark, azure)
    try:
        result = run_until_done(
            lambda: read(spark, azure), restarts=100, first_wait=1, longest_wait=10
        )
    finally:
        sender.stop()
    print(result.explanation or "ended", file=sys.stderr)
    return 0 if result.finished else 1


if __name__ == "__main__":
    sys.exit(main())
