"""A sink that skips a batch: a new checkpoint before an output that has its numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from lines import TRUE_AVAILABLE_NOW

from spark_azqueue import explain
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_checkpoint_tools import LOGS


@pytest.mark.core
@pytest.mark.parametrize("mode", ["leases", "log"])
def test_a_new_checkpoint_on_an_old_output_stops_before_it_deletes(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path, mode: str
) -> None:
    """A plain start: nobody listens, and nobody supervises."""
    options = {name: text.format(folder=tmp_path) for name, text in LOGS[mode].items()}

    def run(checkpoint: str, **more: str) -> None:
        given = {"maxMessagesPerTrigger": "5", **options, **more}
        writer = streams.read(fake.connection_string, queue, **given).writeStream
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint)).format("parquet")
        if checkpoint == "one" or TRUE_AVAILABLE_NOW:  # else a run is over before it is noticed
            writer = writer.trigger(availableNow=True)
        query = writer.start(str(tmp_path / "out"))
        streams.queries.append(query)
        assert query.awaitTermination(120)

    def has() -> set[str]:
        return {row.body for row in streams.spark.read.parquet(str(tmp_path / "out")).collect()}

    fake.create_queue(queue)
    fake.put_many(queue, [f"first {number}" for number in range(20)])
    while fake.count(queue):  # on Spark 4.0 and 4.1 a run is one batch, which the next one deletes
        run("one")
    before = has()
    second = {f"second {number}" for number in range(20)}
    fake.put_many(queue, sorted(second))
    elsewhere = {"writeAheadLog": f"file:{tmp_path / 'another'}"} if mode == "log" else {}

    for _ in range(3):  # as a scheduler that repeats what failed
        with pytest.raises(Exception, match="AZQUEUE_BATCH_SKIPPED") as raised:
            run("two", **elsewhere)
        assert explain(raised.value).error == "CheckpointMismatch"
    assert has() == before
    fake.clock.advance(3_600)
    assert fake.count(queue) == 20, "nothing is deleted"


def test_a_query_that_needs_no_rows_is_refused(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b", "c"])
    frame = streams.read(fake.connection_string, queue, maxMessagesPerTrigger="1").limit(0)
    writer = frame.writeStream.format("noop")
    query = writer.option("checkpointLocation", str(streams.checkpoint)).start()
    streams.queries.append(query)
    with pytest.raises(Exception, match="AZQUEUE_BATCH_SKIPPED"):
        query.awaitTermination(120)
    fake.clock.advance(3_600)
    assert fake.count(queue) == 3
