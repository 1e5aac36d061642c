"""What Spark's calls prove, in every order in which Spark makes them."""

import pytest

from spark_azqueue.errors import AzQueueError
from spark_azqueue.source.batches.commits import CommitTracker, Position, Proof


def offset(batch, name=""):
    return {"version": 1, "batch": batch, "account": "acc", "queues": {"q": name or f"r{batch}"}}


INITIAL = {"version": 1, "batch": 0, "account": "acc", "queues": {}}
N1, N2, N3 = (offset(n) for n in (8, 9, 10))


def tracked():
    position = Position(INITIAL)
    return CommitTracker(INITIAL, position), position


def test_rows_asked_for_after_the_commit_are_refused_rather_than_left_out():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)
    batches.plan(INITIAL, N1)
    batches.settled(N1)

    with pytest.raises(AzQueueError, match="batch 8 again after committing"):
        batches.plan(INITIAL, N1)


# ── asked twice from one start ────────────────────────────────────────────────────────────────────


def test_asked_twice_from_one_start_the_answer_is_the_same():
    batches = tracked()[0]
    assert batches.repeated(INITIAL) is None
    batches.handed_out(INITIAL, N1)

    assert batches.repeated(INITIAL) == N1
    assert batches.repeated(N1) is None


def test_an_older_settling_leaves_the_answer():
    batches = tracked()[0]
    batches.handed_out(N1, N2)
    batches.settled(N1)

    assert batches.repeated(N1) == N2


# ── 4.0 and 4.1: calls without a start ────────────────────────────────────────────────────────────


def test_a_long_run_forgets_only_the_oldest():
    batches = tracked()[0]
    start = INITIAL
    for number in range(1, 1_500):
        end = offset(number)
        batches.handed_out(start, end)
        batches.plan(start, end)
        batches.settled(end)
        start = end

    assert batches.proven(offset(1_499)) is Proof.NOTHING
    assert batches.proven(offset(1_000)) is Proof.NOTHING
    # Forgotten: settled again with the receipts in its text, which are all dead.
    assert batches.proven(offset(1)) is Proof.SETTLE_RESTORED
