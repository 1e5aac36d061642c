"""Copies of known messages: the same, updated by somebody, late, or damaged on the way."""

import pytest
from ledgers import LATER, TERM, lease, ledger_with_batch, message

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import Fate


def test_a_copy_of_one_in_hand_brings_its_newer_receipt_and_no_row():
    ledger = ledger_with_batch(message("r1"))

    assert ledger.dequeued(*message("r2"), TERM) is Fate.HELD_ALREADY
    assert ledger.committed(1) == [lease("r2")]
    assert ledger.counts.duplicates_suppressed == 1


def test_a_batch_never_deletes_an_updated_text_that_it_did_not_hold():
    # Given a message that waits, and a copy of it that somebody updated meanwhile
    ledger = Ledger()
    old, updated = message("r1"), message("r2", text="updated")
    ledger.dequeued(*old, TERM)
    ledger.dequeued(*updated, TERM)

    # When the old text alone is given out, and its batch is committed
    ledger.hand_out([old], 1)

    # Then the updated one is not deleted: its row is still to come
    assert ledger.committed(1) == []


@pytest.mark.parametrize("text", ["T", "an older text"])
def test_an_older_delivery_that_comes_later_changes_nothing(text):
    # Given a message that was delivered twice, the second delivery being answered first
    ledger = ledger_with_batch(message("r2", count=2))

    # When the first one comes, whose receipt the second has voided
    fate = ledger.dequeued(*message("r1", count=1, text=text), TERM)

    # Then the newer receipt is the one to delete with
    assert fate is Fate.HELD_ALREADY
    assert ledger.committed(1) == [lease("r2")]


def test_an_older_delivery_of_a_committed_message_is_not_deleted_with_its_dead_receipt():
    ledger = ledger_with_batch(message("r2", count=2))
    ledger.committed(1)

    assert ledger.dequeued(*message("r1", count=1), TERM) is Fate.HELD_ALREADY
    ledger.settled(lease("r2"), Outcome.OK)
    assert ledger.state(lease("r2")) is None


@pytest.mark.parametrize("committed", [False, True])
def test_a_damaged_copy_gives_no_row_and_deletes_nothing(committed):
    """Whether somebody updated the message cannot be told: nothing may be lost, nor come twice."""
    ledger = ledger_with_batch(message("r1"))
    if committed:
        ledger.committed(1)

    fate = ledger.dequeued(*message("r2", text="T?", count=2, intact=False), LATER)

    assert fate is Fate.HELD_ALREADY
    if not committed:
        assert ledger.committed(1) == [lease("r1")]
    # The receipt is dead. When the message comes back whole, it is known by its text.
    ledger.settled(lease("r1"), Outcome.GONE)
    assert ledger.dequeued(*message("r3", count=3), LATER) is Fate.DELETE
    assert ledger.dequeued(*message("r4", text="updated", count=4), LATER) is Fate.ROW


def test_a_damaged_message_that_nobody_knows_is_a_row():
    assert Ledger().dequeued(*message("r1", intact=False), TERM) is Fate.ROW
