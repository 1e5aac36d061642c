"""Spark, an account, a folder and a few messages for the examples."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

USAGE = """usage: python {script} [<connection string>]

Without it, the environment variable AZURE_STORAGE_CONNECTION_STRING is used. For a
queue service on this machine: python -m spark_azqueue.testing"""


def from_command_line() -> tuple[SparkSession, dict[str, str], Path]:
    """Return a Spark session, the options of the account, and a new folder."""
    given = sys.argv[1:] or [os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")]
    if len(given) != 1 or "=" not in given[0]:
        raise SystemExit(USAGE.format(script=sys.argv[0]))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    folder = Path(tempfile.mkdtemp(prefix="azqueue-example-"))
    return spark, {"secret.connectionString": given[0]}, folder


def send(
    spark: SparkSession, azure: dict[str, str], queue: str, bodies: Iterable[str]
) -> None:
    """Put messages into a queue, which is created if it does not exist."""
    frame = spark.createDataFrame([(body,) for body in bodies], "body string")
    writer = frame.coalesce(1).write.format("azqueue").mode("append").options(**azure)
    writer.option("queue", queue).option("createQueue", "true").save()


def bodies_of(spark: SparkSession, azure: dict[str, str], queue: str) -> list[str]:
    """Bodies of the first messages in a queue (32 at most), which stay there."""
    peek = spark.read.format("azqueue").options(**azure).option("queue", queue)
    return sorted(row.body for row in peek.load().select("body").collect())
