"""What Spark's calls prove, in every order in which Spark makes them."""

import pytest

from spark_azqueue.errors import AzQueueError
from spark_azqueue.source.batches.commits import CommitTracker, PlanAction, Proof


def offset(batch, name=""):
    return {"version": 1, "batch": batch, "account": "acc", "queues": {"q": name or f"r{batch}"}}


INITIAL = {"version": 1, "batch": 0, "account": "acc", "queues": {}}
N0, N1, N2, N3 = (offset(n) for n in (7, 8, 9, 10))


def tracked():
    return CommitTracker(INITIAL)


def test_the_initial_offset_needs_no_settling():
    assert tracked().proven(dict(reversed(INITIAL.items()))) is Proof.NOTHING


def test_a_batch_of_this_run_is_settled_with_the_newest_receipts_and_once():
    batches = tracked()
    batches.handed_out(N1)

    assert batches.plan(INITIAL, N1) is PlanAction.HAND_OVER
    assert batches.proven(N1) is Proof.SETTLE_OWN
    batches.settled(N1)
    assert batches.proven(N1) is Proof.NOTHING


def test_a_proof_that_was_not_followed_up_is_asked_for_again():
    batches = tracked()
    batches.handed_out(N1)
    batches.proven(N1)  # and the settling failed

    assert batches.proven(N1) is Proof.SETTLE_OWN


def test_a_batch_of_an_earlier_run_is_settled_with_the_receipts_in_its_text_and_once():
    batches = tracked()

    assert batches.proven(N0) is Proof.SETTLE_RESTORED
    batches.settled(N0)
    assert batches.proven(N0) is Proof.NOTHING


def test_key_order_does_not_make_another_offset():
    batches = tracked()
    batches.handed_out(N1)
    shuffled = dict(reversed(N1.items()))

    assert batches.plan(INITIAL, shuffled) is PlanAction.HAND_OVER
    assert batches.proven(shuffled) is Proof.SETTLE_OWN


def test_the_same_number_with_other_leases_is_another_batch():
    batches = tracked()
    batches.handed_out(N1)

    assert batches.proven(offset(8, "others")) is Proof.SETTLE_RESTORED
    assert batches.plan(INITIAL, offset(8, "others")) is PlanAction.REPLAY


def test_planning_a_batch_again_hands_it_over_again():
    batches = tracked()
    batches.handed_out(N1)

    assert [batches.plan(INITIAL, N1) for _ in range(3)] == [PlanAction.HAND_OVER] * 3


def test_a_batch_of_an_earlier_run_is_replayed_and_then_never_settled():
    batches = tracked()

    assert batches.plan(N0, N1) is PlanAction.REPLAY
    batches.replayed(N1)

    assert batches.proven(N1) is Proof.NOTHING
    assert batches.plan(N0, N1) is PlanAction.NOTHING


def test_a_replay_that_failed_is_a_replay_again():
    batches = tracked()

    assert batches.plan(N0, N1) is PlanAction.REPLAY
    assert batches.plan(N0, N1) is PlanAction.REPLAY


def test_rows_asked_for_after_the_commit_are_refused_rather_than_left_out():
    batches = tracked()
    batches.handed_out(N1)
    batches.plan(INITIAL, N1)
    batches.settled(N1)

    with pytest.raises(AzQueueError, match="batch 8 again after committing"):
        batches.plan(INITIAL, N1)


def test_a_long_run_forgets_only_the_oldest():
    batches = tracked()
    start = INITIAL
    for number in range(1, 1_500):
        end = offset(number)
        batches.handed_out(end)
        batches.plan(start, end)
        batches.settled(end)
        start = end

    assert batches.proven(offset(1_499)) is Proof.NOTHING
    assert batches.proven(offset(1_000)) is Proof.NOTHING
    # Forgotten: settled again with the receipts in its text, which are all dead.
    assert batches.proven(offset(1)) is Proof.SETTLE_RESTORED
