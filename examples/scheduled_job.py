"""A job for cron or a scheduler: read what is there, delete it, end.

python examples/scheduled_job.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from surroundings import from_command_line, send


# [recipe]
def run(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Append what is in `example-readings` to the output. Raises the query's error."""
    messages = spark.readStream.format("azqueue").options(**azure)
    rows = messages.option("queue", "example-readings").load()
    rows = rows.select("message_id", "body", "insertion_time")
    writer = rows.writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.start(f"{folder}/readings").awaitTermination()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Run it twice, with new messages before each run."""
    for day in ("monday", "tuesday"):
        send(
            spark,
            azure,
            "example-readings",
            [f"{day} {number}" for number in range(10)],
        )
        run(spark, azure, folder)
        print(day, spark.read.parquet(str(folder / "readings")).count())


if __name__ == "__main__":
    main(*from_command_line())
