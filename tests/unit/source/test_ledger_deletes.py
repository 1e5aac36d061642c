"""Deletes of committed messages and of their blobs, and what is remembered after a refusal."""

import pytest
from ledgers import TERM, lease, ledger_with_batch, message

from spark_azqueue.errors import Outcome
from spark_azqueue.metrics.report import Counters
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import Fate, State


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


def test_what_becomes_of_messages_is_counted():
    ledger = Ledger()
    messages = [message("r1", "a"), message("r2", "b", count=2), message("r3", "c")]
    for each in messages:
        ledger.dequeued(*each, TERM)
    ledger.dequeued(*message("r4", "a", count=2), TERM)
    ledger.hand_out(messages[:2], 1)
    ledger.set_aside(messages[2].message)
    ledger.committed(1)
    ledger.settled(lease("r4", "a"), Outcome.OK)
    ledger.settled(lease("r2", "b"), Outcome.GONE)
    ledger.settled(lease("r3", "c"), Outcome.OK)
    ledger.settled(lease("r3", "c"), Outcome.OK)  # told twice, counted once

    assert ledger.counts == Counters(
        dequeued=4,
        redelivered=1,
        delivered=2,
        delivered_bytes=sum(each.message.size for each in messages[:2]),
        deleted=2,
        deletes_refused=1,
        duplicates_suppressed=1,
        poison_moved=1,
    )
    assert (len(ledger), ledger.remembered, ledger.held) == (1, 1, 0)


def ledger_with_blob():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.hand_out([message("r1")], 1, {lease("r1").key: "blob"})
    return ledger


def test_the_blob_of_a_message_goes_when_the_message_is_gone_and_not_before():
    ledger = ledger_with_blob()
    ledger.committed(1)

    assert ledger.settled(lease("r1"), Outcome.GONE) is None  # somebody else holds it
    assert ledger.dequeued(*message("r2"), TERM) is Fate.DELETE
    assert ledger.settled(lease("r1"), Outcome.OK) is None  # about a dead receipt
    assert ledger.settled(lease("r2"), Outcome.OK) == "blob"
    assert ledger.settled(lease("r2"), Outcome.OK) is None


def test_a_message_that_was_updated_has_no_blob_any_more():
    ledger = ledger_with_blob()
    ledger.committed(1)
    updated = message("r2", text="another text")
    ledger.dequeued(*updated, TERM)
    ledger.hand_out([updated], 2)
    ledger.committed(2)

    assert ledger.settled(lease("r2"), Outcome.OK) is None


def test_one_set_aside_keeps_its_blob_for_the_copy():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.set_aside(message("r1").message)

    assert ledger.settled(lease("r1"), Outcome.OK) is None
