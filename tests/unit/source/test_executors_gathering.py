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


def test_each_batch_waits_for_enough_messages(
    start: Start, fake: FakeQueueService, time_: Clock
) -> None:
    query, driver = start(minMessagesPerTrigger="5", maxTriggerDelay="1 hour")
    fake.put_many("orders", ["a"] * 4)
    assert asked_until(driver, driver.initial, time_, 60) == driver.initial
    fake.put_many("returns", ["a"] * 8)
    first = asked_until(driver, driver.initial, time_, 120)
    assert query.rows(query.plan(first)) == ["a"] * 12

    fake.put_many("orders", ["b"] * 4)
    peeks = fake.requests["peek"]
    assert asked_until(driver, first, time_, 180) == first, "the first batch is not counted again"
    assert fake.requests["peek"] == peeks + 1, "of the four that wait, once"
    assert fake.visible("orders") == 4

    fake.put_many("returns", ["b"])
    second = asked_until(driver, first, time_, 240)
    assert query.rows(query.plan(second)) == ["b"] * 5


def test_the_second_batch_waits_for_so_long_at_most(
    start: Start, fake: FakeQueueService, time_: Clock
) -> None:
    query, driver = start(minMessagesPerTrigger="5", maxTriggerDelay="5 minutes")
    fake.put_many("orders", ["a"] * 5)
    first = asked_until(driver, driver.initial, time_, 60)
    query.rows(query.plan(first))
    assert asked_until(driver, first, time_, 1000) == first

    fake.put_many("orders", ["b"])
    began = time_.now
    assert asked_until(driver, first, time_, began + 298) == first
    second = asked_until(driver, first, time_, began + 305)
    assert query.rows(query.plan(second)) == ["b"]


def requests_of_an_idle_query(
    start: Start, fake: FakeQueueService, time_: Clock, **options: str
) -> int:
    _, driver = start(maxPollInterval="10 seconds", **options)
    driver.latest(driver.initial, None)
    before, until = sum(fake.requests.values()), time_.now + 600
    assert asked_until(driver, driver.initial, time_, until) == driver.initial
    return sum(fake.requests.values()) - before


def test_waiting_costs_no_more_requests_than_polling(
    start: Start, fake: FakeQueueService, time_: Clock
) -> None:
    gathering = {"minMessagesPerTrigger": "10", "maxTriggerDelay": "1 hour"}
    polling = requests_of_an_idle_query(start, fake, time_)
    idle = requests_of_an_idle_query(start, fake, time_, **gathering)
    fake.put_many("orders", ["a"] * 9)
    waiting = requests_of_an_idle_query(start, fake, time_, **gathering)

    assert 150 < polling < 180, "two queues, each once in ten seconds after a minute"
    assert idle == waiting == polling
