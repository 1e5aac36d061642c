"""What Spark itself does to checkpoints: state in more partitions; where progress is noted late."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark_azqueue.commands.doctor.output_checks import compare
from spark_azqueue.rows.duplicates import without_duplicates
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


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
        streams.read_all(without_duplicates(keyed, "key"))
        return sorted(streams.bodies())

    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b", "b"])
    assert run() == ["a", "b"]

    streams.spark._streamingCheckpointManager.repartition(str(streams.checkpoint), 4)  # noqa: SLF001

    fake.put_many(queue, ["b", "c"])
    assert run() == ["c"]
    assert fake.count(queue) == 0


def test_sinks_that_do_not_take_late_progress_are_refused_by_spark(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    with pytest.raises(IllegalArgumentException, match="does not support async progress tracking"):
        (
            streams.read(fake.connection_string, queue)
            .select("body")
            .writeStream.format("azqueue")
            .option("checkpointLocation", str(streams.checkpoint))
            .option("asyncProgressTrackingEnabled", "true")
            .start()
        )


def test_the_doctor_sees_that_an_old_output_skips_new_batches(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """Spark's own folders; what it would lose is in docs/delivery.md."""
    fake.create_queue(queue)
    output, folder = str(tmp_path / "output"), str(streams.checkpoint)

    def run() -> None:
        fake.put_many(queue, ["a", "b"])
        frame = streams.read(fake.connection_string, queue)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start(output)
        assert query.awaitTermination(PATIENCE_S)

    run()
    run()
    (fits,) = compare(folder, output)
    streams.roll_back(1)
    (older,) = compare(folder, output)
    (lost,) = compare(f"{folder}-new", output)

    assert [each.good for each in (fits, older, lost)] == [True, False, False]
    assert "the checkpoint is new" in lost.text
