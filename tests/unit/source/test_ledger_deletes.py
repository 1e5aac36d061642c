"""Deletes of committed messages and of their blobs, and what is remembered after a refusal."""

import pytest
from ledgers import lease, ledger_with_batch, message

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.states import State


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Outcome.GONE, "deletes_refused"),
        (Outcome.LOST, "deletes_refused"),
        (Outcome.RETRY, "deletes_given_up"),
        (Outcome.FATAL, "deletes_given_up"),
    ],
)
def test_a_message_that_could_not_be_deleted_is_remembered(outcome, counted):
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)

    ledger.settled(lease("r1"), outcome)

    assert ledger.state(lease("r1")) is State.REMEMBERED
    assert getattr(ledger.counts, counted) == 1
