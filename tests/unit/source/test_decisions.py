"""Small decisions of the ledger and about commits that larger tests do not notice."""

from __future__ import annotations

import pytest
from ledgers import LATER, TERM, lease, ledger_with_batch, message
from refs import ORDERS

from spark_azqueue.errors import AzQueueError, Outcome
from spark_azqueue.source.batches import commits
from spark_azqueue.source.batches.commits import CommitTracker, PlanAction, Proof
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import WAITING, Fate, RenewedLeases, State

# ── the ledger ────────────────────────────────────────────────────────────────────────────────────


def restored(*, hidden_until: float = 0.0, expires: int = 0) -> Ledger:
    """A ledger with a message of batch 1 of an earlier run."""
    ledger = Ledger()
    given = message("r1", expiration_time=expires)
    ledger.restore([(given, TERM)], 1, hidden_until)
    return ledger


def refused(ledger: Ledger, batch: int = 1) -> Ledger:
    """The batch is committed, and the deletes are refused."""
    for each in ledger.committed(batch):
        ledger.settled(each, Outcome.GONE)
    return ledger


def test_an_older_copy_that_comes_after_a_newer_one_does_not_replace_its_receipt() -> None:
    ledger = ledger_with_batch(message("r1"))

    assert ledger.dequeued(*message("r3", count=3), TERM) is Fate.HELD_ALREADY
    assert ledger.dequeued(*message("r2", count=2), TERM) is Fate.HELD_ALREADY

    assert ledger.committed(1) == [lease("r3")]
    assert ledger.counts.duplicates_suppressed == 2


def test_a_copy_with_a_damaged_text_counts_as_suppressed() -> None:
    ledger = ledger_with_batch(message("r1"))

    damaged = message("r2", text="?", count=2, intact=False)
    assert ledger.dequeued(*damaged, TERM) is Fate.HELD_ALREADY
    assert ledger.counts.duplicates_suppressed == 1


def test_a_message_that_comes_again_before_its_release_waits_like_a_new_one() -> None:
    ledger = ledger_with_batch(message("r1"))
    ledger.due(30.0)
    assert ledger.release(1) == []

    assert ledger.dequeued(*message("r2", count=2), LATER) is Fate.ROW
    assert ledger.waits(lease("r2"))
    assert ledger.release(WAITING) == [lease("r2")]


def test_only_a_message_without_a_batch_waits() -> None:
    ledger = ledger_with_batch(message("r1"))
    ledger.dequeued(*message("s1", "y"), TERM)

    assert [ledger.waits(lease("?", each)) for each in ("x", "y", "z")] == [False, True, False]


def test_what_is_not_in_hand_any_more_is_not_delivered() -> None:
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.set_aside(message("r1").message)

    assert ledger.hand_out([message("r1"), message("s1", "unknown")], 1) == []
    assert ledger.known == 1


def test_messages_go_on_with_their_newest_leases() -> None:
    known, unknown = message("r1"), message("s1", "unknown")
    ledger = ledger_with_batch(known)
    assert ledger.newest([known, unknown]) == [known, unknown]

    ledger.due(30.0)
    ledger.renewed(lease("r1"), Outcome.OK, lease("r2"), LATER, 31.0)
    assert ledger.newest([known, unknown]) == [message("r2"), unknown]


def test_delivered_messages_are_counted_by_queue() -> None:
    ledger = ledger_with_batch(message("r1"), message("s1", "y"))

    assert ledger.delivered_by_queue.as_dict() == {ORDERS.name: 2}


def test_a_run_that_ends_knows_what_it_delivered_until_that_is_deleted() -> None:
    ledger = Ledger()
    ledger.track_handed_out()
    ledger.dequeued(*message("r1"), TERM)
    assert not ledger.was_handed_out(lease("r1"))

    ledger.hand_out([message("r1")], 1)
    assert ledger.was_handed_out(lease("r1"))
    (newest,) = ledger.committed(1)
    ledger.settled(newest, Outcome.OK)
    assert not ledger.was_handed_out(lease("r1"))
    assert not ledger_with_batch(message("r1")).was_handed_out(lease("r1"))


def test_the_latest_time_until_which_a_message_may_be_hidden_counts() -> None:
    ledger = Ledger()
    ledger.hide_until(50.0)
    ledger.hide_until(20.0)

    assert ledger.hidden_until == 50.0


def test_what_is_released_or_comes_again_to_be_deleted_may_be_hidden() -> None:
    ledger = ledger_with_batch(message("r1"))
    ledger.release(1)
    assert ledger.hidden_until == TERM.ends_at

    ledger = refused(ledger_with_batch(message("r1")))
    assert ledger.dequeued(*message("r2", count=2), LATER) is Fate.DELETE
    assert ledger.hidden_until == LATER.ends_at


@pytest.mark.parametrize(("done", "most", "ended"), [(0, 9, 2), (0, 3, 2), (0, 2, 2), (3, 9, 4)])
def test_batches_have_ended_up_to_the_first_that_is_in_hand(
    done: int, most: int, ended: int
) -> None:
    ledger = ledger_with_batch(message("r1", "m3"), batch=3)
    ledger.dequeued(*message("r1", "m5"), TERM)
    ledger.hand_out([message("r1", "m5")], 5)
    assert ledger.ended_up_to(done, most) == ended


def test_a_batch_has_ended_when_its_last_delete_was_refused() -> None:
    ledger = ledger_with_batch(message("r1"))
    assert ledger.ended_up_to(0, 1) == 0

    assert refused(ledger).ended_up_to(0, 1) == 1


def test_a_message_that_is_probably_deleted_is_counted_once() -> None:
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)
    ledger.settled(lease("r1"), Outcome.PROBABLY)
    assert ledger.state(lease("r1")) is State.PROBABLY_GONE

    assert ledger.dequeued(*message("r2", count=2), LATER) is Fate.DELETE
    ledger.settled(lease("r2"), Outcome.OK)
    assert ledger.counts.deleted == 1


def test_a_message_of_an_earlier_run_keeps_its_expiry_and_how_long_it_may_be_hidden() -> None:
    ledger = refused(restored(hidden_until=500.0, expires=9_000_000))

    assert [expires for _, _, expires in ledger.pending()] == [9]
    assert ledger.hidden_until == 500.0


def test_a_message_in_a_batch_of_an_earlier_run_is_owed_no_more() -> None:
    ledger = Ledger()
    ledger.restore_pending(lease("r1"), hash("T"), 0)
    assert (ledger.pending_count, ledger.hidden_until) == (1, 0.0)

    ledger.restore([(message("r1"), TERM)], 1, 0.0)
    assert (ledger.pending_count, ledger.state(lease("r1"))) == (0, State.HELD)


def test_a_message_in_hand_does_not_become_owed() -> None:
    ledger = restored()
    ledger.restore_pending(lease("r1"), hash("T"), 0)

    assert (ledger.pending_count, ledger.state(lease("r1"))) == (0, State.HELD)


def test_an_owed_message_is_forgotten_only_after_it_expired() -> None:
    ledger = Ledger()
    ledger.restore_pending(lease("r1"), 1, 2)
    ledger.forget_expired(2.0)
    assert ledger.pending_count == 1
    ledger.forget_expired(2.000001)
    assert ledger.pending_count == 0


def test_only_the_first_renewal_is_that_of_a_lease_of_an_earlier_run() -> None:
    ledger = restored()
    renewals = []
    for old, new, now in (("r1", "r2", 30.0), ("r2", "r3", 60.0)):
        ledger.due(now)
        renewals.append(ledger.renewed(lease(old), Outcome.OK, lease(new), LATER, now))

    assert [each.of_earlier_run for each in renewals] == [True, False]


def test_an_answer_that_no_renewal_waits_for_changes_nothing() -> None:
    ledger = ledger_with_batch(message("r1"))

    for each in (lease("r1"), lease("z1", "unknown")):
        assert ledger.renewed(each, Outcome.FATAL, None, TERM, 1.0) == RenewedLeases(each)
    ledger.due(30.0)
    ledger.dequeued(*message("r2", count=2), LATER)
    ledger.due(60.0)
    assert ledger.renewed(lease("r1"), Outcome.GONE, None, TERM, 61.0) == RenewedLeases(lease("r1"))

    assert ledger.counts.leases_lost == 0
    assert ledger.renewed(lease("r2"), Outcome.OK, lease("r3"), LATER, 62.0).lease == lease("r3")


def test_a_newer_copy_puts_the_renewal_off() -> None:
    ledger = ledger_with_batch(message("r1"))
    ledger.dequeued(*message("r2", count=2), LATER)

    assert ledger.due(LATER.renew_at - 0.1) == []
    assert ledger.due(LATER.renew_at) == [lease("r2")]


def test_a_delete_waits_only_for_the_renewal_of_its_own_lease() -> None:
    ledger = ledger_with_batch(message("r1"), message("s1", "y"))
    assert ledger.due(30.0, 1) == [lease("r1")]
    ledger.committed(1)

    leases = [lease("r1"), lease("r0"), lease("s1", "y"), lease("z1", "unknown")]
    assert [ledger.puts_off(each) for each in leases] == [True, False, False, False]


# ── commits ───────────────────────────────────────────────────────────────────────────────────────


def offset(batch: int) -> dict[str, object]:
    return {"version": 1, "batch": batch, "account": "acc", "queues": {"q": f"r{batch}"}}


INITIAL, N1, N2, N3 = (offset(batch) for batch in range(4))


def tracked() -> CommitTracker:
    return CommitTracker(INITIAL)


def test_the_rows_of_several_open_batches_are_given_until_each_is_settled() -> None:
    """An engine may plan ahead."""
    batches = tracked()
    batches.handed_out(N1)
    batches.handed_out(N2)

    assert batches.plan(INITIAL, N1) is PlanAction.HAND_OVER
    assert batches.plan(N1, N2) is PlanAction.HAND_OVER
    assert batches.handed_out_before(2) == [N1]
    batches.settled(N1)
    with pytest.raises(AzQueueError, match="rows of batch 1 again"):
        batches.plan(INITIAL, N1)
    assert batches.plan(N1, N2) is PlanAction.HAND_OVER


def test_the_newest_offsets_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_KNOWN_AT_MOST", 2)
    batches = tracked()
    for each in (N1, N2, N1, N3):
        batches.settled(each)

    proofs = [batches.proven(each) for each in (N1, N2, N3)]
    assert proofs == [Proof.NOTHING, Proof.SETTLE_RESTORED, Proof.NOTHING]
