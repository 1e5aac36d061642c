"""A contender that moves a queue into Parquet: `IngestJob`, or the job that one writes without it.

    python benchmarks/ingest.py NAME SERVER

Both have a write-ahead log, keep the messages that do not parse with their text, and take what is
in the queue: a round is one call of `drain`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import harness
import spark
from cost import Cost
from harness import Server
from pyspark.sql import SparkSession

from spark_azqueue import IngestJob, drain

_SCHEMA = "n BIGINT"
_SIZE = 1000
"""Bytes of a body."""


def by_job(session: SparkSession, options: dict[str, str], place: Path) -> None:
    """`IngestJob`."""
    job = IngestJob(options, _SCHEMA, folder=str(place / "job"), into=str(place / "table"))
    result = job.drain(session)
    assert result.finished, result


def by_hand(session: SparkSession, options: dict[str, str], place: Path) -> None:
    """`from_json`, with the text beside it, and Spark's file sink."""
    options = {**options, "writeAheadLog": f"file:{place}/job/log"}
    orders = session.readStream.format("azqueue").options(**options).load()
    parsed = orders.selectExpr(
        *("message_id", "queue", "insertion_time", "body"),
        f"from_json(body, '{_SCHEMA}') AS parsed",
    )
    rows = parsed.selectExpr(
        *("message_id", "queue", "insertion_time", "parsed.*"),
        "if(parsed.n IS NULL, body, NULL) AS body",
    )

    def start() -> Any:
        writer = rows.writeStream.option("checkpointLocation", f"{place}/job/checkpoint")
        writer = writer.option("path", f"{place}/table").trigger(availableNow=True)
        return writer.start()

    result = drain(start, options)
    assert result.finished, result


WAYS = {"ingest-job": by_job, "by-hand": by_hand}


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    name, url = sys.argv[1:]
    server = Server(url)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        session = spark.session(folder)
        harness.answer({"ready": True})
        for number, work in enumerate(harness.rounds()):
            harness.answer(_round(session, server, name, Path(folder) / str(number), **work))


def _round(
    session: SparkSession, server: Server, name: str, place: Path, messages: int
) -> dict[str, Any]:
    queue = f"{name}-{place.name}"
    server.fill(queue, messages, _SIZE)
    options = {"secret.connectionString": server.connection_string, "queue": queue}
    cost = Cost(server)
    WAYS[name](session, options, place)
    saw = cost.so_far()
    rows = session.read.parquet(str(place / "table")).count()
    assert rows == messages, f"{rows} rows of {messages} messages"
    assert server.left(queue) == 0
    saw["messages"], saw["size"] = messages, _SIZE
    saw["batches"] = len([*(place / "job").glob("checkpoint/commits/[0-9]*")])
    saw["files"] = len([*(place / "table").glob("*.parquet")])
    server.drop(queue)
    shutil.rmtree(place, ignore_errors=True)
    return saw


if __name__ == "__main__":
    main()
