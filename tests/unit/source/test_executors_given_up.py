"""leaseOn=executors with maxDequeueCount: a batch that fails every time, and what comes instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from executors import World
from executors_query import Query, fill
from executors_scene import Scene

from spark_azqueue.source.executors import cleaning, names
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    world = World(monkeypatch)
    yield Scene(world)
    world.close()


@pytest.fixture
def query(fake: FakeQueueService) -> Iterator[Query]:
    made = Query(fake, maxDequeueCount="2", poisonFormat="letter")
    for queue in ("orders-poison", "returns-poison"):
        fake.create_queue(queue)
    yield made
    made.close()


class Run:
    """What Spark does with a query, one process after another, until its sink has failed."""

    def __init__(self, query: Query, sick: str) -> None:
        self.query = query
        self.sick = sick
        self.offsets: list[dict[str, Any]] = []
        self.batches: list[list[str]] = []
        self.driver: ExecutorsConsumer

    @property
    def before(self) -> dict[str, Any]:
        """The committed offset."""
        return self.offsets[len(self.batches) - 1] if self.batches else self.driver.initial

    def start(self, most: int | None = None) -> bool:
        """One process: until it fails (False), or has nothing more to do."""
        self.driver = self.query.driver()
        while True:
            if len(self.offsets) == len(self.batches):
                offset = self.driver.latest(self.before, most)
                if offset == self.before:
                    return True
                self.offsets.append(offset)
            rows = self.rows()
            if self.sick in rows:
                return False
            self.batches.append(rows)

    def rows(self) -> list[str]:
        """What the tasks of the batch that runs give."""
        offset = self.offsets[-1]
        has_tasks = self.driver.plan(self.before, offset)
        return self.query.rows(self.query.plan(offset)) if has_tasks else []

    def until_done(self, most: int | None = None) -> int:
        """Start it again and again. Returns how often it failed."""
        for failures in range(100):
            if self.start(most):
                return failures
        raise AssertionError("it does not end")


def test_poison_is_found_and_every_other_message_comes_once(
    query: Query, fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    sent = fill(query, 100)
    run = Run(query, sick="m37")
    failures = run.until_done()
    assert sorted(row for rows in run.batches for row in rows) == sorted({*sent} - {"m37"})
    (letter,) = [each.text for each in fake.messages("returns-poison")]
    assert '"body":"m37"' in letter
    assert '"reason":"batch ' in letter
    assert "failed 2 times with it alone" in letter
    assert fake.count("orders-poison") == query.left() == 0
    assert failures == 3 + 2 + 2, "of all 100, of 13 and of 2, and of it alone"
    assert "failed 3 times and is given up: it has no rows, and its 100 messages" in caplog.text
    assert run.batches[0] == [], "what the given up batch had comes under other numbers"


def test_the_counters_count_rows_once(query: Query) -> None:
    fill(query, 20)
    run = Run(query, sick="m3")
    while not (is_done := run.start()):
        before = len(run.batches)
    assert is_done
    counters = run.driver.report().counters
    assert counters.poison_moved == 1
    assert counters.delivered == sum(map(len, run.batches[before:]))
    assert (counters.dequeued, counters.deletes_refused) == (0, 0), "an earlier process did that"


def test_what_waits_comes_before_what_is_new(query: Query) -> None:
    fill(query, 40)
    run = Run(query, sick="m0")
    for _ in range(3):
        assert not run.start()
    fill(query, 10, "new")
    run.until_done()
    first = next(number for number, rows in enumerate(run.batches) if "new1" in rows)
    assert sum(len(rows) for rows in run.batches[:first]) == 39
    assert sorted(run.batches[first]) == sorted(f"new{each}" for each in range(10))


def test_a_run_that_is_to_end_does_not_end_while_messages_wait(query: Query) -> None:
    fill(query, 40)
    run = Run(query, sick="m0")
    for _ in range(3):
        assert not run.start()
    run.sick = ""
    driver = run.driver = query.driver()
    driver.only_what_is_there()
    assert run.rows() == []
    run.batches.append([])
    while (offset := driver.latest(run.before, None)) != run.before:
        run.offsets.append(offset)
        run.batches.append(run.rows())
    assert sum(map(len, run.batches)) == 40
    assert len(run.batches) == 1 + 8


def test_without_the_option_a_batch_is_repeated_for_ever(fake: FakeQueueService) -> None:
    query = Query(fake)
    fill(query, 4)
    run = Run(query, sick="m0")
    assert not any(run.start() for _ in range(10))
    assert not any(
        found.kind == "t" for found in map(names.parsed, query.store.objects) if found is not None
    )
    query.close()


def test_a_batch_of_which_nothing_is_stored_is_not_given_up(query: Query) -> None:
    sent = fill(query, 4)
    first = query.driver()
    offset = first.latest(first.initial, None)
    for _ in range(5):
        driver = query.driver()
        assert driver.plan(driver.initial, offset), "its sink cannot start, for example"
    assert query.rows(query.plan(offset)) == sent


def test_a_batch_that_was_committed_once_is_never_given_up(query: Query) -> None:
    sent = fill(query, 4)
    driver = query.driver()
    offset = driver.latest(driver.initial, None)
    plan = query.plan(offset)
    assert query.rows(plan) == sent
    assert driver.latest(offset, None) == offset
    driver.close()
    for _ in range(5):  # the commit is taken away
        driver = query.driver()
        assert driver.plan(driver.initial, offset)
        assert query.rows(plan) == sent


def test_a_process_that_is_asked_twice_counts_once(query: Query) -> None:
    fill(query, 4)
    run = Run(query, sick="m0")
    assert not run.start()
    driver = query.driver()
    for _ in range(5):
        assert driver.plan(driver.initial, run.offsets[-1])


def test_large_bodies_stay_for_the_batches_that_come_instead(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "CLEAN_EVERY", 1)
    looked: list[int] = []
    real = cleaning.Cleaning._remove_bodies  # noqa: SLF001
    fill(query, 4)
    run = Run(query, sick="m0")
    run.until_done()
    assert real
    assert looked == []
