"""Empty a queue, with a progress bar.

python examples/drain_with_progress.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import RunResult, drain

from surroundings import from_command_line, send


# [recipe]
def empty(spark: SparkSession, azure: dict[str, str], folder: Path) -> RunResult:
    """Read `example-backlog` to its end."""
    options = azure | {"queue": "example-backlog", "maxMessagesPerTrigger": "500"}

    def start() -> StreamingQuery:
        messages = spark.readStream.format("azqueue").options(**options).load()
        return (
            messages.select("message_id", "body")
            .writeStream.format("parquet")
            .option("path", str(folder / "backlog"))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )

    return drain(start, options, bar=True)


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send 1,000 messages, and drain them."""
    send(
        spark, azure, "example-backlog", [f"message {number}" for number in range(1000)]
    )
    result = empty(spark, azure, folder)
    print(result.messages, "messages,", result.left, "left;", end=" ")
    print(spark.read.parquet(str(folder / "backlog")).count(), "rows")


if __name__ == "__main__":
    main(*from_command_line())
