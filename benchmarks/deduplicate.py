"""A contender that keeps one row for each key, in one of several ways: see `duplicates_section`.

    python benchmarks/deduplicate.py NAME SERVER

The rows come from files, one for each batch, that are made before the clock starts. So nothing but
Spark and its state is measured.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
import spark
from cost import Cost
from harness import Server
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from spark_azqueue.rows.duplicates import without_duplicates

if TYPE_CHECKING:
    import pandas

WITHIN_S = 7 * 86_400
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_SCHEMA = "message_id STRING, id BIGINT, body STRING"


class First(StatefulProcessor):
    """By hand: the first row of a key that has no state; the state ends after `WITHIN_S`."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Take the state."""
        self._seen = handle.getValueState("seen", "seen BOOLEAN", ttlDurationMs=WITHIN_S * 1000)

    def handleInputRows(
        self, key: Any, rows: Iterator[pandas.DataFrame], timerValues: Any
    ) -> Iterator[pandas.DataFrame]:
        """The rows of one key in a batch."""
        if self._seen.exists():
            return
        self._seen.update((True,))
        yield next(rows).head(1)

    def close(self) -> None:
        """Nothing to close."""


def by_hand(rows: DataFrame) -> DataFrame:
    """With transformWithState."""
    return rows.groupBy("id").transformWithStateInPandas(
        First(), _SCHEMA, outputMode="append", timeMode="ProcessingTime"
    )


WAYS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "none": lambda rows: rows,
    "without_duplicates": lambda rows: without_duplicates(rows, "id", within=f"{WITHIN_S} seconds"),
    "transformWithStateInPandas": by_hand,
}


def main() -> None:
    """Do the rounds that are asked for on standard input."""
    _, url = sys.argv[1:]
    server = Server(url)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        session = spark.session(folder, **{"spark.sql.streaming.stateStore.providerClass": _ROCKS})
        made: set[tuple[int, int]] = set()
        harness.answer({"ready": True})
        for work in harness.rounds():
            files, rows = work["files"], work["rows"]
            source = place / f"{files}-{rows}"
            if (files, rows) not in made:
                _make(session, source, files, rows)
                made.add((files, rows))
            if "within_s" in work:
                harness.answer(_expiring(session, source, place / "c", **work))
            else:
                harness.answer(_round(session, server, WAYS[work["way"]], source, place / "c"))


def _make(session: SparkSession, source: Path, files: int, rows: int) -> None:
    """So many files of so many rows. A tenth has the key of an earlier row: of the same file, or of
    the third one before."""
    number = sf.col("id")
    before = sf.greatest(number - 19 - 3 * rows, sf.lit(0))
    key = sf.when(number % 20 == 9, number - 9).when(number % 20 == 19, before).otherwise(number)
    frame = session.range(files * rows, numPartitions=files).select(
        sf.uuid().alias("message_id"),
        key.alias("id"),
        sf.expr("repeat('x', 200)").alias("body"),
    )
    frame.write.parquet(str(source))


def _round(
    session: SparkSession,
    server: Server,
    way: Callable[[DataFrame], DataFrame],
    source: Path,
    checkpoint: Path,
) -> dict[str, Any]:
    shutil.rmtree(checkpoint, ignore_errors=True)
    read = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    frame = way(read.parquet(str(source)))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    rows = session.read.parquet(str(source)).count()
    cost = Cost(server)
    # Not availableNow: transformWithState with a time to live always asks for one more batch.
    query = writer.start()
    try:
        harness.wait_until(lambda: _read(query) >= rows, f"{rows} rows")
        saw = cost.so_far()
    finally:
        query.stop()
    batches = _batches(query)
    states = [each["stateOperators"][0] for each in batches if each["stateOperators"]]
    saw["messages"] = sum(each["numInputRows"] for each in batches)
    saw["keys"] = states[-1]["numRowsTotal"] if states else 0
    saw["state_bytes"] = states[-1]["memoryUsedBytes"] if states else 0
    saw["checkpoint_bytes"] = _size(checkpoint)
    return saw


def _expiring(
    session: SparkSession,
    source: Path,
    checkpoint: Path,
    *,
    files: int,
    rows: int,
    within_s: int,
    every_s: float,
    retained: int,
) -> dict[str, Any]:
    """A batch each `every_s`, of keys that are forgotten after `within_s`: what there is when.

    retained: how many batches Spark keeps in the checkpoint (100 without this).
    """
    shutil.rmtree(checkpoint, ignore_errors=True)
    session.conf.set("spark.sql.streaming.minBatchesToRetain", str(retained))
    read = session.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
    frame = without_duplicates(read.parquet(str(source)), "id", within=f"{within_s} seconds")
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime=f"{every_s} seconds").start()
    sizes: dict[int, int] = {}

    def has_read_all() -> bool:
        batches = _batches(query)
        if len(batches) not in sizes:
            sizes[len(batches)] = _size(checkpoint)
        return _read(query) >= files * rows

    try:
        harness.wait_until(has_read_all, f"{files} batches")
    finally:
        query.stop()
        session.conf.unset("spark.sql.streaming.minBatchesToRetain")
    began = [datetime.fromisoformat(each["timestamp"]).timestamp() for each in _batches(query)]
    series = [
        {
            "at_s": at - began[0],
            "keys": each["stateOperators"][0]["numRowsTotal"],
            "state_bytes": each["stateOperators"][0]["memoryUsedBytes"],
            "checkpoint_bytes": sizes.get(number),
        }
        for number, (at, each) in enumerate(zip(began, _batches(query), strict=True), 1)
    ]
    return {"series": series}


def _batches(query: StreamingQuery) -> list[Any]:
    return [each for each in query.recentProgress if each["numInputRows"]]


def _size(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # Spark removes what is old meanwhile
            found += path.stat().st_size if path.is_file() else 0
    return found


def _read(query: StreamingQuery) -> int:
    if failed := query.exception():
        raise RuntimeError(str(failed))
    return sum(each["numInputRows"] for each in query.recentProgress)


if __name__ == "__main__":
    main()
