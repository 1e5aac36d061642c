"""What a result says of its row, and which call a row makes."""

import pytest
from refs import ORDERS

from spark_azqueue.errors import Outcome
from spark_azqueue.service.blobs.references import Large
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues import calls
from spark_azqueue.sink.large_bodies import call_of, outcome_of
from spark_azqueue.sink.requests import EnqueueRow


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
        (EnqueueRow(0, ORDERS, "text", 5, 60), calls.Put(ORDERS, "text", 5, 60)),
        (EnqueueRow(0, ORDERS, "text", 0, None), calls.Put(ORDERS, "text", 0, None)),
        (EnqueueRow(0, ORDERS, Large(b"text", True), 5, 60), None),
    ],
)
def test_a_row_is_put_as_it_says(request_, call):
    assert call_of(request_) == call
