"""minMessagesPerTrigger with leaseOn=executors: the driver counts, when tasks have deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from clocks import Clock
from executors_query import Offset, Query

from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.testing import FakeQueueService

Start = Callable[..., tuple[Query, ExecutorsConsumer]]


@pytest.fixture
def time_() -> Clock:
    return Clock(0.0)


@pytest.fixture
def start(fake: FakeQueueService, time_: Clock) -> Iterator[Start]:
    made: list[Query] = []

    def started(**options: str) -> tuple[Query, ExecutorsConsumer]:
        made.append(Query(fake, **options))
        return made[-1], made[-1].driver(clock=time_.monotonic, sleep=time_.sleep)

    yield started
    for query in made:
        query.close()


def asked_until(driver: ExecutorsConsumer, offset: Offset, time_: Clock, until: float) -> Offset:
    """Ask as Spark does, until there is a plan or it is so late. Returns the newest offset."""
    while time_.now < until:
        found = driver.latest(offset, None)
        if found != offset:
            return found
        time_.sleep(0.01)  # a call takes some time
    return offset


def test_a_batch_begins_before_a_message_expires(
    start: Start, fake: FakeQueueService, time_: Clock
) -> None:
    query, driver = start(minMessagesPerTrigger="5", maxTriggerDelay="1 hour")
    fake.put_many("orders", ["stays"])
    fake.put_many("orders", ["expires"], ttl=90)
    assert asked_until(driver, driver.initial, time_, 55) == driver.initial

    first = asked_until(driver, driver.initial, time_, 65)
    assert sorted(query.rows(query.plan(first))) == ["expires", "stays"]
