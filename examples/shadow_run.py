"""Before a release, compare two versions of a transformation on logged batches.

python examples/shadow_run.py "<connection string>"
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from surroundings import from_command_line, send


# [recipe]
def differences(
    rows: DataFrame,
    old: Callable[[DataFrame], DataFrame],
    new: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Return the rows that only one of the two versions makes."""
    before, after = old(rows), new(rows)
    gone = before.exceptAll(after).withColumn("version", F.lit("old"))
    made = after.exceptAll(before).withColumn("version", F.lit("new"))
    return gone.unionByName(made).orderBy("message_id", "version")


def logged(spark: SparkSession, folder: Path, since: str) -> DataFrame:
    """Return rows logged since a time, such as 2026-11-17T08:00:00Z."""
    log = spark.read.format("azqueue").option("readLog", f"file:{folder}/log")
    return log.option("startingAt", since).load()


# [end]


def first(rows: DataFrame) -> DataFrame:
    """The version of today."""
    return rows.selectExpr("message_id", "CAST(body AS INT) AS amount")


def second(rows: DataFrame) -> DataFrame:
    """The version to release: amounts are never negative."""
    return rows.selectExpr("message_id", "greatest(CAST(body AS INT), 0) AS amount")


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """A query with a log reads ten messages; three of them make the difference."""
    bodies = [str(number) for number in range(-3, 7)]
    send(spark, azure, "example-shadow", bodies)
    options = {"queue": "example-shadow", "writeAheadLog": f"file:{folder}/log"}
    messages = spark.readStream.format("azqueue").options(**azure, **options).load()
    writer = first(messages).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.start(f"{folder}/amounts").awaitTermination()

    found = differences(logged(spark, folder, "2026-01-01"), first, second)
    found.select("version", "amount").show()
    print(found.count(), "rows differ")


if __name__ == "__main__":
    main(*from_command_line())
