"""Two queues, two outputs, one Spark: a query for each.

python examples/two_queues.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send


# [recipe]
def start(
    spark: SparkSession, azure: dict[str, str], folder: Path, kind: str
) -> StreamingQuery:
    """Read the queue `example-<kind>` into the folder of that name."""
    messages = spark.readStream.format("azqueue").options(**azure)
    return (
        messages.option("queue", f"example-{kind}")
        .load()
        .select("message_id", "body", "insertion_time")
        .writeStream.format("parquet")
        .queryName(f"read-{kind}")
        .option("path", str(folder / kind))
        .option(
            "checkpointLocation", str(folder / "checkpoints" / kind)
        )  # one for each query
        .trigger(availableNow=True)  # without this line it goes on for ever
        .start()
    )


def start_both(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Run both at once. The first error of either is raised."""
    queries = [start(spark, azure, folder, kind) for kind in ("payments", "refunds")]
    for query in queries:
        query.awaitTermination()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send some of both, and count the rows of each output."""
    send(spark, azure, "example-payments", [f"payment {number}" for number in range(5)])
    send(spark, azure, "example-refunds", [f"refund {number}" for number in range(3)])
    start_both(spark, azure, folder)
    for kind in ("payments", "refunds"):
        print(kind, spark.read.parquet(str(folder / kind)).count())


if __name__ == "__main__":
    main(*from_command_line())
