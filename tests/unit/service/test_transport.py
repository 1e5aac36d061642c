"""One attempt per call, against the fake: messages, calls by receipt, checks."""

import pytest
from queues import OneQueue
from refs import ORDERS

from spark_azqueue.errors import Outcome
from spark_azqueue.options.account import read_account
from spark_azqueue.service.messages import Lease
from spark_azqueue.testing import FakeClock, FakeQueueService, Fault


def one(queue, visibility=60):
    (received,) = queue.dequeue(1, visibility).received
    return received


def test_a_dequeued_message_is_as_the_service_tells():
    clock = FakeClock(1_700_000_000.75, frozen=True)
    with FakeQueueService(clock) as fake:
        fake.create_queue("orders")
        message_id = fake.put("orders", "hello", ttl=3600)
        account = read_account({"secret.connectionString": fake.connection_string}, {})

        page = OneQueue(account, ORDERS).dequeue(32, 60)

    ((message, _),) = page.received
    assert page.asked == 32
    assert (message.queue, message.message_id, message.text) == (ORDERS, message_id, "hello")
    assert message.insertion_time == 1_700_000_000_000_000  # whole seconds
    assert message.expiration_time == 1_700_003_600_000_000
    assert message.next_visible_time == 1_700_000_060_000_000
    assert message.dequeue_count == 1
    assert message.intact


def test_a_delete_by_a_receipt_with_plus_slash_and_equals_signs(service, orders):
    service.put("orders", "hello")
    _, lease = one(orders)
    assert all(sign in lease.pop_receipt for sign in "+/=")

    assert orders.delete(lease) is Outcome.OK
    assert service.count("orders") == 0
    assert orders.delete(lease) is Outcome.GONE


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("not_found", Outcome.GONE), ("receipt_mismatch", Outcome.LOST)],
)
@pytest.mark.parametrize("operation", ["delete", "update"])
def test_both_ways_to_say_that_a_receipt_is_dead(service, orders, kind, outcome, operation):
    service.put("orders", "hello")
    _, lease = one(orders)
    service.faults.add(Fault(operation, kind))

    answer = orders.delete(lease) if operation == "delete" else orders.update(lease, 60)[0]

    assert answer is outcome
    assert answer.refused


def test_an_id_is_escaped(service, orders):
    service.put("orders", "hello")

    assert orders.delete(Lease(ORDERS, "../messages?x=", "AAAA")).refused

    (entry,) = [entry for entry in service.log if entry.op == "delete"]
    assert entry.id == "../messages?x="
    assert service.count("orders") == 1
