"""What is known of each message, and what each event makes of it."""

from dataclasses import replace

import pytest

from spark_azqueue.errors import Outcome
from spark_azqueue.metrics.report import Counters
from spark_azqueue.service.messages import Lease, Message
from spark_azqueue.source.leases.ledger import WAITING, Fate, Ledger, State, Then
from spark_azqueue.source.leases.timing import Term

TERM = Term.of(0.0, 60.0)
LATER = Term.of(30.0, 60.0)


def message(receipt, message_id="x", text="T", queue="orders", count=1):
    return Message(queue, message_id, text, 0, 0, count, pop_receipt=receipt)


def lease(receipt, message_id="x", queue="orders"):
    return Lease(queue, message_id, receipt)


def ledger_with_batch(*messages, batch=1, **settings):
    ledger = Ledger(**settings)
    for each in messages:
        assert ledger.dequeued(each, TERM) is Fate.ROW
    ledger.hand_out(messages, batch)
    return ledger


def test_a_new_message_gives_a_row_and_waits():
    ledger = Ledger()

    assert ledger.dequeued(message("r1"), TERM) is Fate.ROW
    assert ledger.state(lease("r1")) is State.HELD
    assert ledger.committed(1) == []
    assert ledger.release(WAITING) == [lease("r1")]


def test_a_committed_batch_is_deleted_with_its_receipts_in_the_order_given_out():
    messages = [message(f"r{n}", f"m{n}") for n in range(5)]
    ledger = ledger_with_batch(*messages)

    assert ledger.committed(1) == [lease(f"r{n}", f"m{n}") for n in range(5)]
    assert ledger.state(lease("r1", "m1")) is State.COMMITTED


def test_only_the_batch_in_question_is_committed():
    ledger = ledger_with_batch(message("r1", "x"))
    ledger.dequeued(message("r2", "y"), TERM)
    ledger.hand_out([message("r2", "y")], 2)

    assert ledger.committed(2) == [lease("r2", "y")]
    assert ledger.state(lease("r1", "x")) is State.HELD


def test_the_same_id_in_two_queues_is_two_messages():
    ledger = Ledger()

    assert ledger.dequeued(message("r1", queue="a-queue"), TERM) is Fate.ROW
    assert ledger.dequeued(message("r2", queue="b-queue"), TERM) is Fate.ROW


def test_a_batch_is_committed_once():
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)

    assert ledger.committed(1) == []


# ── copies ────────────────────────────────────────────────────────────────────────────────────────


def test_a_copy_of_one_in_hand_brings_its_newer_receipt_and_no_row():
    ledger = ledger_with_batch(message("r1"))

    assert ledger.dequeued(message("r2"), TERM) is Fate.HELD_ALREADY
    assert ledger.committed(1) == [lease("r2")]
    assert ledger.counts.copies_suppressed == 1


def test_a_copy_of_one_that_waits_gives_no_second_row_either():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)

    assert ledger.dequeued(message("r2"), TERM) is Fate.HELD_ALREADY
    assert ledger.hand_out([message("r1")], 1) == [lease("r2")]


@pytest.mark.parametrize("outcome", [None, Outcome.GONE, Outcome.LOST, Outcome.RETRY])
def test_a_copy_of_a_committed_one_is_deleted_with_its_own_receipt(outcome):
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)
    if outcome:
        ledger.settled(lease("r1"), outcome)

    assert ledger.dequeued(message("r2"), TERM) is Fate.DELETE
    ledger.settled(lease("r2"), Outcome.OK)
    assert len(ledger) == 0


def test_a_late_answer_about_the_older_receipt_says_nothing_about_the_newer():
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)
    ledger.dequeued(message("r2"), TERM)

    ledger.settled(lease("r1"), Outcome.GONE)
    ledger.settled(lease("r1"), Outcome.OK)

    assert ledger.state(lease("r2")) is State.COMMITTED


@pytest.mark.parametrize("given_out", [False, True])
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_an_updated_copy_is_a_new_message_whatever_is_known_of_the_old(
    given_out, committed, refused
):
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    if given_out:
        ledger.hand_out([message("r1")], 1)
    if given_out and committed:
        ledger.committed(1)
        if refused:
            ledger.settled(lease("r1"), Outcome.GONE)

    assert ledger.dequeued(message("r2", text="updated"), TERM) is Fate.ROW
    assert ledger.state(lease("r2")) is State.HELD


def test_an_updated_copy_is_not_deleted_by_the_batch_of_the_old_text():
    ledger = ledger_with_batch(message("r1"))
    updated = message("r2", text="updated")
    ledger.dequeued(updated, TERM)
    ledger.hand_out([updated], 2)

    assert ledger.committed(1) == []
    ledger.settled(lease("r1"), Outcome.OK)
    assert ledger.state(lease("r2")) is State.HELD
    assert ledger.committed(2) == [lease("r2")]


def test_an_update_undone_is_known_again():
    ledger = ledger_with_batch(message("r1", text="A"))
    ledger.dequeued(message("r2", text="B"), TERM)

    assert ledger.dequeued(message("r3", text="A"), TERM) is Fate.ROW


# ── deletes ───────────────────────────────────────────────────────────────────────────────────────


def test_a_deleted_message_is_forgotten():
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)

    ledger.settled(lease("r1"), Outcome.OK)

    assert len(ledger) == 0
    assert ledger.dequeued(message("r2"), TERM) is Fate.ROW


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
        ledger.dequeued(each, TERM)
    ledger.dequeued(message("r4", "a", count=2), TERM)
    ledger.hand_out(messages[:2], 1)
    ledger.set_aside(messages[2])
    ledger.committed(1)
    ledger.settled(lease("r4", "a"), Outcome.OK)
    ledger.settled(lease("r2", "b"), Outcome.GONE)
    ledger.settled(lease("r3", "c"), Outcome.OK)
    ledger.settled(lease("r3", "c"), Outcome.OK)  # told twice, counted once

    assert ledger.counts == Counters(
        dequeued=4,
        redelivered=1,
        delivered=2,
        deleted=2,
        deletes_refused=1,
        copies_suppressed=1,
        poison_moved=1,
    )
    assert (len(ledger), ledger.remembered, ledger.held) == (1, 1, 0)


def test_an_answer_about_a_message_in_hand_changes_nothing():
    ledger = ledger_with_batch(message("r1"))

    ledger.settled(lease("r1"), Outcome.OK)

    assert ledger.committed(1) == [lease("r1")]


def test_an_answer_about_a_stranger_changes_nothing():
    ledger = Ledger()

    ledger.settled(lease("r1"), Outcome.GONE)

    assert len(ledger) == 0


def test_the_oldest_are_forgotten_beyond_the_bound():
    messages = [message(f"r{n}", f"m{n}") for n in range(5)]
    ledger = ledger_with_batch(*messages, remember_at_most=3)
    for each in ledger.committed(1):
        ledger.settled(each, Outcome.GONE)

    assert len(ledger) == 3
    known = [ledger.state(lease(f"r{n}", f"m{n}")) is not None for n in range(5)]
    assert known == [False, False, True, True, True]


def test_one_that_was_refused_again_counts_as_the_newest():
    messages = [message(f"r{n}", f"m{n}") for n in range(4)]
    ledger = ledger_with_batch(*messages, remember_at_most=3)
    leases = ledger.committed(1)
    for each in leases[:3]:
        ledger.settled(each, Outcome.GONE)

    ledger.settled(leases[0], Outcome.GONE)
    ledger.settled(leases[3], Outcome.GONE)

    assert ledger.state(leases[0]) is State.REMEMBERED
    assert ledger.state(leases[1]) is None


def test_the_bound_never_touches_what_is_held():
    ledger = ledger_with_batch(message("r1", "held"), remember_at_most=1)
    for n in range(2, 6):
        ledger.dequeued(message(f"r{n}", f"m{n}"), TERM)
        ledger.hand_out([message(f"r{n}", f"m{n}")], n)
        for each in ledger.committed(n):
            ledger.settled(each, Outcome.GONE)

    assert ledger.committed(1) == [lease("r1", "held")]


# ── given back ────────────────────────────────────────────────────────────────────────────────────


def test_what_is_released_is_unknown_afterwards():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)

    assert ledger.release(WAITING) == [lease("r1")]
    assert ledger.release(WAITING) == []
    assert ledger.dequeued(message("r2"), TERM) is Fate.ROW


def test_releasing_what_waits_leaves_a_batch_alone():
    ledger = ledger_with_batch(message("r1", "x"))
    ledger.dequeued(message("r2", "y"), TERM)

    assert ledger.release(WAITING) == [lease("r2", "y")]
    assert ledger.committed(1) == [lease("r1", "x")]


def test_a_forgotten_batch_is_never_deleted_and_its_copies_are_new():
    ledger = ledger_with_batch(message("r1"))

    ledger.forget(1)

    assert ledger.committed(1) == []
    assert ledger.dequeued(message("r2"), TERM) is Fate.ROW


def test_forgetting_tells_how_many_receipts_in_rows_are_dead():
    kept, renewed, again = message("r1", "x"), message("r2", "y"), message("r3", "z")
    ledger = ledger_with_batch(kept, renewed, again)
    ledger.due(TERM.renew_at)
    ledger.renewed(lease("r2", "y"), Outcome.OK, lease("r4", "y"), TERM, 0.0)
    ledger.dequeued(message("r5", "z"), TERM)

    assert ledger.forget(1) == 2


def test_a_dropped_message_is_unknown():
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)
    ledger.settled(lease("r1"), Outcome.GONE)

    ledger.drop(lease("r1"))
    ledger.drop(lease("r1"))

    assert len(ledger) == 0


def test_one_set_aside_is_deleted_at_once_and_in_no_batch():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)

    assert ledger.set_aside(message("r1")) == [lease("r1")]
    assert ledger.release(WAITING) == []
    assert ledger.dequeued(message("r2"), TERM) is Fate.DELETE


# ── renewals ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("given_out", [False, True])
def test_what_is_held_is_renewed_when_half_of_its_time_is_over(given_out):
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    if given_out:
        ledger.hand_out([message("r1")], 1)

    assert ledger.next_due() == 30.0
    assert ledger.due(29.9) == []
    assert ledger.due(30.0) == [lease("r1")]
    assert ledger.due(30.0) == []  # it is under way
    assert ledger.next_due() is None


def test_a_renewed_lease_is_the_one_that_deletes():
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    then = ledger.renewed(lease("r1"), Outcome.OK, lease("r2"), LATER, 31.0)

    assert then == (Then.NOTHING, lease("r2"))
    assert ledger.next_due() == 60.0
    assert ledger.committed(1) == [lease("r2")]
    assert ledger.counts.renewals == 1


@pytest.mark.parametrize("outcome", [Outcome.GONE, Outcome.LOST, Outcome.FATAL])
def test_a_lost_lease_is_not_renewed_again_but_its_message_is_still_known(outcome):
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    then = ledger.renewed(lease("r1"), outcome, None, LATER, 31.0)

    assert then == (Then.NOTHING, lease("r1"))
    assert ledger.next_due() is None
    assert ledger.dequeued(message("r2"), TERM) is Fate.HELD_ALREADY
    assert ledger.next_due() == 30.0


def test_a_renewal_without_an_answer_is_tried_again_sooner_each_time():
    ledger = ledger_with_batch(message("r1"))
    dues = []
    now = 30.0
    for _ in range(3):
        assert ledger.due(now) == [lease("r1")]
        ledger.renewed(lease("r1"), Outcome.RETRY, None, LATER, now)
        now = ledger.next_due()
        dues.append(now)

    assert dues == [37.5, 43.125, 47.34375]


def test_a_renewal_without_an_answer_is_given_up_when_the_time_is_over():
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    ledger.renewed(lease("r1"), Outcome.RETRY, None, LATER, 60.0)

    assert ledger.next_due() is None
    assert ledger.counts.leases_lost == 1


@pytest.mark.parametrize("outcome", [Outcome.GONE, Outcome.LOST, Outcome.OK])
def test_a_late_answer_to_a_renewal_says_nothing_about_a_newer_dequeue(outcome):
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)
    ledger.dequeued(message("r2"), LATER)

    then = ledger.renewed(lease("r1"), outcome, lease("r1b"), LATER, 31.0)

    assert then == (Then.NOTHING, lease("r1"))
    assert ledger.next_due() == 60.0
    assert ledger.committed(1) == [lease("r2")]


@pytest.mark.parametrize(
    ("outcome", "new", "then", "state"),
    [
        (Outcome.OK, "r2", (Then.DELETE, "r2"), State.COMMITTED),
        # It may have worked all the same: the delete will tell.
        (Outcome.RETRY, None, (Then.DELETE, "r1"), State.COMMITTED),
        (Outcome.GONE, None, (Then.NOTHING, "r1"), State.REMEMBERED),
        (Outcome.LOST, None, (Then.NOTHING, "r1"), State.REMEMBERED),
    ],
)
def test_a_delete_waits_for_the_renewal_under_way(outcome, new, then, state):
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    assert ledger.committed(1) == []
    answer = ledger.renewed(lease("r1"), outcome, new and lease(new), LATER, 31.0)

    assert answer == (then[0], lease(then[1]))
    assert ledger.state(lease("r1")) is state


@pytest.mark.parametrize(
    ("outcome", "new", "then"),
    [
        (Outcome.OK, "r2", (Then.RELEASE, "r2")),
        (Outcome.RETRY, None, (Then.RELEASE, "r1")),
        (Outcome.GONE, None, (Then.NOTHING, "r1")),
    ],
)
def test_a_release_waits_for_the_renewal_under_way(outcome, new, then):
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    ledger.due(30.0)

    assert ledger.release(WAITING) == []
    assert ledger.state(lease("r1")) is State.LEAVING
    answer = ledger.renewed(lease("r1"), outcome, new and lease(new), LATER, 31.0)

    assert answer == (then[0], lease(then[1]))
    assert len(ledger) == 0


def test_setting_aside_waits_for_the_renewal_under_way():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    ledger.due(30.0)

    assert ledger.set_aside(message("r1")) == []
    answer = ledger.renewed(lease("r1"), Outcome.OK, lease("r2"), LATER, 31.0)
    assert answer == (Then.DELETE, lease("r2"))


def test_a_copy_of_a_committed_one_is_deleted_even_while_its_renewal_is_under_way():
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)
    ledger.committed(1)

    assert ledger.dequeued(message("r2"), LATER) is Fate.DELETE
    assert ledger.renewed(lease("r1"), Outcome.GONE, None, LATER, 31.0)[0] is Then.NOTHING
    assert ledger.state(lease("r2")) is State.COMMITTED


def test_one_that_is_leaving_and_comes_again_is_new():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    ledger.due(30.0)
    ledger.release(WAITING)

    assert ledger.dequeued(message("r2"), LATER) is Fate.ROW
    assert ledger.renewed(lease("r1"), Outcome.GONE, None, LATER, 31.0)[0] is Then.NOTHING
    assert ledger.hand_out([message("r2")], 1) == [lease("r2")]


@pytest.mark.parametrize("event", ["committed", "forget", "release"])
def test_nothing_is_renewed_that_is_not_held_any_more(event):
    ledger = ledger_with_batch(message("r1"))

    getattr(ledger, event)(1)

    assert ledger.due(1e9) == []


def test_an_updated_message_is_renewed_once():
    ledger = ledger_with_batch(message("r1"))
    ledger.dequeued(message("r2", text="updated"), TERM)

    assert ledger.due(30.0) == [lease("r2")]


# ── a message that is updated while it waits ──────────────────────────────────────────────────────


def test_a_batch_never_deletes_an_updated_text_that_it_did_not_hold():
    # Given a message that waits, and a copy of it that somebody updated meanwhile
    ledger = Ledger()
    old, updated = message("r1"), message("r2", text="updated")
    ledger.dequeued(old, TERM)
    ledger.dequeued(updated, TERM)

    # When the old text alone is given out, and its batch is committed
    ledger.hand_out([old], 1)

    # Then the updated one is not deleted: its row is still to come
    assert ledger.committed(1) == []


# ── pages that come in another order than they were dequeued ──────────────────────────────────────


@pytest.mark.parametrize("text", ["T", "an older text"])
def test_an_older_delivery_that_comes_later_changes_nothing(text):
    # Given a message that was delivered twice, the second delivery being answered first
    ledger = ledger_with_batch(message("r2", count=2))

    # When the first one comes, whose receipt the second has voided
    fate = ledger.dequeued(message("r1", count=1, text=text), TERM)

    # Then the newer receipt is the one to delete with
    assert fate is Fate.HELD_ALREADY
    assert ledger.committed(1) == [lease("r2")]


def test_an_older_delivery_of_a_committed_message_is_not_deleted_with_its_dead_receipt():
    ledger = ledger_with_batch(message("r2", count=2))
    ledger.committed(1)

    assert ledger.dequeued(message("r1", count=1), TERM) is Fate.HELD_ALREADY
    ledger.settled(lease("r2"), Outcome.OK)
    assert ledger.state(lease("r2")) is None


# ── bodies in blobs ───────────────────────────────────────────────────────────────────────────────


def ledger_with_blob():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    key = (message("r1").queue, message("r1").message_id)
    ledger.hand_out([message("r1")], 1, {key: "blob"})
    return ledger


def test_the_blob_of_a_message_goes_when_the_message_is_gone_and_not_before():
    ledger = ledger_with_blob()
    ledger.committed(1)

    assert ledger.settled(lease("r1"), Outcome.GONE) is None  # somebody else holds it
    assert ledger.dequeued(message("r2"), TERM) is Fate.DELETE
    assert ledger.settled(lease("r1"), Outcome.OK) is None  # about a dead receipt
    assert ledger.settled(lease("r2"), Outcome.OK) == "blob"
    assert ledger.settled(lease("r2"), Outcome.OK) is None


def test_a_message_that_was_updated_has_no_blob_any_more():
    ledger = ledger_with_blob()
    ledger.committed(1)
    updated = message("r2", text="another text")
    ledger.dequeued(updated, TERM)
    ledger.hand_out([updated], 2)
    ledger.committed(2)

    assert ledger.settled(lease("r2"), Outcome.OK) is None


def test_one_set_aside_keeps_its_blob_for_the_copy():
    ledger = Ledger()
    ledger.dequeued(message("r1"), TERM)
    ledger.set_aside(message("r1"))

    assert ledger.settled(lease("r1"), Outcome.OK) is None


# ── copies that were damaged on the way ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("committed", [False, True])
def test_a_damaged_copy_gives_no_row_and_deletes_nothing(committed):
    """Whether somebody updated the message cannot be told: nothing may be lost, nor come twice."""
    ledger = ledger_with_batch(message("r1"))
    if committed:
        ledger.committed(1)

    fate = ledger.dequeued(replace(message("r2", text="T?", count=2), intact=False), LATER)

    assert fate is Fate.HELD_ALREADY
    if not committed:
        assert ledger.committed(1) == [lease("r1")]
    # The receipt is dead. When the message comes back whole, it is known by its text.
    ledger.settled(lease("r1"), Outcome.GONE)
    assert ledger.dequeued(message("r3", count=3), LATER) is Fate.DELETE
    assert ledger.dequeued(message("r4", text="updated", count=4), LATER) is Fate.ROW


def test_a_damaged_message_that_nobody_knows_is_a_row():
    assert Ledger().dequeued(replace(message("r1"), intact=False), TERM) is Fate.ROW
