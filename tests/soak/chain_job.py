"""The Spark program that is killed: a chain of two queries, from queue to queue to table.

    python chain_job.py settings.json

The first reads queues with a write-ahead log and writes a queue by transactions. The second reads
that with a log of its own, into Parquet files. A body in the middle holds the id and the body of
the message that it was made of. Ends as job.py does.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from decoding import NOT_DECODED
from job import body, start_spark, wait
from pyspark.sql.functions import from_json, lit, ltrim


def run(settings: dict[str, Any]) -> int:
    """Run both queries until they are to stop, or one fails; return the exit status."""
    spark = start_spark(settings["scratch"])
    first, second = (
        spark.readStream.format("azqueue").options(**settings[each]).load()
        for each in ("first", "second")
    )
    Path(settings["starting_file"]).touch()
    told = first.select(first["message_id"].alias("id"), body(first))
    handed_on = told.selectExpr("to_json(struct(id, body)) AS body")
    paused = handed_on.mapInArrow(_paused(settings["pause_s"]), "body string")
    text = ltrim(body(second), lit(NOT_DECODED))  # JSON is never in base64
    arrived = second.select(from_json(text, "id string, body string").alias("sent"))
    checkpoints = settings["checkpoints"]
    queries = [
        paused.writeStream.format("azqueue")
        .options(**settings["sink"])
        .option("checkpointLocation", checkpoints[0])
        .start(),
        arrived.select("sent.*")
        .writeStream.format("parquet")
        .option("checkpointLocation", checkpoints[1])
        .start(settings["table"]),
    ]
    return wait(spark, queries, Path(settings["stop_file"]))


def _paused(longest_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Some work in each task: it takes no time at all as often as up to the longest."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(max(0.0, random.uniform(-1, 1)) * longest_s)
        yield from batches

    return work


if __name__ == "__main__":
    sys.exit(run(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
