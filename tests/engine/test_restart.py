"""Restarts from the checkpoint: after a clean stop, and with a batch left unfinished."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_stream import PATIENCE_S, finish


def forget_last_commit(checkpoint: Path) -> None:
    """What a crash between the sink's work and Spark's commit log leaves behind."""
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.mark.core
def test_a_restart_settles_the_last_batch_before_anything_is_dequeued(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(100)])
    frame = streams.read(fake.connection_string, queue)
    # One batch and nothing after it: Spark commits it, but cannot tell the source any more.
    finish(streams.collect(frame, once=True))
    assert (len(streams.rows), fake.count(queue)) == (100, 100)

    fake.clock.advance(3600)  # the leases have run out: every message is there to be read again
    fake.put(queue, "new")
    fake.reset_counters()
    streams.read_all(frame)

    assert Counter(streams.bodies()) == Counter([f"m{i}" for i in range(100)] + ["new"])
    assert fake.count(queue) == 0
    operations = [entry.op for entry in fake.log if entry.op in ("delete", "dequeue")]
    assert operations[:100] == ["delete"] * 100, "settled first"


@pytest.mark.core
@pytest.mark.parametrize("stale", [False, True], ids=["leases alive", "leases run out and taken"])
def test_an_unfinished_batch_is_available_at_once_and_nothing_of_it_is_lost(
    streams: Streams, fake: FakeQueueService, queue: str, stale: bool
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(100)])
    frame = streams.read(fake.connection_string, queue)
    finish(streams.collect(frame, once=True))
    forget_last_commit(streams.checkpoint)
    first = sorted(streams.bodies())
    streams.rows.clear()
    if stale:  # somebody else dequeued some meanwhile: those receipts are refused
        fake.clock.advance(601)
        other = fake.connection_string
        from azure.storage.queue import QueueClient

        with QueueClient.from_connection_string(other, queue, api_version="2021-12-02") as client:
            next(client.receive_messages(messages_per_page=32, visibility_timeout=5).by_page())
        fake.clock.advance(6)
    fake.reset_counters()

    query = streams.collect(frame)
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)
    query.stop()

    assert sorted(streams.bodies()) == first == sorted(f"m{i}" for i in range(100))
    operations = [entry.op for entry in fake.log if entry.op in ("delete", "dequeue", "update")]
    first_dequeue = operations.index("dequeue")
    assert Counter(operations[:first_dequeue])["update"] >= 100, "released before anything else"
    assert "delete" not in operations[:first_dequeue]


@pytest.mark.core
def test_a_failing_batch_stops_the_query_and_deletes_nothing(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(50)])

    def fail(batch: DataFrame, number: int) -> None:
        batch.count()
        raise RuntimeError("the sink is down")

    frame = streams.read(fake.connection_string, queue)
    query = streams.collect(frame, fail)
    with pytest.raises(StreamingQueryException, match="the sink is down"):
        query.awaitTermination(PATIENCE_S)
    assert fake.requests["delete"] == 0
    assert fake.count(queue) == 50

    streams.read_all(frame)
    assert sorted(streams.bodies()) == sorted(f"m{i}" for i in range(50))
    assert fake.count(queue) == 0


@pytest.mark.core
def test_a_batch_that_outlasts_its_leases_gives_no_row_twice_after_a_clean_end(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    """The receipts in the checkpoint are dead, but one; the next run comes while all is hidden."""
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(20)])
    frame = streams.read(fake.connection_string, queue, visibilityTimeout="4")

    def is_long(batch: DataFrame, number: int) -> None:
        asked = fake.statuses["update", 204]
        assert fake.wait_until(lambda: fake.statuses["update", 204] >= asked + 19, PATIENCE_S)

    finish(streams.collect(frame, is_long, once=True))
    assert (len(streams.rows), fake.count(queue)) == (20, 20)

    finish(streams.collect(frame, once=True))  # it cannot delete them yet, and says so
    fake.clock.advance(3600)
    fake.put(queue, "new")
    streams.read_all(frame)
    streams.read_all(frame)

    assert Counter(streams.bodies()) == Counter([f"m{i}" for i in range(20)] + ["new"])
    assert fake.count(queue) == 0
