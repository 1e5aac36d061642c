"""Where Spark 4.0 and 4.1 are, and what their calls prove, in every order in which they come."""

from __future__ import annotations

import pytest

from spark_azqueue.errors import InvalidOption
from spark_azqueue.source.calls import BareCalls
from spark_azqueue.source.offsets import OffsetJson


def offset(batch: int) -> OffsetJson:
    return {"version": 1, "batch": batch, "account": "acc", "queues": {"q": f"r{batch}"}}


INITIAL, N1, N2 = (offset(number) for number in range(3))


@pytest.fixture
def bare() -> BareCalls:
    return BareCalls(INITIAL)


def test_a_first_call_starts_a_new_checkpoint_and_needs_no_proof(bare: BareCalls) -> None:
    assert bare.asked() is None
    assert (bare.start, bare.is_new, bare.is_proven) == (INITIAL, True, True)


def test_a_probe_tells_the_start_and_the_call_after_it_proves_that(bare: BareCalls) -> None:
    """An uncommitted N1 would be replayed, by partitions(INITIAL, N1), before Spark asks."""
    bare.planned(N1, N1)
    assert bare.asked() is None
    assert (bare.start, bare.is_new, bare.is_proven) == (N1, False, True)

    bare.planned(N2, N2)
    assert bare.asked() is None
    assert bare.start == N1, "a later probe says nothing"


def test_an_answer_that_is_not_planned_is_repeated_once_and_proves_nothing(
    bare: BareCalls,
) -> None:
    """The second call is the one that Spark's wrapper makes for the progress."""
    for _ in range(3):  # the query may have been idle
        assert bare.asked() is None
    bare.answered(N1)
    assert bare.asked() == N1
    assert bare.asked() is None
    assert (bare.start, bare.is_proven) == (N1, False)


def test_a_plan_proves_its_batch_at_the_next_call(bare: BareCalls) -> None:
    bare.answered(N1)
    bare.planned(INITIAL, N1)
    assert bare.asked() is None
    assert (bare.start, bare.is_proven) == (N1, True)

    bare.answered(N2)
    assert not bare.is_proven
    bare.planned(N1, N2)
    assert (bare.start, bare.is_proven) == (N2, True)


def test_a_replay_after_a_probe_is_where_the_query_goes_on(bare: BareCalls) -> None:
    bare.planned(N2, N2)
    bare.planned(N1, N2)
    assert bare.asked() is None
    assert (bare.start, bare.is_proven) == (N2, True)


def test_a_batch_of_another_source_moves_nothing(bare: BareCalls) -> None:
    bare.answered(N1)
    bare.planned(INITIAL, INITIAL)
    assert bare.asked() == N1
    bare.planned(INITIAL, N1)
    bare.planned(N1, N1)
    assert (bare.start, bare.is_proven) == (N1, True)


@pytest.mark.parametrize("answered", [False, True])
def test_a_call_before_the_probe_is_the_wrappers_and_is_refused(
    bare: BareCalls, *, answered: bool
) -> None:
    bare.asked()
    if answered:
        bare.answered(N1)
    with pytest.raises(InvalidOption, match=r"triggerAvailableNowWrapper.* at batch 2\. Set it"):
        bare.planned(N2, N2)


def test_a_new_query_without_data_is_no_wrapper(bare: BareCalls) -> None:
    bare.asked()
    bare.planned(INITIAL, INITIAL)
    bare.asked()
    bare.answered(N1)
    bare.planned(INITIAL, N1)
    bare.planned(N1, N1)
    assert bare.start == N1
