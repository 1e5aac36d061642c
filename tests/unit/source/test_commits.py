"""What Spark's calls prove, in every order in which Spark makes them."""

import pytest

from spark_azqueue.errors import AzQueueError
from spark_azqueue.source.batches.commits import CommitTracker, PlanAction, Position, Proof


def offset(batch, name=""):
    return {"version": 1, "batch": batch, "account": "acc", "queues": {"q": name or f"r{batch}"}}


INITIAL = {"version": 1, "batch": 0, "account": "acc", "queues": {}}
N0, N1, N2, N3 = (offset(n) for n in (7, 8, 9, 10))


def tracked():
    position = Position(INITIAL)
    return CommitTracker(INITIAL, position), position


def test_the_initial_offset_needs_no_settling():
    assert tracked()[0].proven(dict(reversed(INITIAL.items()))) is Proof.NOTHING


def test_a_batch_of_this_run_is_settled_with_the_newest_receipts_and_once():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)

    assert batches.plan(INITIAL, N1) is PlanAction.HAND_OVER
    assert batches.proven(N1) is Proof.SETTLE_OWN
    batches.settled(N1)
    assert batches.proven(N1) is Proof.NOTHING


def test_a_proof_that_was_not_followed_up_is_asked_for_again():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)
    batches.proven(N1)  # and the settling failed

    assert batches.proven(N1) is Proof.SETTLE_OWN


def test_a_batch_of_an_earlier_run_is_settled_with_the_receipts_in_its_text_and_once():
    batches = tracked()[0]

    assert batches.proven(N0) is Proof.SETTLE_RESTORED
    batches.settled(N0)
    assert batches.proven(N0) is Proof.NOTHING


def test_key_order_does_not_make_another_offset():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)
    shuffled = dict(reversed(N1.items()))

    assert batches.plan(INITIAL, shuffled) is PlanAction.HAND_OVER
    assert batches.proven(shuffled) is Proof.SETTLE_OWN


def test_the_same_number_with_other_leases_is_another_batch():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)

    assert batches.proven(offset(8, "others")) is Proof.SETTLE_RESTORED
    assert batches.plan(INITIAL, offset(8, "others")) is PlanAction.REPLAY


def test_planning_a_batch_again_hands_it_over_again():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)

    assert [batches.plan(INITIAL, N1) for _ in range(3)] == [PlanAction.HAND_OVER] * 3


def test_a_batch_of_an_earlier_run_is_replayed_and_then_never_settled():
    batches = tracked()[0]

    assert batches.plan(N0, N1) is PlanAction.REPLAY
    batches.replayed(N1)

    assert batches.proven(N1) is Proof.NOTHING
    assert batches.plan(N0, N1) is PlanAction.NOTHING


def test_a_replay_that_failed_is_a_replay_again():
    batches = tracked()[0]

    assert batches.plan(N0, N1) is PlanAction.REPLAY
    assert batches.plan(N0, N1) is PlanAction.REPLAY


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


def test_the_answer_is_not_repeated_once_the_batch_is_settled():
    batches = tracked()[0]
    batches.handed_out(INITIAL, N1)
    batches.settled(N1)

    assert batches.repeated(INITIAL) is None


def test_an_older_settling_leaves_the_answer():
    batches = tracked()[0]
    batches.handed_out(N1, N2)
    batches.settled(N1)

    assert batches.repeated(N1) == N2


# ── 4.0 and 4.1: calls without a start ────────────────────────────────────────────────────────────


def test_a_bare_call_starts_from_the_initial_offset_and_proves_nothing():
    assert Position(INITIAL).asked() == (INITIAL, False)


def test_a_bare_call_before_planning_repeats_and_after_planning_proves():
    batches, position = tracked()
    batches.handed_out(INITIAL, N1)
    assert batches.bare_repeat() == N1

    batches.plan(INITIAL, N1)

    assert batches.bare_repeat() is None
    assert position.asked() == (N1, True)


def test_a_probe_tells_what_the_start_is_and_a_bare_call_right_after_it_proves_it():
    # An uncommitted N1 would be replayed, by plan(N0, N1), before Spark asks for more.
    batches, position = tracked()

    assert batches.plan(N1, N1) is PlanAction.NOTHING

    assert position.asked() == (N1, True)
    assert position.asked() == (N1, True)
    assert batches.proven(N1) is Proof.SETTLE_RESTORED


def test_what_a_probe_proved_stays_proven_when_spark_probes_again():
    batches, position = tracked()
    batches.plan(N1, N1)
    position.asked()

    batches.plan(N1, N1)

    assert position.asked() == (N1, True)


def test_a_probe_after_a_bare_call_proves_nothing():
    # Spark's wrapper for availableNow asks before it has read any log, and probes then.
    batches, position = tracked()
    assert position.asked() == (INITIAL, False)

    batches.plan(N1, N1)

    assert position.asked() == (N1, False)


def test_a_probe_proves_nothing_about_the_batch_after_it():
    batches, position = tracked()
    batches.plan(N1, N1)
    position.asked()
    batches.handed_out(N1, N2)

    assert position.asked() == (N2, False)


def test_a_replay_after_a_probe_is_what_a_bare_call_goes_on_from():
    batches, position = tracked()
    batches.plan(N1, N1)
    batches.plan(N0, N1)
    batches.replayed(N1)

    assert position.asked() == (N1, True)
    assert batches.proven(N1) is Proof.NOTHING


def test_a_batch_without_data_moves_nothing():
    # A probe-like call can come between, when another source has data.
    batches, position = tracked()
    batches.handed_out(INITIAL, N1)

    assert batches.plan(INITIAL, INITIAL) is PlanAction.NOTHING

    assert batches.bare_repeat() == N1
    assert batches.plan(INITIAL, N1) is PlanAction.HAND_OVER
    assert batches.plan(N1, N1) is PlanAction.NOTHING
    assert position.asked() == (N1, True)


def test_each_new_batch_has_to_be_planned_before_a_bare_call_proves_it():
    batches, position = tracked()
    batches.handed_out(INITIAL, N1)
    batches.plan(INITIAL, N1)
    batches.settled(N1)
    batches.handed_out(N1, N2)

    assert position.asked() == (N2, False)
    assert batches.bare_repeat() == N2


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
