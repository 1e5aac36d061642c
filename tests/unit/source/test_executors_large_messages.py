"""leaseOn=executors: many small messages before large ones. A slot never gives more than it may."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from executors_query import Query

from spark_azqueue.journal import frame
from spark_azqueue.source.batches import batch
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.testing import FakeQueueService

BUDGET = 1_000_000


@pytest.fixture
def query(fake: FakeQueueService) -> Iterator[Query]:
    made = Query(fake, maxBytesPerTrigger=str(BUDGET), executorSlots="1")
    yield made
    made.close()


def fill(query: Query) -> list[str]:
    small = [f"m{number:04}" for number in range(32)]
    large = [f"{number:04}{'x' * 60_000}" for number in range(200)]
    query.fake.put_many("orders", small + large)
    return sorted(small + large)


def test_what_does_not_fit_goes_back_and_comes_in_the_next_batches(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a segment was refused by the store's bound, at each attempt, with all of it leased."""
    monkeypatch.setattr(frame, "FRAME_AT_MOST", 2 * BUDGET)
    sent = fill(query)
    driver = query.driver()
    plan = Plan.start(query.config.account.name)
    got: list[str] = []
    for _ in range(100):
        start = plan.to_json() if plan.number else driver.initial
        end = driver.latest(start, None)
        if end == start:
            break
        plan = query.plan(end)
        rows = query.rows(plan)
        assert sum(map(len, rows)) <= BUDGET
        got += rows
    assert sorted(got) == sent
    assert query.left() == 0


def test_ids_and_receipts_count_towards_the_bound(
    query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "UNPACKED_AT_MOST", 1_000)
    query.fake.put_many("orders", ["a"] * 32)
    driver = query.driver()

    plan = query.plan(driver.latest(driver.initial, None))

    assert query.rows(plan) == ["a"] * 4
    assert query.left() == 28
