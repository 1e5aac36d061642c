"""IngestJob: each message has one row of the table, wherever its processes are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_azqueue.testing import FakeQueueService

from .ingesting import IngestsJob
from .killing import before_commit, before_offset, in_batch, in_deletes, live_and_die
from .test_crashes import RUNNER

SHORT = {"maxMessagesPerTrigger": "20", "visibilityTimeout": "6"}
WIDE = {"maxMessagesPerTrigger": "30", "parallelism": "4", "visibilityTimeout": "30"}


@pytest.fixture
def job(tmp_path: Path, fake: FakeQueueService) -> Iterator[IngestsJob]:
    made = IngestsJob(tmp_path, fake)
    yield made
    made.destroy()


@pytest.mark.core
def test_each_message_has_one_row_of_the_table_whatever_is_killed(job: IngestsJob) -> None:
    """All processes are killed: in a batch of one job, and behind the sink's commit of another."""
    batch = job.query("batch", WIDE, more={"way": "run"})
    sink = job.query("sink", SHORT, more={"way": "run"})

    live_and_die(job, {batch: in_batch, sink: before_commit})

    for query in (batch, sink):
        good, bad = query.check()
        assert bad == len(query.sent) // 10 >= 4
        assert good + bad == len(query.sent)


@pytest.mark.long
def test_other_points_and_a_drain(job: IngestsJob) -> None:
    """In a drain, before Spark's offset, in the deletes; and a kill of the source's processes."""
    points = {"offset": before_offset, "deletes": in_deletes, "drain": in_batch}
    made = {
        job.query(name, WIDE, more={"way": "drain" if name == "drain" else "run"}): of
        for name, of in points.items()
    }
    live_and_die(job, made)
    for query in made:
        query.check()

    (job.folder / "stop").unlink()
    job.start_queries(*made)
    for query in made:
        query.send(30)
    job.wait_for(lambda: job.mine(RUNNER), "a process of a source")
    job.kill(job.mine(RUNNER))
    job.wait_until_all_settled(*made)
    job.end()
    for query in made:
        query.check()
