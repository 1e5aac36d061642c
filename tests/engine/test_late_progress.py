"""Asynchronous progress: the checkpoint is written seldom, and beside the batches. Then a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import wait_for

from spark_azqueue.testing import FakeQueueService

from .loads import Load, LoadsJob
from .test_checkpoint_tools import LOGS

LATE = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "3600000",
}


@pytest.fixture
def job(tmp_path: Path, fake: FakeQueueService, queue: str) -> Iterator[LoadsJob]:
    fake.create_queue(queue)
    made = LoadsJob(tmp_path, fake, queue)
    yield made
    made.destroy()


@pytest.mark.parametrize(
    "mode", ["leases", pytest.param("log", marks=pytest.mark.long), "executors"]
)
def test_progress_that_is_noted_late_loses_nothing_in_a_kill(
    job: LoadsJob, fake: FakeQueueService, queue: str, tmp_path: Path, mode: str
) -> None:
    options = {name: text.format(folder=tmp_path) for name, text in LOGS[mode].items()}
    sent: set[str] = set()

    def send(part: str) -> set[str]:
        bodies = {f"{part} {number}" for number in range(20)}
        fake.put_many(queue, sorted(bodies))
        sent.update(bodies)
        return bodies

    def until_passed(bodies: set[str]) -> None:
        job.wait_for(lambda: bodies <= {*job.passed()}, "messages to reach the sink")

    send("first")
    job.ask(Load({"queue": queue, "maxMessagesPerTrigger": "5", **options}), format="noop", **LATE)
    job.start()
    until_passed(sent)
    assert job.entries("offsets") == {0}, "the checkpoint is far behind"
    job.hold()
    held = send("second")
    job.wait_until_held()
    job.die()
    assert not held <= {*job.passed()}
    assert job.entries("offsets") == {0}

    job.release()
    fake.clock.advance(3601)  # leases of the killed process that no checkpoint names
    job.start()
    until_passed(sent | send("third"))
    wait_for(lambda: fake.count(queue) == 0, "the deletes")
    job.end()

    assert {*job.passed()} == sent
