"""Messages for any day: a table keeps them, and a daily job sends what is due soon.

python examples/any_day.py "<connection string>"
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from surroundings import bodies_of, from_command_line


# [recipe]
def send_due(spark: SparkSession, azure: dict[str, str], on: Path, today: date) -> None:
    """Send what is due from three days ago until tomorrow (UTC), each row once.

    Run it once a day. A day that an earlier run has sent is skipped. on: a folder.
    """
    for day in (today + timedelta(days=n) for n in range(-3, 2)):
        rows = spark.read.parquet(f"{on}/reminders")
        rows = rows.where(F.to_date("due") == F.lit(day))
        rows = rows.select("body", F.col("due").alias("visible_at"))
        writer = rows.write.format("azqueue").mode("append").options(**azure)
        writer = writer.option("queue", "example-reminders")
        writer = writer.option("transactionLog", f"file:{on}/log")
        writer = writer.option("txnAppId", "reminders")
        writer.option("txnVersion", str(day.toordinal())).save()


# [end]


def main(spark: SparkSession, azure: dict[str, str], folder: Path) -> None:
    """Keep a reminder for each of 30 days, and send those of today and tomorrow."""
    noon = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0)
    rows = [(f"day {n}", noon + timedelta(days=n)) for n in range(30)]
    table = spark.createDataFrame(rows, "body STRING, due TIMESTAMP")
    table.write.parquet(f"{folder}/reminders")
    more = azure | {"createQueue": "true"}
    for _ in range(2):
        send_due(spark, more, folder, noon.date())
    print(*bodies_of(spark, azure, "example-reminders"))


if __name__ == "__main__":
    main(*from_command_line())
