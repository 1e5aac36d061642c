"""What the ledger remembers of committed messages never costs it one that is in hand."""

import weakref

from ledgers import TERM, lease, message

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.ledger import Fate, Ledger, State


def remember(ledger, batch, given):
    """This message's batch is committed, and its delete refused."""
    assert ledger.dequeued(given, TERM) is Fate.ROW
    ledger.hand_out([given], batch)
    for each in ledger.committed(batch):
        ledger.settled(each, Outcome.GONE)


def test_a_remembered_message_that_was_updated_is_in_hand_and_not_remembered():
    # Given a remembered message, whose updated copy is in hand
    ledger = Ledger(remember_at_most=2)
    remember(ledger, 1, message("r1"))
    assert ledger.remembered == 1
    assert ledger.dequeued(message("r2", text="new", count=2), TERM) is Fate.ROW
    assert ledger.remembered == 0

    # When more is remembered than there is room for
    for number in range(2, 6):
        remember(ledger, number, message(f"r{number}0", f"m{number}"))

    # Then the copy in hand is still known
    assert ledger.state(lease("r2")) is State.HELD
    assert ledger.remembered == 2


def test_a_remembered_message_that_is_deleted_at_last_makes_room():
    ledger = Ledger(remember_at_most=2)
    remember(ledger, 1, message("r1"))
    remember(ledger, 2, message("s1", "y"))

    assert ledger.dequeued(message("r2", count=2), TERM) is Fate.DELETE
    ledger.settled(lease("r2"), Outcome.OK)
    remember(ledger, 3, message("t1", "z"))

    assert ledger.state(lease("s1", "y")) is State.REMEMBERED
    assert (ledger.remembered, len(ledger)) == (2, 2)


def test_the_fingerprint_of_a_text_is_taken_once_and_the_text_is_not_kept():
    # Given a message with a text that nobody else holds
    class Text(str):
        pass

    text, taken = Text("T"), []
    ledger = Ledger(fingerprint=lambda each: taken.append(each[:]) or 1)
    given = message("r1", text=text)
    text = weakref.ref(text)

    # When it is dequeued and given out
    ledger.dequeued(given, TERM)
    assert ledger.hand_out([given], 1) == [lease("r1")]

    # Then
    assert taken == ["T"]
    del given
    assert text() is None


def test_an_updated_text_is_told_from_the_one_that_waits():
    ledger = Ledger()
    ledger.dequeued(message("r1", text="old"), TERM)
    ledger.dequeued(message("r2", text="new", count=2), TERM)

    assert ledger.hand_out([message("r1", text="old")], 1) == []
    assert ledger.hand_out([message("r2", text="".join(["n", "ew"]))], 1) == [lease("r2")]
