"""leaseOn=executors on real Spark: queries with a limit, and two queries at once."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from pathlib import Path

import pytest
from processes import wait_for
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_executors import Leased, fill, left
from .test_stream import finish

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
    finish(query.streams.collect(rows, availableNow=True))
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

    writer = query.frame().writeStream.foreachBatch(look)
    writer = writer.option("checkpointLocation", str(query.streams.checkpoint))
    running = writer.trigger(availableNow=True).start()
    query.streams.queries.append(running)
    finish(running)
    assert before == [90, 60, 30]
    assert left(fake, queues) == 0
    assert logged(query) == sent


def begin(query: Leased, folder: Path) -> StreamingQuery:
    """A run that goes on, with a checkpoint and an output in this folder."""
    writer = query.frame(maxMessagesPerTrigger="10").select("body").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.start(str(folder / "output"))
    query.streams.queries.append(running)
    return running


def test_of_two_queries_with_a_copied_checkpoint_the_later_goes_on_and_rows_are_equal(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    first_folder, second_folder = query.folder / "first", query.folder / "second"
    sent = fill(fake, queues, 30)
    first = begin(query, first_folder)
    fake.wait_until(lambda: left(fake, queues) == 0, 60)
    first.processAllAvailable()
    shutil.copytree(first_folder / "checkpoint", second_folder / "checkpoint")
    # One process runs a query's id only once; another process does not know.
    (second_folder / "checkpoint" / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    (second_folder / "checkpoint" / ".metadata.crc").unlink(missing_ok=True)

    sent += fill(fake, queues, 60, "both ")  # while both are at work
    second = begin(query, second_folder)
    more = 0

    def has_stopped() -> bool:
        nonlocal more, sent
        if left(fake, queues) == 0 and first.isActive:  # it finds out when it plans
            sent += fill(fake, queues, 3, f"more {more} ")
            more += 1
        return not first.isActive

    wait_for(has_stopped, "the first query to stop")
    assert "another process writes the write-ahead log" in str(first.exception())
    fake.clock.advance(91)  # what tasks of the first had leased when it stopped
    fake.wait_until(lambda: left(fake, queues) == 0, 60)
    second.processAllAvailable()
    second.stop()

    first = begin(
        query, first_folder
    )  # it follows: the same batches, until it is where the other is
    first.processAllAvailable()
    first.stop()
    one, other = (
        {number: sorted(rows) for number, rows in query.batches(str(each / "output")).items()}
        for each in (first_folder, second_folder)
    )
    assert other
    assert {number: rows for number, rows in one.items() if number in other} == other
    assert Counter(query.bodies(str(first_folder / "output"))) == Counter(sent)
    assert left(fake, queues) == 0
