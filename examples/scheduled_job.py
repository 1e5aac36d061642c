"""A job for cron or a scheduler: read what is there, delete it, end.

python examples/scheduled_job.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_azqueue import DrainResult, drain

from surroundings import from_command_line, send


# [recipe]
def run(spark: SparkSession, azure: dict[str, str], folder: Path) -> DrainResult:
    """Append what is in `example-readings` to the output, and delete it."""
    options = azure | {"queue": "example-readings"}

    def start() -> StreamingQuery:
        messages = spark.readStream.format("azqueue").options(**options).load()
        rows = messages.select("message_id", "body", "insertion_time")
        writer = rows.writeStream.trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
        return writer.start(f"{folder}/readings")

    result = drain(start, options)
    if not result.finished:
        raise SystemExit(result.explanation or result.reason or result)
    return result


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
