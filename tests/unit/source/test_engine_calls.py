"""The door between an engine's calls and a consumer: what is proven, closed, skipped, released."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from log_stores import MemoryLogStore

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.metrics.read import read_of
from spark_azqueue.metrics.source_progress import CLOSING
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.options.log import LogConfig, LogPlace
from spark_azqueue.options.parse import source_config
from spark_azqueue.source import engine_calls
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.source.engine_calls import EngineCalls, plans_ahead
from spark_azqueue.source.log.consumer import LogConsumer
from spark_azqueue.source.offsets import OffsetJson
from spark_azqueue.source.runtime import DEFAULT
from spark_azqueue.testing import FakeQueueService

QUEUE = "orders"
SETTLED_IN_S = 10.0


class Engine:
    """An engine and the source of its query; `time` is that of the door."""

    def __init__(self, fake: FakeQueueService, *, plans_ahead: bool) -> None:
        self.fake, self.time, self.slept = fake, 0.0, 0.0
        given = {"secret.connectionString": fake.connection_string, "queue": QUEUE}
        config = source_config({**given, "maxMessagesPerTrigger": "2", "dequeueAhead": "false"}, {})
        columns = source_columns(config.body_type, permissive=False)
        runtime = replace(DEFAULT, sleep=lambda _: None)
        self.consumer = LeasedConsumer(config, columns, runtime)
        self.calls = EngineCalls(
            self.consumer, plans_ahead=plans_ahead, clock=lambda: self.time, sleep=self.sleep
        )

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.slept += seconds

    def new(self, start: OffsetJson | None) -> OffsetJson:
        """Ask until there is a batch: a queue that was empty rests for a moment."""
        return self.fake.wait_until(lambda: self._new(start), SETTLED_IN_S)

    def _new(self, start: OffsetJson | None) -> OffsetJson | None:
        end = self.calls.latest(start, 2)
        return None if end in (start, self.calls.initial) else end

    def left(self) -> int:
        self.consumer.engine.wait(SETTLED_IN_S)
        return self.fake.count(QUEUE)


@pytest.fixture
def apache(fake: FakeQueueService) -> Iterator[Engine]:
    yield from made(fake, plans_ahead=False)


@pytest.fixture
def other(fake: FakeQueueService) -> Iterator[Engine]:
    yield from made(fake, plans_ahead=True)


def made(fake: FakeQueueService, *, plans_ahead: bool) -> Iterator[Engine]:
    fake.create_queue(QUEUE)
    engine = Engine(fake, plans_ahead=plans_ahead)
    yield engine
    engine.calls.close()


@pytest.mark.parametrize("proof", ["the next call", "commit"])
def test_a_batch_that_is_committed_without_a_plan_is_released_and_refused(
    apache: Engine, proof: str
) -> None:
    apache.fake.put_many(QUEUE, ["a", "b"])
    start = apache.calls.initial
    end = apache.calls.latest(start, 2)
    if proof == "commit":
        apache.calls.committed(end)
    for _ in range(2):
        with pytest.raises(CheckpointMismatch, match="batch 1 and did not ask") as raised:
            apache.calls.latest(end, 2)
        assert "AZQUEUE_BATCH_SKIPPED" in str(raised.value)
    assert apache.left() == 2
    assert apache.fake.visible(QUEUE) == 2, "visible at once"

    with pytest.raises(CheckpointMismatch, match="batch 1 and did not ask"):
        apache.calls.plan(start, end)


def test_the_offset_of_a_skipped_batch_deletes_nothing_in_the_next_run(
    fake: FakeQueueService, apache: Engine
) -> None:
    fake.put_many(QUEUE, ["a", "b"])
    end = apache.calls.latest(apache.calls.initial, 2)
    with pytest.raises(CheckpointMismatch):
        apache.calls.latest(end, 2)

    following = Engine(fake, plans_ahead=False)
    assert following.calls.latest(end, 2)["batch"] == 2
    assert following.left() == 2
    following.calls.close()


@pytest.mark.parametrize("delete_after", DeleteAfter)
def test_with_a_log_a_skipped_batch_is_abandoned_unless_the_log_alone_has_it(
    fake: FakeQueueService, delete_after: DeleteAfter
) -> None:
    fake.create_queue(QUEUE)
    fake.put_many(QUEUE, ["a", "b"])
    store = MemoryLogStore()
    place = LogPlace(container=None, folder="/memory")

    def engine() -> Engine:
        made = Engine(fake, plans_ahead=False)
        made.calls = EngineCalls(
            LogConsumer(
                made.consumer.engine.config,
                source_columns(made.consumer.engine.config.body_type, permissive=False),
                LogConfig(place, None, delete_after=delete_after),
                store=store,
            ),
            plans_ahead=False,
        )
        return made

    skipped = engine()
    end = skipped.calls.latest(skipped.calls.initial, 2)
    is_in_log = "log alone" if delete_after is DeleteAfter.LOG else "in the queue"
    with pytest.raises(CheckpointMismatch, match=is_in_log):
        skipped.calls.latest(end, 2)
    skipped.calls.close()

    again = engine()
    if delete_after is DeleteAfter.LOG:
        assert again.calls.latest(end, 2) == end
    else:
        following = again.calls.latest(end, 2)
        assert (following["batch"], following["messages"]) == (2, 2)
        assert fake.count(QUEUE) == 2
        assert len(again.calls.plan(end, following)) == 1
    again.calls.close()


def test_a_batch_without_a_plan_is_released_when_the_process_stops(
    fake: FakeQueueService, other: Engine
) -> None:
    """It may be committed without its rows by then, and the next run would delete it."""
    fake.put_many(QUEUE, ["a", "b", "c", "d"])
    first = other.calls.latest(other.calls.initial, 2)
    assert other.calls.plan(other.calls.initial, first)
    other.calls.latest(first, 2)
    other.calls.close()

    assert sorted(each.text for each in fake.messages(QUEUE) if each.visible) == ["c", "d"]


def test_an_engine_that_plans_ahead_proves_by_commit_alone(other: Engine) -> None:
    other.fake.put_many(QUEUE, ["a", "b", "c", "d", "e", "f"])
    at = [other.calls.initial]
    for _ in range(3):
        at.append(other.calls.latest(at[-1], 2))
        assert other.calls.plan(at[-2], at[-1])
    assert other.left() == 6
    other.calls.committed(at[2])
    assert other.left() == 2, "the batch that is named, and the one before it"


def test_a_run_proves_by_its_first_plan_where_it_begins(
    fake: FakeQueueService, other: Engine
) -> None:
    fake.put_many(QUEUE, ["a", "b"])
    end = other.calls.latest(other.calls.initial, 2)
    other.calls.plan(other.calls.initial, end)

    following = Engine(fake, plans_ahead=True)
    assert following.calls.latest(end, 2) == {**end, "closing": 1}, "the form in checkpoints"
    assert following.left() == 2
    assert following.calls.plan(end, {**end, CLOSING: 1}) == []
    assert following.calls.latest({**end, CLOSING: 1}, 2) == {**end, CLOSING: 1}
    assert following.left() == 0
    following.calls.close()


def test_closing_offsets_follow_each_other_after_pauses_that_double(other: Engine) -> None:
    other.fake.put(QUEUE, "a")
    at = other.calls.latest(other.calls.initial, 2)
    other.calls.plan(other.calls.initial, at)
    begun = []
    for _ in range(200):
        end = other.calls.latest(at, 2)
        if end != at:
            begun.append(other.time)
        at = end
        other.time += 0.5
    assert at[CLOSING] == len(begun) == 7
    assert [later - before for before, later in pairwise(begun)] == [
        *(1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
    ]
    other.calls.committed(at)
    assert other.calls.latest(at, 2) == at
    assert other.left() == 0


def test_a_run_of_available_now_waits_for_its_closing_offsets(other: Engine) -> None:
    """It would end before: the next look is the last one."""
    other.fake.put(QUEUE, "a")
    other.calls.freeze_cutoff()
    at = other.calls.latest(other.calls.initial, 2)
    other.calls.plan(other.calls.initial, at)
    for number in (1, 2, 3):
        at = other.calls.latest(at, 2)
        assert at[CLOSING] == number
    assert other.slept == 1.0 + 2.0


def test_an_engine_that_commits_nothing_gets_a_bounded_number_of_batches(
    other: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine_calls, "_OPEN_AT_MOST", 2)
    other.fake.put_many(QUEUE, list("abcdefgh"))
    at = [other.calls.initial]
    for _ in range(2):
        at.append(other.calls.latest(at[-1], 2))
        other.calls.plan(at[-2], at[-1])
    end = other.calls.latest(at[-1], 2)
    assert end == {**at[-1], CLOSING: 1}, "without a batch the engine would never commit one"
    assert other.calls.plan(at[-1], end) == []
    assert other.calls.latest(end, 2) == end, "the next one is paced"
    assert len([text for text in caplog.messages if "2 batches" in text]) == 1
    other.calls.committed(at[1])
    assert other.calls.latest(end, 2)["batch"] == 3


def test_a_plan_proves_nothing_about_a_batch_of_its_own_run(other: Engine) -> None:
    """An engine may plan its batches in any order."""
    other.fake.put_many(QUEUE, ["a", "b", "c", "d"])
    first = other.calls.latest(other.calls.initial, 2)
    second = other.calls.latest(first, 2)
    assert other.calls.plan(first, second)
    assert other.calls.plan(other.calls.initial, first)
    assert other.left() == 4


def test_a_commit_that_does_not_come_is_told_once(
    apache: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    apache.fake.put_many(QUEUE, list("abcdefgh"))
    at = [apache.calls.initial]
    for _ in range(4):
        at.append(apache.calls.latest(at[-1], 2))
        apache.calls.plan(at[-2], at[-1])
    said = [each for each in caplog.messages if "has not reported batch 1 as committed" in each]
    assert len(said) == 1
    assert not [each for each in caplog.records if each.levelno > logging.WARNING]


def test_a_closing_offset_is_no_batch_for_the_metrics(other: Engine) -> None:
    other.fake.put(QUEUE, "a")
    start = other.calls.latest(other.calls.initial, 2)
    other.calls.plan(other.calls.initial, start)
    end = other.calls.latest(start, 2)
    progress = {
        "runId": "r",
        "batchId": 1,
        "sources": [
            {"startOffset": start, "endOffset": end, "latestOffset": end, "numInputRows": 0}
        ],
    }
    read = read_of(progress)
    assert read is not None
    assert not read.is_new
    assert read.unread == read.messages == 0


def test_databricks_is_told_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    assert not plans_ahead()
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert plans_ahead()
