"""Renewals of what is held, and what waits until one is answered."""

import pytest
from ledgers import LATER, TERM, lease, ledger_with_batch, message

from spark_azqueue.errors import Outcome
from spark_azqueue.service.queues.calls import Delete, Release
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import WAITING, Fate, RenewedLeases, State
from spark_azqueue.source.leases.timing import Term


@pytest.mark.parametrize("given_out", [False, True])
def test_what_is_held_is_renewed_when_half_of_its_time_is_over(given_out):
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
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

    assert then == RenewedLeases(lease("r2"))
    assert ledger.next_due() == 60.0
    assert ledger.committed(1) == [lease("r2")]
    assert ledger.counts.renewals == 1


@pytest.mark.parametrize("outcome", [Outcome.GONE, Outcome.LOST, Outcome.FATAL])
def test_a_lost_lease_is_not_renewed_again_but_its_message_is_still_known(outcome):
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    then = ledger.renewed(lease("r1"), outcome, None, LATER, 31.0)

    assert then == RenewedLeases(lease("r1"), is_lost=True)
    assert ledger.next_due() is None
    assert ledger.dequeued(*message("r2"), TERM) is Fate.HELD_ALREADY
    assert ledger.next_due() == 30.0


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.RETRY, Outcome.GONE])
def test_a_renewal_without_a_receipt_may_have_hidden_the_message(outcome):
    """A proxy may drop the receipt of a renewal that was carried out."""
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    ledger.renewed(lease("r1"), outcome, None, LATER, 31.0)
    ledger.committed(1)
    ledger.settled(lease("r1"), Outcome.LOST)

    assert ledger.hidden_until == 31.0 + LATER.length_s


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


@pytest.mark.parametrize(
    ("outcome", "new", "then", "state"),
    [
        (Outcome.OK, "r2", (Delete, "r2"), State.COMMITTED),
        # It may have worked all the same: the delete will tell.
        (Outcome.RETRY, None, (Delete, "r1"), State.COMMITTED),
        (Outcome.GONE, None, (None, "r1"), State.REMEMBERED),
        (Outcome.LOST, None, (None, "r1"), State.REMEMBERED),
    ],
)
def test_a_delete_waits_for_the_renewal_under_way(outcome, new, then, state):
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)

    assert ledger.committed(1) == []
    answer = ledger.renewed(lease("r1"), outcome, new and lease(new), LATER, 31.0)

    assert (answer.waited, answer.lease) == (then[0], lease(then[1]))
    assert ledger.state(lease("r1")) is state


@pytest.mark.parametrize(
    ("outcome", "new", "then"),
    [
        (Outcome.OK, "r2", (Release, "r2")),
        (Outcome.RETRY, None, (Release, "r1")),
        (Outcome.GONE, None, (None, "r1")),
    ],
)
def test_a_release_waits_for_the_renewal_under_way(outcome, new, then):
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.due(30.0)

    assert ledger.release(WAITING) == []
    assert ledger.state(lease("r1")) is State.LEAVING
    answer = ledger.renewed(lease("r1"), outcome, new and lease(new), LATER, 31.0)

    assert (answer.waited, answer.lease) == (then[0], lease(then[1]))
    assert len(ledger) == 0


def test_setting_aside_waits_for_the_renewal_under_way():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.due(30.0)

    assert ledger.set_aside(message("r1").message) == []
    answer = ledger.renewed(lease("r1"), Outcome.OK, lease("r2"), LATER, 31.0)
    assert answer == RenewedLeases(lease("r2"), Delete)


def test_one_that_is_leaving_and_comes_again_is_new():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.due(30.0)
    ledger.release(WAITING)

    assert ledger.dequeued(*message("r2"), LATER) is Fate.ROW
    assert ledger.renewed(lease("r1"), Outcome.GONE, None, LATER, 31.0).waited is None
    assert ledger.hand_out([message("r2")], 1) == [lease("r2")]


@pytest.mark.parametrize("event", ["committed", "forget", "release"])
def test_nothing_is_renewed_that_is_not_held_any_more(event):
    ledger = ledger_with_batch(message("r1"))

    getattr(ledger, event)(1)

    assert ledger.due(1e9) == []


def test_what_leaves_after_a_renewal_may_be_hidden_for_as_long_as_that_says():
    ledger = Ledger()
    held = message("m1")
    ledger.restore([(held, Term.left(0.0, 50.0, 100.0))], 1, 100.0)
    (lease,) = ledger.due(99.0)
    assert ledger.release(1) == []

    ledger.renewed(lease, Outcome.OK, lease, Term.of(99.0, 100.0), 99.1)

    assert ledger.hidden_until >= 199.0


@pytest.mark.parametrize(
    ("outcome", "new", "until"),
    [
        (Outcome.OK, lease("r2"), LATER.ends_at),
        (Outcome.RETRY, None, 31.0 + LATER.length_s),
        (Outcome.GONE, None, 31.0 + LATER.length_s),
    ],
)
def test_a_renewal_without_a_good_answer_may_have_hidden_its_message(outcome, new, until):
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)
    newest = ledger.renewed(lease("r1"), outcome, new, LATER, 31.0).lease
    ledger.committed(1)
    ledger.settled(newest, Outcome.GONE)

    assert ledger.hidden_until == until
