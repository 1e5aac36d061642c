"""Latencies of a consumer, against those that the fake measured itself."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from consuming import Consumers, batch

from spark_azqueue.metrics.latency import AGES, COMMIT, DELIVERY, REQUESTS
from spark_azqueue.testing import FakeClock, FakeQueueService, Fault


@pytest.fixture
def fake():
    """Its clock moves only by the test: so do ages."""
    with FakeQueueService(FakeClock(1_800_000_000, frozen=True)) as running:
        yield running


@pytest.fixture
def spark(fake):
    fake.create_queue("orders")
    made = Consumers(fake)
    yield made
    made.stop()


def binned(values, bounds):
    counts = [0] * (len(bounds) + 1)
    for each in values:
        counts[bisect_left(bounds, each)] += 1
    return tuple(counts)


def ages_now(fake, queue="orders"):
    """How old the fake says that its messages are."""
    return [fake.clock.now() - each.insertion for each in fake.messages(queue)]


def test_ages_at_delivery_and_at_commit_are_those_of_the_service(spark, fake):
    for wait in (7_200, 500, 40, 3, 0):
        fake.put_many("orders", ["a"] * (wait % 7 + 1))
        fake.clock.advance(wait)
    consumer = spark.start(clock=fake.clock.now, renews=False)
    delivered = ages_now(fake)
    end, _ = batch(consumer, consumer.initial)
    found = consumer.report().latencies
    assert found[DELIVERY].counts == binned(delivered, AGES)
    assert found[DELIVERY].total == pytest.approx(sum(delivered), abs=0.01)
    assert COMMIT not in found

    fake.clock.advance(25)  # Spark works
    committed = ages_now(fake)
    consumer.latest(end, None)
    found = consumer.report().latencies
    assert found[COMMIT].counts == binned(committed, AGES)
    assert found[COMMIT].total == pytest.approx(sum(committed), abs=0.01)
    assert found[DELIVERY].count == found[COMMIT].count == len(delivered)


def test_each_request_is_timed_by_kind_and_error(spark, fake):
    fake.put_many("orders", [str(number) for number in range(60)])
    fake.faults.add(
        Fault("delete", "slow", every=3, seconds=0.3), Fault("delete", "busy_503", times=4)
    )
    consumer = spark.start(renews=False)
    end, _ = batch(consumer, consumer.initial)
    consumer.latest(end, None)
    consumer.engine.holder.wait(30)
    found = consumer.report().latencies
    measured = fake.statuses
    slow = fake.faults.injected["slow"]

    assert {name: each.count for name, each in found.items() if name.startswith("de")} == {
        DELIVERY: 60,
        "dequeue": measured["dequeue", 200],
        "delete": measured["delete", 204],
        "delete 503": measured["delete", 503],
    }
    assert slow >= 20
    at_least_300_ms = sum(
        sum(found[name].counts[bisect_left(REQUESTS, 0.3) :]) for name in ("delete", "delete 503")
    )
    assert at_least_300_ms >= slow, "those that the fake made slow"
    assert found["delete"].total + found["delete 503"].total >= 0.3 * slow


def test_a_request_without_an_answer_is_one_of_its_own(spark, fake):
    fake.put("orders", "a")
    fake.faults.add(Fault("dequeue", "reset", times=2))
    consumer = spark.start(renews=False)
    batch(consumer, consumer.initial)
    found = consumer.report().latencies

    assert found["dequeue no_answer"].count >= 1
    assert found["dequeue"].count == fake.statuses["dequeue", 200]


def test_with_deleteoncommit_false_a_commit_has_ages_too(spark, fake):
    fake.put("orders", "a")
    fake.clock.advance(90)
    consumer = spark.start(clock=fake.clock.now, renews=False, deleteOnCommit="false")
    end, _ = batch(consumer, consumer.initial)
    consumer.latest(end, None)

    assert consumer.report().latencies[COMMIT].total == pytest.approx(90, abs=1)
