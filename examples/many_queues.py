"""Many queues in one query that scales with the cluster: executors lease messages.

python examples/many_queues.py "<connection string>"

On a cluster the folder has to be one that the driver and every executor mount; or the
log is in blobs: writeAheadLog=blob:<container>/<folder>.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from surroundings import from_command_line, send

QUEUES = 6


# [recipe]
def start(spark: SparkSession, azure: dict[str, str], folder: Path) -> StreamingQuery:
    """Read all queues that match, on the executors, each message exactly once."""
    messages = spark.readStream.format("azqueue").options(**azure)
    messages = messages.option("queue", "example-many-*")
    messages = messages.option("leaseOn", "executors").option("deleteAfter", "log")
    messages = messages.option("writeAheadLog", f"file:{folder}/log")
    rows = messages.load().select("queue", "message_id", "body")
    writer = rows.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    return writer.trigger(availableNow=True).start(f"{folder}/rows")


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send to each queue, and count what was read of it."""
    for number in range(QUEUES):
        bodies = [f"message {each}" for each in range(10 + number)]
        send(spark, azure, f"example-many-{number}", bodies)
    start(spark, azure, folder).awaitTermination()
    rows = spark.read.parquet(str(folder / "rows")).groupBy("queue").count()
    for row in sorted(rows.collect()):
        print(row["queue"], row["count"])


if __name__ == "__main__":
    main(*from_command_line())
