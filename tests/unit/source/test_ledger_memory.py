"""What the ledger remembers of committed messages never costs it one that is in hand."""

import weakref

from ledgers import TERM, lease, message

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import Fate, State


def remember(ledger, batch, given):
    """This message's batch is committed, and its delete refused."""
    assert ledger.dequeued(*given, TERM) is Fate.ROW
    ledger.hand_out([given], batch)
    for each in ledger.committed(batch):
        ledger.settled(each, Outcome.GONE)


def test_a_remembered_message_that_was_updated_is_in_hand_and_not_remembered():
    # Given a remembered message, whose updated copy is in hand
    ledger = Ledger(remember_at_most=2)
    remember(ledger, 1, message("r1"))
    assert ledger.remembered == 1
    assert ledger.dequeued(*message("r2", text="new", count=2), TERM) is Fate.ROW
    assert ledger.remembered == 0

    # When more is remembered than there is room for
    for number in range(2, 6):
        remember(ledger, number, message(f"r{number}0", f"m{number}"))

    # Then the copy in hand is still known
    assert ledger.state(lease("r2")) is State.HELD
    assert ledger.remembered == 2


def test_the_fingerprint_of_a_text_is_taken_once_and_the_text_is_not_kept():
    # Given a message with a text that nobody else holds
    class Text(str):
        pass

    text, taken = Text("T"), []
    ledger = Ledger(fingerprint=lambda each: taken.append(each[:]) or 1)
    given = message("r1", text=text)
    text = weakref.ref(text)

    # When it is dequeued and given out
    ledger.dequeued(*given, TERM)
    assert ledger.hand_out([given], 1) == [lease("r1")]

    # Then
    assert taken == ["T"]
    del given
    assert text() is None


def test_an_updated_text_is_told_from_the_one_that_waits():
    ledger = Ledger()
    ledger.dequeued(*message("r1", text="old"), TERM)
    ledger.dequeued(*message("r2", text="new", count=2), TERM)

    assert ledger.hand_out([message("r1", text="old")], 1) == []
    assert ledger.hand_out([message("r2", text="".join(["n", "ew"]))], 1) == [lease("r2")]


def owes(ledger, given, batch=1):
    """A message that expires then, whose delete was refused."""
    remember(ledger, batch, given)
    return given.lease.key


def test_what_is_forgotten_since_there_is_too_much_of_it_is_counted():
    ledger = Ledger(remember_at_most=2)
    for number in range(5):
        remember(ledger, number + 1, message(f"r{number}", f"m{number}"))

    assert (ledger.remembered, ledger.counts.evicted_deletes) == (2, 3)


def test_owed_deletes_say_when_their_messages_expire():
    ledger = Ledger(fingerprint=len)
    key = owes(ledger, message("r1", expiration_time=1_800_000_000_999_999))
    other = lease("", "owed")
    ledger.restore_pending(other, 7, 1_900_000_000)

    assert ledger.pending() == [(key, 1, 1_800_000_000), (other.key, 7, 1_900_000_000)]


def test_an_owed_delete_is_forgotten_when_its_message_has_expired():
    ledger = Ledger()
    owes(ledger, message("r1", expiration_time=1_000_000_000))
    late = owes(ledger, message("s1", "y", expiration_time=2_000_000_000), 2)
    unknown = lease("", "owed")
    ledger.restore_pending(unknown, 7, 0)
    assert ledger.dequeued(*message("t1", "z", expiration_time=1_000_000_000), TERM)

    ledger.forget_expired(1_500.0)

    assert [key for key, *_ in ledger.pending()] == [late, unknown.key]
    assert ledger.state(lease("t1", "z")) is State.HELD, "only what is owed is forgotten"
    assert ledger.counts.evicted_deletes == 0


def test_what_is_known_is_what_is_in_batches_or_owed():
    ledger = Ledger()
    owes(ledger, message("r1"))
    first, second = message("s1", "y"), message("t1", "z")
    for each in (first, second):
        ledger.dequeued(*each, TERM)
    ledger.hand_out([first], 2)

    assert (ledger.known, ledger.pending_count, len(ledger)) == (2, 1, 3)


def test_the_newest_owed_delete_comes_last_whether_it_was_refused_or_is_in_doubt():
    """A log that has no room for all keeps the newest: the others have come back by then."""
    ledger = Ledger()
    keys = []
    for number, outcome in enumerate([Outcome.LOST, Outcome.PROBABLY, Outcome.LOST], 1):
        each = message(f"r{number}", f"m{number}")
        ledger.dequeued(*each, TERM)
        ledger.hand_out([each], number)
        ledger.committed(number)
        ledger.settled(each.lease, outcome)
        keys.append(each.lease.key)

    assert [key for key, *_ in ledger.pending()] == keys
    ledger.drop(lease("r1", "m1"))
    assert [key for key, *_ in ledger.pending()] == keys[1:]
