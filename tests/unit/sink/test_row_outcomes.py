"""What a result says of its row, and which call a row makes."""

import pytest
from refs import ORDERS

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues import calls
from spark_azqueue.sink.requests import DeleteRow, EnqueueRow, UpdateRow
from spark_azqueue.sink.tally import outcome_of

LEASE = Lease(ORDERS, "an-id", "receipt")


@pytest.mark.parametrize(
    "result",
    [
        RuntimeError(),
        Outcome.RETRY,
        Outcome.FATAL,
        (Outcome.RETRY, None),
        (None, None),
        "done",
        True,
        0,
    ],
)
def test_what_is_not_understood_does_not_count_as_done(result):
    with pytest.raises(TypeError, match="neither done nor refused"):
        outcome_of(result)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (None, Outcome.OK),
        (Outcome.OK, Outcome.OK),
        (Outcome.GONE, Outcome.GONE),
        (Outcome.LOST, Outcome.LOST),
        ((Outcome.OK, Lease(ORDERS, "id", "receipt")), Outcome.OK),
        ((Outcome.LOST, None), Outcome.LOST),
    ],
)
def test_what_is_understood(result, outcome):
    assert outcome_of(result) is outcome


@pytest.mark.parametrize(
    ("request_", "call"),
    [
        (EnqueueRow(ORDERS, "text", 5, 60, row=0), calls.Put(ORDERS, "text", 5, 60)),
        (EnqueueRow(ORDERS, "text", 0, None, row=0), calls.Put(ORDERS, "text", 0, None)),
        (UpdateRow(LEASE, 5, "text", row=0), calls.Update(LEASE, 5, "text")),
        (DeleteRow(LEASE, row=0), calls.Delete(LEASE)),
    ],
)
def test_a_row_is_the_call_that_it_says(request_, call):
    assert request_.request(1_800_000_000.0) == call.request(1_800_000_000.0)
    assert (request_.queue, request_.doing, request_.needs) == (call.queue, call.doing, call.needs)
    assert (request_.turn, request_.by_receipt) == (call.turn, call.by_receipt)
