"""Calls to an API that limits calls per second.

python examples/paced_calls.py "<connection string>"
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send


def call(body: str) -> None:
    """Stand in for your service: write down when it was called."""
    folder, number = json.loads(body)
    (Path(folder) / f"{number} of {os.getpid()}").write_text(str(time.monotonic()))


# [recipe]
RATE, TASKS = 20, 2  # calls a second; calls at the same time


def paced(rows: Iterable[Row]) -> None:
    """Call the API for each row, at most RATE / TASKS times a second."""
    for row in rows:
        begin = time.monotonic()
        call(row.body)
        time.sleep(max(0.0, TASKS / RATE - (time.monotonic() - begin)))


def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Call the API for each message of `example-calls`."""

    def take(batch: DataFrame, number: int) -> None:
        batch.repartition(TASKS).foreachPartition(paced)

    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("maxMessagesPerTrigger", 30 * RATE)  # half a minute
    writer = messages.option("queue", "example-calls").load().writeStream
    writer = writer.foreachBatch(take).trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{folder}/checkpoint").start()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send 20 messages, and show how long their calls took."""
    calls = folder / "calls"
    calls.mkdir()
    bodies = [json.dumps([str(calls), number]) for number in range(20)]
    send(spark, azure, "example-calls", bodies)
    start(spark, azure, folder).awaitTermination()
    times = [float(path.read_text()) for path in calls.iterdir()]
    print(f"{len(times)} calls in {max(times) - min(times):.2f} seconds")


if __name__ == "__main__":
    main(*from_command_line())
