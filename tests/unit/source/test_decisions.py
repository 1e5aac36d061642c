"""Small decisions of the ledger and about commits that larger tests do not notice."""

from __future__ import annotations

import pytest
from ledgers import LATER, TERM, lease, ledger_with_batch, message

from spark_azqueue.errors import AzQueueError, Outcome
from spark_azqueue.source.batches import commits
from spark_azqueue.source.batches.commits import CommitTracker, PlanAction, Position, Proof
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import WAITING, Fate

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


def test_messages_go_on_with_their_newest_leases() -> None:
    known, unknown = message("r1"), message("s1", "unknown")
    ledger = ledger_with_batch(known)
    assert ledger.newest([known, unknown]) == [known, unknown]

    ledger.due(30.0)
    ledger.renewed(lease("r1"), Outcome.OK, lease("r2"), LATER, 31.0)
    assert ledger.newest([known, unknown]) == [message("r2"), unknown]


@pytest.mark.parametrize(("done", "most", "ended"), [(0, 9, 2), (0, 3, 2), (0, 2, 2), (3, 9, 4)])
def test_batches_have_ended_up_to_the_first_that_is_in_hand(
    done: int, most: int, ended: int
) -> None:
    ledger = ledger_with_batch(message("r1", "m3"), batch=3)
    ledger.dequeued(*message("r1", "m5"), TERM)
    ledger.hand_out([message("r1", "m5")], 5)
    assert ledger.ended_up_to(done, most) == ended


def test_a_message_of_an_earlier_run_keeps_its_expiry_and_how_long_it_may_be_hidden() -> None:
    ledger = refused(restored(hidden_until=500.0, expires=9_000_000))

    assert [expires for _, _, expires in ledger.pending()] == [9]
    assert ledger.hidden_until == 500.0


def test_an_owed_message_is_forgotten_only_after_it_expired() -> None:
    ledger = Ledger()
    ledger.restore_pending(lease("r1"), 1, 2)
    ledger.forget_expired(2.0)
    assert ledger.pending_count == 1
    ledger.forget_expired(2.000001)
    assert ledger.pending_count == 0


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
    return CommitTracker(INITIAL, Position(INITIAL))


def test_the_rows_of_a_batch_are_not_given_when_a_later_one_was_returned() -> None:
    batches = tracked()
    batches.handed_out(INITIAL, N1)
    batches.handed_out(N1, N2)

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


@pytest.mark.parametrize("known", ["returned", "named late"])
def test_an_offset_is_due_for_two_calls_however_long_the_query_was_idle(known: str) -> None:
    position = Position(INITIAL)
    for _ in range(3):
        position.asked()
    if known == "returned":
        position.handed_out(N1)
    else:
        position.probed(N1)

    due = [position.is_due]
    for _ in range(2):
        position.asked()
        due.append(position.is_due)
    assert due == [True, True, False]


def test_spark_never_asks_for_rows_up_to_the_initial_offset() -> None:
    position = Position(INITIAL)
    position.asked()
    position.probed(INITIAL)

    assert (position.is_known, position.is_awaited) == (True, False)
