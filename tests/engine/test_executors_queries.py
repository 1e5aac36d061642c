"""leaseOn=executors on real Spark: queries with a limit, and two queries at once."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from lines import read_all
from processes import wait_for
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_executors import Leased, fill, left

QUEUES = 3


@pytest.fixture
def queues(queue: str) -> list[str]:
    return [f"{queue}-{number}" for number in range(QUEUES)]


@pytest.fixture
def query(streams: Streams, fake: FakeQueueService, queues: list[str], tmp_path: Path) -> Leased:
    for name in queues:
        fake.create_queue(name)
    return Leased(streams, fake.connection_string, queues, tmp_path)


def logged(query: Leased) -> list[str]:
    """The bodies that the log has, of all batches."""
    reader = query.streams.spark.read.format("azqueue").option("readLog", query.log)
    return sorted(row.body for row in reader.load().collect())


def test_a_limit_takes_rows_from_the_output_and_none_from_the_log(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    sent = fill(fake, queues, 90)
    rows = query.frame(maxMessagesPerTrigger="30").limit(10)
    query.streams.read_all(rows)
    assert len(query.streams.bodies()) == 10
    assert left(fake, queues) == 0
    assert logged(query) == sent


def test_an_action_that_runs_one_task_leaves_the_other_queues_as_they_are(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    sent = fill(fake, queues, 90)
    before: list[int] = []

    def look(batch: DataFrame, number: int) -> None:
        before.append(left(fake, queues))
        assert len(batch.limit(1).collect()) == 1
        assert before[-1] - left(fake, queues) == 30, "one task, and so one queue"

    read_all(lambda: query.streams.each_batch(query.frame(), look, availableNow=True))
    assert before == [90, 60, 30]
    assert left(fake, queues) == 0
    assert logged(query) == sent


def begin(query: Leased, checkpoint: Path, output: dict[int, list[str]]) -> StreamingQuery:
    """A run that goes on. output: takes the rows of each batch, the same if it is repeated."""

    def take(batch: DataFrame, number: int) -> None:
        rows = sorted(row.body for row in batch.collect())
        assert output.setdefault(number, rows) == rows

    writer = query.frame(maxMessagesPerTrigger="15").writeStream.foreachBatch(take)
    running = writer.option("checkpointLocation", str(checkpoint)).start()
    query.streams.queries.append(running)
    return running


def test_of_two_queries_with_a_copied_checkpoint_the_later_goes_on_and_rows_are_equal(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    one, other = query.folder / "one", query.folder / "other"
    rows: dict[int, list[str]] = {}
    copied: dict[int, list[str]] = {}
    sent = fill(fake, queues, 30)
    first = begin(query, one, rows)
    fake.wait_until(lambda: left(fake, queues) == 0, 60)
    first.processAllAvailable()
    shutil.copytree(one, other)
    # One process runs a query's id only once; another process does not know.
    (other / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    (other / ".metadata.crc").unlink(missing_ok=True)

    sent += fill(fake, queues, 60, "both ")  # while both are at work
    second = begin(query, other, copied)
    more = 0

    def has_stopped() -> bool:
        nonlocal more, sent
        assert second.isActive, second.exception()
        if left(fake, queues) == 0 and first.isActive:  # it finds out when it plans
            sent += fill(fake, queues, 3, f"more {more} ")
            more += 1
        return not first.isActive

    wait_for(has_stopped, "the first query to stop")
    assert "another process writes the write-ahead log" in str(first.exception())
    fake.clock.advance(91)  # what tasks of the first had leased when it stopped
    wait_for(lambda: left(fake, queues) == 0 or not second.isActive, "the second query")
    second.processAllAvailable()
    second.stop()

    again = begin(query, one, rows)  # the first follows, to where the second is
    again.processAllAvailable()
    again.stop()
    assert copied
    assert {number: rows[number] for number in copied} == copied
    assert sorted(body for bodies in rows.values() for body in bodies) == sorted(sent)
    assert left(fake, queues) == 0
