"""Few messages a minute into large files: a batch waits for enough messages.

python examples/few_full_files.py "<connection string>"
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Write a file for 100 readings, or after ten seconds for fewer."""
    readings = spark.readStream.format("azqueue").options(**azure)
    readings = readings.option("queue", "example-readings")
    readings = readings.option("minMessagesPerTrigger", "100")
    readings = readings.option("maxTriggerDelay", "10 seconds")
    readings = readings.option("messagesPerPartition", "100000")  # one file a batch
    writer = readings.load().writeStream
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.start(f"{folder}/readings")


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send 230 readings, ten at a time, and show how many rows each file has."""
    send(spark, azure, "example-readings", ["reading 0"] * 10)
    query = start(spark, azure, folder)
    for number in range(1, 23):
        send(spark, azure, "example-readings", [f"reading {number}"] * 10)
    rows = 0
    while rows < 230:
        time.sleep(1)
        if query.exception():
            raise RuntimeError(str(query.exception()))
        sizes = [each["numInputRows"] for each in query.recentProgress]
        rows = sum(sizes)
    query.stop()
    print("rows of each file:", *[size for size in sizes if size])


if __name__ == "__main__":
    main(*from_command_line())
