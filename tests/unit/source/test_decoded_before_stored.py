"""A body is decoded before it is stored: what does not decode is dead-lettered first, in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from consuming import Consumers, bodies
from executors_query import Query, first_plan

from spark_azqueue.errors import AccessDenied, CheckpointMismatch, LogDamaged
from spark_azqueue.journal.frame import framed, unframed, unpacked
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.service.encoding import Encoding
from spark_azqueue.service.messages import Message, QueueRef
from spark_azqueue.source.dead_letters import copy_to_poison_queue
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.objects import SLOT_MAGIC
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.source.executors.slot import SlotTask
from spark_azqueue.testing import FakeQueueService, Fault

AT_ONCE = 2
BAD = [f"!!{number}" for number in range(40)]
GOOD = ["YWI=", "Y2Q="]
BODIES = ["ab", "cd"]


@pytest.fixture
def orders(fake: FakeQueueService) -> FakeQueueService:
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    fake.put_many("orders", [*BAD[:20], *GOOD, *BAD[20:]])
    return fake


@pytest.fixture
def query(orders: FakeQueueService) -> Iterator[Query]:
    options = {
        "messageEncoding": "base64",
        "poisonFormat": "copy",
        "onUndecodable": "poison",
        "executorSlots": "1",
        "visibilityTimeout": "30",
        "parallelism": str(AT_ONCE),
        "maxPoisonMessages": "1000",
    }
    made = Query(orders, **options)
    yield made
    made.close()


def a_second_for_each_copy(fake: FakeQueueService) -> Callable[[], float]:
    return lambda: float(fake.requests["put"])


def task_of(query: Query, plan: Plan, clock: Callable[[], float] = time.monotonic) -> SlotTask:
    folder = PlanFolder(query.store.another(), query.config.account.name)
    return SlotTask(query.config, plan, 0, folder, query.client(), clock=clock)


def copies(fake: FakeQueueService) -> list[str]:
    return sorted(each.text for each in fake.messages("orders-poison"))


def test_a_task_copies_until_half_of_its_lease_and_releases_the_rest(query: Query) -> None:
    """So its segment is put while its leases hold."""
    driver, plan = first_plan(query)
    task = task_of(query, plan, a_second_for_each_copy(query.fake))

    assert [row.body for row in task.rows().rows()] == BODIES

    assert 15 <= query.fake.count("orders-poison") <= 15 + AT_ONCE
    left = len(BAD) - query.fake.count("orders-poison")
    assert query.fake.visible("orders") == query.fake.count("orders") == left
    assert task.segment().header.counts.poison == query.fake.count("orders-poison")
    assert not task.segment().header.looked["orders"].drained, "the next plan asks for the rest"
    following = query.plan(driver.latest(plan.to_json(), None))
    assert query.rows(following) == []
    assert copies(query.fake) == sorted(BAD)
    assert query.left() == 0


def test_a_driver_copies_until_half_of_a_lease_and_the_rest_with_the_next_batch(
    orders: FakeQueueService, spark: Consumers
) -> None:
    consumer = spark.start(
        clock=a_second_for_each_copy(orders),
        renews=False,
        messageEncoding="base64",
        poisonFormat="copy",
        onUndecodable="poison",
        parallelism=str(AT_ONCE),
        maxPoisonMessages="1000",
    )
    start = consumer.initial

    end = consumer.latest(start, None)

    assert bodies(consumer.plan(start, end)) == BODIES
    assert 30 <= orders.count("orders-poison") <= 30 + AT_ONCE
    consumer.latest(end, None)
    assert copies(orders) == sorted(BAD)
    spark.wait_for("leases")
    orders.wait_until(lambda: orders.count("orders") == 0, 10)


def test_what_a_killed_task_had_under_way_alone_is_copied_again(query: Query) -> None:
    """Each original is deleted as soon as its copy is there."""
    _, plan = first_plan(query)

    def killed() -> float:
        if query.fake.requests["put"] > 20:
            raise KeyboardInterrupt
        return 0.0

    with pytest.raises(KeyboardInterrupt):
        task_of(query, plan, killed).segment()

    assert query.fake.count("orders-poison") >= 15
    assert names.slot(plan.id, 0) not in query.store.objects
    query.fake.clock.advance(31)  # leases end
    assert query.rows(plan) == BODIES
    assert set(copies(query.fake)) == set(BAD)
    assert len(copies(query.fake)) <= len(BAD) + 2 * AT_ONCE
    assert query.left() == 0


def test_with_a_copy_that_fails_nothing_is_stored_and_the_rest_is_released(query: Query) -> None:
    _, plan = first_plan(query)
    query.fake.faults.add(Fault("put", "forbidden", queue="orders-poison"))

    with pytest.raises(
        AccessDenied, match=r"message \S+ of queue 'orders' cannot be dead-lettered"
    ):
        query.rows(plan)

    assert names.slot(plan.id, 0) not in query.store.objects
    assert query.fake.visible("orders") == len(BAD) + len(GOOD)


def test_two_attempts_of_a_slot_decide_alike_whatever_their_options_are(query: Query) -> None:
    """The second one leases nothing: what the first had copied gets no row. What is left comes with
    the next plan, and its options."""
    driver, plan = first_plan(query)
    with pytest.MonkeyPatch.context() as patch:  # it is killed between its copies and its put
        patch.setattr(PlanFolder, "put_segment", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            query.rows(plan)
    driver.close()
    query.fake.clock.advance(31)
    copied = copies(query.fake)

    query.config = replace(
        query.config, encoding=Encoding.NONE, on_undecodable=OnUndecodable.PERMISSIVE
    )
    driver = query.driver()
    assert query.rows(plan) == []
    query.config = replace(
        query.config, encoding=Encoding.BASE64, on_undecodable=OnUndecodable.POISON
    )
    assert query.rows(plan) == [], "what was put first stands"
    query.config = replace(query.config, encoding=Encoding.NONE)
    following = query.plan(query.driver().latest(plan.to_json(), None))
    assert query.rows(following) == sorted(GOOD)
    assert copies(query.fake) == copied == sorted(BAD)
    driver.close()


def test_a_slot_of_an_earlier_release_is_refused_and_not_read_half(query: Query) -> None:
    """Its bodies were logged before they were decoded."""
    _, plan = first_plan(query)
    query.rows(plan)
    name = names.slot(plan.id, 0)
    query.store.objects[name] = _of_version_1(query.store.objects[name])

    with pytest.raises(LogDamaged, match="its version is not 2: use the release that wrote it"):
        query.rows(plan)


def _of_version_1(data: bytes) -> bytes:
    frame = unframed(SLOT_MAGIC, data)
    with unpacked(frame.packed, frame.size) as stream:
        messages = stream.read(frame.size)
    return framed(SLOT_MAGIC, frame.head.replace(b'"version":2', b'"version":1'), messages)


def test_a_plan_without_a_segment_is_given_up_when_its_time_is_due(query: Query) -> None:
    """Its batch has no rows then, and nobody is suspected: its messages are in their queues."""
    query.config = replace(query.config, max_dequeue_count=1, on_undecodable=OnUndecodable.FAIL)
    first, plan = first_plan(query)
    first.close()
    starts = 0
    while names.slot(plan.id, 0) not in query.store.objects:
        starts += 1
        assert starts < 10
        driver = query.driver()
        driver.plan(driver.initial, plan.to_json())
        driver.close()

    driver = query.driver()
    assert query.rows(plan) == []
    assert query.fake.visible("orders") == len(BAD) + len(GOOD)
    following = query.plan(driver.latest(plan.to_json(), None))
    assert not following.is_again
    assert following.queues
    driver.close()


def test_nothing_is_copied_to_the_poison_queue_of_another_queue(query: Query) -> None:
    """A log has the message, and steers no request."""
    victim = Message(QueueRef(query.config.account.name, "victim"), "an-id", "!!", 0, 0, 1)

    with pytest.raises(CheckpointMismatch, match="to be dead-lettered, and option 'queue' does"):
        copy_to_poison_queue(query.config, query.client(), victim, "it fails")

    assert not query.fake.requests["put"]
