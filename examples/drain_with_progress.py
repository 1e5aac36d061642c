"""Empty a queue, with a progress bar. (On Spark 4.0 and 4.1 it shows what was read.)

python examples/drain_with_progress.py "<connection string>"
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import AzQueueListener

from surroundings import from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Read `example-backlog` to its end."""
    messages = spark.readStream.format("azqueue").options(**azure)
    return (
        messages.option("queue", "example-backlog")
        .option("maxMessagesPerTrigger", "500")
        .load()
        .select("message_id", "body")
        .writeStream.format("parquet")
        .queryName("drain")
        .option("path", str(folder / "backlog"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def bars(query: StreamingQuery, listener: AzQueueListener) -> Iterator[str]:
    """A bar each second, and one when the query has ended. Raises the query's error."""
    running = True
    while running:
        running = not query.awaitTermination(1)
        if not running:
            until_told(query, listener)
        metrics = listener.metrics(query.name)
        read = sum(each["messages"] for each in metrics)
        backlog = (metrics[0]["backlog"] or {}).values() if metrics else []
        total = max(read, sum(backlog)) if running else read
        share = read / total if total else float(not running)
        yield f"[{'#' * round(40 * share):40}] {read:,} of {total:,}"


def until_told(query: StreamingQuery, listener: AzQueueListener) -> None:
    """Wait until the listener has heard of the end, but five seconds at most."""
    for _ in range(50):
        if listener.activity().get(query.name) is False:
            return
        time.sleep(0.1)


def drain(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Start the query, and print its bar."""
    listener = AzQueueListener.attach(spark, keep=10_000)
    for bar in bars(start(spark, azure, folder), listener):
        print(bar, end="\r", flush=True)
    print()
    spark.streams.removeListener(listener)


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send 1,000 messages, and drain them."""
    send(
        spark, azure, "example-backlog", [f"message {number}" for number in range(1000)]
    )
    drain(spark, azure, folder)
    print(spark.read.parquet(str(folder / "backlog")).count(), "rows")


if __name__ == "__main__":
    main(*from_command_line())
