"""Urgent messages first, and queues of several accounts, as one stream.

python examples/priorities_and_accounts.py "<connection string>"
"""

from __future__ import annotations

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send


# [recipe]
def start(
    spark: SparkSession, accounts: dict[str, dict[str, str]], folder: Path
) -> StreamingQuery:
    """Read the queues of all accounts into one output. accounts: name -> options."""
    sources = []
    for name, azure in accounts.items():
        messages = spark.readStream.format("azqueue").options(**azure)
        messages = messages.option("queue", "example-urgent,example-usual")
        messages = messages.option("queuePriority", "strict")  # the urgent one first
        sources.append(messages.load().withColumn("account", F.lit(name)))
    rows = reduce(DataFrame.unionByName, sources)
    rows = rows.select("account", "queue", "message_id", "body")
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/all")


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send to both queues, and show what came. (One account; each more is a line.)"""
    send(spark, azure, "example-usual", ["a", "b"])
    send(spark, azure, "example-urgent", ["now"])
    start(spark, {"shop": azure}, folder).awaitTermination()
    spark.read.parquet(str(folder / "all")).drop("message_id").show()


if __name__ == "__main__":
    main(*from_command_line())
