"""The example's query, which kills itself at a step: python postgres_job.py SETTINGS.json"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

settings = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
sys.path[:0] = settings["path"]

import into_postgres  # noqa: E402
import psycopg  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

STEP = settings["step"]
"""Before the batch number, before the rows, amid them, before the commit, behind it, or ""."""


def die_at(step: str) -> None:
    if step == STEP:
        os.killpg(0, signal.SIGKILL)


class Connection(psycopg.Connection[Any]):
    """One that dies at a step of its transaction."""

    def execute(self, query: Any, params: Any = None, **more: Any) -> Any:
        die_at("number")
        cursor = super().execute(query, params, **more)
        die_at("rows")
        return cursor

    def commit(self) -> None:
        die_at("commit")
        super().commit()
        die_at("committed")


class Copy(psycopg.Copy):
    """One that dies after some rows."""

    written = 0

    def write_row(self, row: Any) -> None:
        super().write_row(row)
        self.written += 1
        if self.written == 7:
            die_at("amid")


def main() -> None:
    os.setpgid(0, 0)
    psycopg.connect = Connection.connect
    psycopg.cursor.Copy = Copy  # type: ignore[attr-defined]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.streaming.numRecentProgressUpdates", "2")
        .getOrCreate()
    )
    azure = {"secret.connectionString": settings["connection"], "maxMessagesPerTrigger": "20"}
    folder, address = Path(settings["folder"]), settings["address"]
    into_postgres.start(spark, azure, folder, address).awaitTermination()


if __name__ == "__main__":
    main()
