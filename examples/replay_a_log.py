"""Reprocess batches of a write-ahead log, and let a second query follow the first.

python examples/replay_a_log.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from surroundings import from_command_line, send


def orders(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Read the queue, with a log of 1,000 batches. Amounts are wrong."""
    messages = (
        spark.readStream.format("azqueue")
        .options(**azure)
        .option("queue", "example-sales")
        .option("maxMessagesPerTrigger", "4")
        .option("writeAheadLog", f"file:{folder}/log")
        .option("writeAheadLogRetention", "1000")
        .load()
    )
    bug = "substring(body, 1, 1) AS amount"
    run(messages.selectExpr("message_id", bug), folder / "orders")


# [recipe]
def again(spark: SparkSession, folder: Path, since: str) -> DataFrame:
    """Amounts of logged messages. since: a time such as 2026-11-17T08:00:00Z."""
    log = spark.read.format("azqueue").option("readLog", f"file:{folder}/log")
    rows = log.option("startingAt", since).load()
    return rows.selectExpr("log_batch", "message_id", "CAST(body AS INT) AS amount")


def audit(spark: SparkSession, folder: Path) -> DataFrame:
    """The same messages for a second query (Spark 4.2)."""
    log = spark.readStream.format("azqueue").option("readLog", f"file:{folder}/log")
    return log.load().select("log_batch", "message_id", "body")


# [end]


def run(rows: DataFrame, output: Path) -> None:
    """Write what is there."""
    writer = rows.writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{output}-checkpoint")
    writer.start(str(output)).awaitTermination()


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Two runs of the first query, one look back, two runs of the second."""
    for start in (10, 20):
        numbers = range(start, start + 10)
        send(spark, azure, "example-sales", [str(number) for number in numbers])
        orders(spark, azure, folder)
        run(audit(spark, folder), folder / "audit")
    wrong = spark.read.parquet(str(folder / "orders"))
    right = again(spark, folder, "2026-01-01")
    amounts = wrong.join(right, "message_id").select(
        wrong.amount, right.amount.alias("right")
    )
    print("wrong", amounts.where("amount != right").count(), "of", amounts.count())
    print("sum", right.agg({"amount": "sum"}).first()[0])
    print("audit", spark.read.parquet(str(folder / "audit")).count())


if __name__ == "__main__":
    main(*from_command_line())
