"""The count of rows sent and answered, and of stale receipts."""

import logging

import pytest
from refs import ORDERS

from spark_azqueue.errors import AzQueueError, Outcome, StaleReceipt
from spark_azqueue.options.choices import OnStaleReceipt, Operation
from spark_azqueue.service.messages import Lease
from spark_azqueue.sink.requests import DeleteRow
from spark_azqueue.sink.tally import Sent, TaskCounts

LEASED = DeleteRow(Lease(ORDERS, "an-id", "receipt"), row=0)


def tally(on_stale=OnStaleReceipt.IGNORE):
    return TaskCounts(Operation.DELETE, on_stale)


def test_no_rows_are_a_success():
    assert tally().total() == Sent()


@pytest.mark.parametrize("outcomes", [[], [Outcome.OK], [Outcome.GONE], [Outcome.OK] * 3])
def test_every_row_is_answered_once(outcomes):
    count = tally()
    for _ in range(2):
        count.begun()
    for outcome in outcomes:
        count.answered(LEASED, outcome)

    with pytest.raises(AzQueueError, match=f"2 rows .* and {len(outcomes)} answers"):
        count.total()


def test_done_and_stale_are_told_apart(caplog):
    count = tally()
    for outcome in (Outcome.OK, Outcome.GONE, Outcome.LOST, Outcome.OK, Outcome.GONE):
        count.begun()
        count.answered(LEASED, outcome)

    with caplog.at_level(logging.WARNING):
        assert count.total() == Sent(done=2, stale=3)
    assert "3 of 5 rows" in caplog.text


def test_only_some_of_many_stale_receipts_are_named(caplog):
    count = tally()
    for row in range(7):
        count.begun()
        count.answered(DeleteRow(Lease(ORDERS, f"id-{row}", "receipt"), row=row), Outcome.GONE)

    assert count.total() == Sent(stale=7)
    assert "id-0, id-1, id-2, id-3, id-4:" in caplog.text


def test_a_stale_receipt_is_no_acknowledged_row():
    count = tally(OnStaleReceipt.FAIL)
    count.begun()

    with pytest.raises(StaleReceipt, match="an-id") as caught:
        count.answered(LEASED, Outcome.LOST)

    assert str(count.with_count(caught.value)).endswith("acknowledged: 0.")
