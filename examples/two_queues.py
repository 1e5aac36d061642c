"""Two queues into two outputs in one Spark session, with a query for each queue.

python examples/two_queues.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from surroundings import from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Read two queues into two tables. Raise the first error of either query."""
    queries = []
    for kind in ("payments", "refunds"):
        messages = spark.readStream.format("azqueue").options(**azure)
        rows = messages.option("queue", f"example-{kind}").load()
        writer = rows.select("message_id", "body", "insertion_time").writeStream
        writer = writer.queryName(f"read-{kind}").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoints/{kind}")
        queries.append(writer.start(f"{folder}/{kind}"))
    for query in queries:
        query.awaitTermination()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send some of both, and count the rows of each output."""
    send(spark, azure, "example-payments", [f"payment {number}" for number in range(5)])
    send(spark, azure, "example-refunds", [f"refund {number}" for number in range(3)])
    start(spark, azure, folder)
    for kind in ("payments", "refunds"):
        print(kind, spark.read.parquet(str(folder / kind)).count())


if __name__ == "__main__":
    main(*from_command_line())
