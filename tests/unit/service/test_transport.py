"""One attempt per call, against the fake: messages, calls by receipt, checks."""

import pytest
from refs import ORDERS

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease
from spark_azqueue.testing import Fault


def one(queue, visibility=60):
    (received,) = queue.dequeue(1, visibility).received
    return received


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
