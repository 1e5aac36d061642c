"""Urgent messages first, and queues of several accounts, as one stream.

python examples/priorities_and_accounts.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send


# [recipe]
def messages_of(spark: SparkSession, azure: dict[str, str], account: str) -> DataFrame:
    """The queues of one account, the urgent one first, and the account in each row."""
    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("queue", "example-urgent,example-usual")
    messages = messages.option("queuePriority", "strict")
    return messages.load().withColumn("account", F.lit(account))


def start(
    spark: SparkSession, accounts: dict[str, dict[str, str]], folder: Path
) -> StreamingQuery:
    """Read the queues of all accounts into one output. accounts: name -> options."""
    first, *others = [
        messages_of(spark, azure, name) for name, azure in accounts.items()
    ]
    for other in others:
        first = first.unionByName(other)
    return (
        first.select("account", "queue", "message_id", "body")
        .writeStream.format("parquet")
        .option("path", str(folder / "all"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send to both queues, and show what came. (One account; each more is a line.)"""
    send(spark, azure, "example-usual", ["a", "b"])
    send(spark, azure, "example-urgent", ["now"])
    start(spark, {"shop": azure}, folder).awaitTermination()
    spark.read.parquet(str(folder / "all")).drop("message_id").show()


if __name__ == "__main__":
    main(*from_command_line())
