"""A query that restarts after each failure, until the poison message is isolated.

python examples/supervised.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import RunResult, run_until_done

from surroundings import bodies_of, from_command_line, send


# [recipe]
def supervise(spark: SparkSession, azure: dict[str, str], folder: Path) -> RunResult:
    """Read all of `example-jobs`. Poison goes to `example-jobs-poison`."""

    def take(batch: DataFrame, number: int) -> None:
        rows = batch.selectExpr("message_id", "CAST(body AS INT) AS number")
        rows.write.mode("append").parquet(f"{folder}/numbers")  # 'seven' fails

    def start() -> StreamingQuery:
        messages = spark.readStream.format("azqueue").options(**azure)
        messages = messages.option("queue", "example-jobs")
        messages = messages.option("maxDequeueCount", "2")
        writer = messages.load().writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        return writer.foreachBatch(take).start()

    return run_until_done(start, restarts=10, first_wait=0.1)


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Send good messages and a bad one, and show where each went."""
    send(spark, azure, "example-jobs", ["1", "2", "seven", "4"])
    result = supervise(spark, azure, folder)
    print(f"finished: {result.finished}, restarts: {result.restarts}")
    print(
        "read:",
        sorted(
            row.number for row in spark.read.parquet(str(folder / "numbers")).collect()
        ),
    )
    print("poison:", bodies_of(spark, azure, "example-jobs-poison"))


if __name__ == "__main__":
    main(*from_command_line())
