"""Where a query with a log goes on, and what it refuses."""

from __future__ import annotations

import math

import pytest

from spark_azqueue.errors import CheckpointMismatch, LostSegment
from spark_azqueue.journal.numbers import AT_ONCE, KEPT_AT_MOST, old_enough
from spark_azqueue.options.choices import LogStart
from spark_azqueue.source.log.progress import FirstBatch, LogProgress
from spark_azqueue.source.log.state import LogOffset, LogState, first_segment, new_floor

WHERE = "file:/logs/orders"
LOG = "0123456789abcdef" * 2


def state(floor=0, head=20, committed=18, done=18):
    return LogState(floor, head, LogProgress(committed=committed, done=done))


def at(number):
    return LogOffset("acc", number, LOG, "0" * 16, 1)


def before(number):
    """A position from before the log, or the initial one."""
    return LogOffset("acc", number)


def first(start, stands, choice=None, *, lose=False):
    return first_segment(start, stands, WHERE, choice=choice, lose=lose)


@pytest.mark.parametrize("number", [10, 18, 19, 20])
def test_it_goes_on_behind_its_start(number):
    assert first(at(number), state(floor=10)) == number


def test_a_log_behind_the_checkpoint_is_refused():
    with pytest.raises(CheckpointMismatch, match=r"behind the checkpoint: it ends with batch 20"):
        first(at(21), state())


def test_what_was_removed_is_refused_or_left_out():
    with pytest.raises(LostSegment, match=r"batches 8 to 10 were removed.*failOnDataLoss=false"):
        first(at(7), state(floor=10))

    assert first(at(7), state(floor=10), lose=True) == 10


@pytest.mark.parametrize("number", [0, 7])
def test_a_start_that_does_not_know_of_committed_batches_is_refused(number):
    with pytest.raises(CheckpointMismatch, match=r"another query.*writeAheadLogStart=afterCom"):
        first(before(number), state(committed=number + 1))


@pytest.mark.parametrize(
    ("choice", "expected"), [(LogStart.EARLIEST, 5), (LogStart.AFTER_COMMITTED, 18)]
)
def test_or_it_goes_on_as_the_option_says(choice, expected):
    assert first(before(0), state(floor=5), choice) == expected


def test_after_a_crash_of_the_first_batch_nothing_is_refused():
    assert first(before(0), state(head=1, committed=0)) == 0
    assert first(before(7), state(floor=7, head=8, committed=7)) == 7


def test_the_option_changes_nothing_for_a_checkpoint_that_knows_the_log():
    assert first(at(12), state(), LogStart.EARLIEST) == 12


def test_segments_below_the_floor_are_nobodys():
    assert LogState.of([1, 2, 4, 11, 12], 10, LogProgress(), WHERE) == LogState(
        10, 12, LogProgress()
    )


def test_an_empty_log_stands_at_its_floor():
    assert LogState.of([], 7, LogProgress(), WHERE) == LogState(7, 7, LogProgress())


@pytest.mark.parametrize("numbers", [[12], [11, 13], [11, 12, 14, 15]])
def test_a_gap_is_refused(numbers):
    with pytest.raises(LostSegment, match=rf"is missing in the write-ahead log {WHERE}"):
        LogState.of(numbers, 10, LogProgress(), WHERE)


@pytest.mark.parametrize(
    ("progress", "known", "head"),
    [
        (LogProgress(committed=14, done=14), 0, 14),
        (LogProgress(committed=14, done=16), 0, None),
        (LogProgress(committed=16, done=14), 0, None),
        (LogProgress(committed=12, done=12, named=14), 0, None),
        (LogProgress(named=14, began=FirstBatch(10, 11)), 0, None),
        (LogProgress(named=7), 0, 12),  # of a checkpoint from before the log
        (LogProgress(committed=12, done=12), 14, None),
    ],
)
def test_no_number_comes_a_second_time(progress: LogProgress, known: int, head: int | None) -> None:
    """The newest segments were lost, and a mark, a verdict or a decision knows of them."""
    if head is None:
        with pytest.raises(LostSegment, match=rf"is missing in the write-ahead log {WHERE}"):
            LogState.of([11, 12], 10, progress, WHERE, known=known)
    found = LogState.of([11, 12], 10, progress, WHERE, known=known, lose=True)
    assert found.head == (head or max(14, progress.newest))


@pytest.mark.parametrize(
    ("committed", "done", "expected"),
    [(18, 18, 8), (18, 3, 3), (5, 5, 2), (0, 0, 2), (200, 150, 150)],
)
def test_the_floor_rises_behind_committed_and_done(committed, done, expected):
    assert new_floor(state(floor=2, committed=committed, done=done), 10) == expected


@pytest.mark.parametrize(("old", "expected"), [(None, 190), (0, 2), (50, 50), (195, 190)])
def test_the_floor_waits_for_what_is_not_old_enough(old, expected):
    at = state(floor=2, committed=200, done=199)
    assert new_floor(at, 10, old) == expected
    assert new_floor(state(floor=2, committed=200, done=3), 10, 50) == 3, "not what is needed"


def test_a_log_has_a_limit_however_young_its_batches_are():
    at = state(floor=2, committed=KEPT_AT_MOST + 7, done=KEPT_AT_MOST + 7)
    assert new_floor(at, 10, 2) == 7


def test_what_is_old_enough_goes_in_order_and_not_all_at_once():
    times = {number: 100.0 + number for number in range(5, 500)}
    assert old_enough(4, times, 90.0) == 4
    assert old_enough(4, times, 110.0) == 10
    assert old_enough(4, times, 1000.0) == 4 + AT_ONCE
    assert old_enough(490, times, 1000.0) == 499
    assert old_enough(4, {}, 1000.0) == 4
    assert old_enough(4, times | {7: math.inf}, 1000.0) == 6, "of unknown age"
    del times[7]
    assert old_enough(4, times, 110.0) == 10, "it is gone"
