"""leaseOn=executors: what is in the folder steers no request to a queue that `queue` does not name.

Whoever can write into the folder may forge a plan, and what its slots gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from executors_query import Query, fill, first_plan

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.options.parse import source_config
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.objects import SlotHeader, SlotSegment, encode_slot
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.testing import FakeQueueService

NEITHER = r"has messages of \['victim'\], which are not deleted yet .* does not name any more"


@pytest.fixture
def query(fake: FakeQueueService) -> Iterator[Query]:
    made = Query(fake, messageEncoding="base64", onUndecodable="poison")
    for queue in ("orders-poison", "returns-poison", "victim", "victim-poison"):
        fake.create_queue(queue)
    yield made
    made.close()


def forge(query: Query, log: str, before: PlanId) -> Plan:
    """A plan that follows that one, and what its only slot gave: messages of `victim`."""
    victim = QueueRef(query.config.account.name, "victim")
    query.fake.put_many("victim", ["Z29vZA==", "!!bad"])
    received = query.clients[0].now(Dequeue(victim, 32, 3_600)).received
    plan = Plan(
        victim.account, log, PlanId(before.number + 1, "e" * 32), (Slot((victim,), 9, 10_000),)
    )
    header = SlotHeader(
        log, plan.id, 0, victim.account, "f" * 32, messages=len(received), queues=(victim,)
    )
    query.store.objects[names.following(before)] = plan.to_bytes()
    query.store.objects[names.slot(plan.id, 0)] = encode_slot(
        header, SlotSegment(header, received).received
    )
    query.fake.reset_counters()
    return plan


def sent_elsewhere(query: Query) -> list[str]:
    return [each.op for each in query.fake.log if "victim" in each.queue]


def test_a_plan_that_is_closed_at_the_start(query: Query) -> None:
    folder = PlanFolder(query.store, query.config.account.name)
    folder.open()
    query.task(Plan.start(folder.account))  # for a client
    forge(query, folder.uuid, START)
    driver = query.driver()

    with pytest.raises(CheckpointMismatch, match=NEITHER):
        driver.latest(driver.initial, None)

    assert sent_elsewhere(query) == []
    assert query.fake.count("victim") == 2


def test_a_task_that_finds_what_its_slot_gave(query: Query) -> None:
    fill(query, 2)
    driver, plan = first_plan(query)
    forged = forge(query, plan.log, plan.id)
    with pytest.raises(CheckpointMismatch, match="option 'queue' names none of them"):
        driver.latest(plan.to_json(), None)
    with pytest.raises(CheckpointMismatch, match=NEITHER):
        query.task(forged)[0].segment()

    assert sent_elsewhere(query) == []
    assert query.fake.count("victim") == 2


def without_orders(query: Query) -> SourceConfig:
    given = {
        "secret.connectionString": query.fake.connection_string,
        "queue": "returns",
        "leaseOn": "executors",
        "writeAheadLog": "file:/not/used",
        "deleteAfter": "log",
    }
    return source_config(given, {})


def test_a_queue_that_was_taken_out_too_early_is_told_and_nothing_is_lost(query: Query) -> None:
    query.config = replace(query.config, encoding=without_orders(query).encoding)
    sent = fill(query, 8)
    _, plan = first_plan(query)
    slot = next(n for n, each in enumerate(plan.slots) if "orders" in str(each.queues))
    task = query.task(plan, slot)[0]
    task.check_floor = lambda: 1 / 0  # type: ignore[assignment,return-value]
    with pytest.raises(ZeroDivisionError):  # it is killed before its first delete
        task.segment()
    both, query.config = query.config, without_orders(query)

    with pytest.raises(CheckpointMismatch, match=r"\['orders'\].*add it until they are"):
        query.driver().latest(plan.to_json(), None)

    query.config = both
    query.driver().latest(plan.to_json(), None)
    assert query.fake.count("orders") == 0
    assert query.rows(Plan(plan.account, plan.log, plan.id, plan.slots)) == sent[::2]


def test_a_queue_may_be_taken_out_when_its_deletes_are_answered(query: Query) -> None:
    query.config = replace(query.config, encoding=without_orders(query).encoding)
    sent = fill(query, 8)
    _, plan = first_plan(query)
    assert query.rows(plan) == sent
    query.config = without_orders(query)
    query.fake.put("returns", "new")

    driver = query.driver()
    assert query.rows(plan) == sent, "a replay has the same rows"
    following = query.plan(driver.latest(plan.to_json(), None))

    assert query.rows(following) == ["new"]
