"""A job for cron or a scheduler: read what is there, delete it, end.

python examples/scheduled_job.py "<connection string>"
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from spark_azqueue import IngestJob, RunResult

from surroundings import from_command_line, send


# [recipe]
def run(spark: SparkSession, azure: dict[str, str], folder: Path) -> RunResult:
    """Append what is in `example-readings` to the table, and delete it."""
    source = azure | {"queue": "example-readings"}
    job = IngestJob(source, folder=f"{folder}/job", into=f"{folder}/readings")
    result = job.drain(spark)
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
