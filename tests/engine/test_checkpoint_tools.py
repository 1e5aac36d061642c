"""What Spark itself does to checkpoints: state in more partitions, progress noted late."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.duplicates import without_duplicates
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PATIENCE_S = 120.0


@pytest.fixture
def state_in_two(spark: SparkSession) -> Iterator[None]:
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


LOGS = {
    "leases": {},
    "log": {"writeAheadLog": "file:{folder}/wal"},
    "executors": {
        "writeAheadLog": "file:{folder}/wal",
        "deleteAfter": "log",
        "leaseOn": "executors",
    },
}


@pytest.fixture(params=LOGS)
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return {name: text.format(folder=tmp_path) for name, text in LOGS[request.param].items()}


def test_state_gets_more_partitions_between_two_runs(
    streams: Streams,
    fake: FakeQueueService,
    queue: str,
    state_in_two: None,
    options: dict[str, str],
) -> None:
    """Spark adds a batch to the checkpoint that reads nothing; the next run goes on behind it."""

    def run() -> list[str]:
        streams.rows.clear()
        messages = streams.read(fake.connection_string, queue, **options)
        keyed = messages.select("message_id", "body", sf.col("body").alias("key"))
        streams.collect(without_duplicates(keyed, "key"), availableNow=True).awaitTermination(240)
        return sorted(streams.bodies())

    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b", "b"])
    assert run() == ["a", "b"]

    streams.spark._streamingCheckpointManager.repartition(str(streams.checkpoint), 4)  # noqa: SLF001

    fake.put_many(queue, ["b", "c"])
    assert run() == ["c"]
    assert fake.count(queue) == 0


def started(streams: Streams, frame: DataFrame, sink: str) -> StreamingQuery:
    """With a checkpoint that is written seldom, and beside the batches."""
    query = (
        frame.writeStream.format(sink)
        .option("checkpointLocation", str(streams.checkpoint))
        .option("asyncProgressTrackingEnabled", "true")
        .option("asyncProgressTrackingCheckpointIntervalMs", "3600000")
        .start()
    )
    streams.queries.append(query)
    return query


def rows_of(query: StreamingQuery) -> int:
    return sum(each["numInputRows"] for each in query.recentProgress)


def wait_for(query: StreamingQuery, is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert query.exception() is None, str(query.exception())
        assert time.monotonic() < until
        time.sleep(0.05)


def test_progress_that_is_noted_late_loses_nothing(
    streams: Streams, fake: FakeQueueService, queue: str, options: dict[str, str]
) -> None:
    fake.create_queue(queue)

    def run(part: str) -> None:
        fake.put_many(queue, [f"{part} {number}" for number in range(20)])
        rows = streams.read(fake.connection_string, queue, maxMessagesPerTrigger="5", **options)
        query = started(streams, rows, "noop")
        wait_for(query, lambda: fake.count(queue) == 0 and rows_of(query) >= 20)
        query.stop()

    run("first")
    offsets = sorted(int(path.name) for path in (streams.checkpoint / "offsets").glob("[0-9]*"))
    assert offsets == [0], "the checkpoint is far behind"
    run("second")


def test_sinks_that_do_not_take_late_progress_are_refused_by_spark(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    with pytest.raises(IllegalArgumentException, match="does not support async progress tracking"):
        started(streams, streams.read(fake.connection_string, queue).select("body"), "azqueue")
