"""Small decisions about the driver's log that larger tests do not notice."""

from __future__ import annotations

import pytest

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.options.choices import LogStart
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.log.state import LogOffset, LogState, first_segment

WHERE = "file:/logs/orders"


def first(
    start: int,
    progress: LogProgress,
    *,
    end: int | None = None,
    is_ours: bool = False,
    choice: LogStart | None = None,
) -> int:
    """Where a query goes on whose checkpoint is from before the log."""
    return first_segment(
        LogOffset("acc", start),
        LogState(0, 20, progress),
        WHERE,
        choice=choice,
        lose=False,
        end=None if end is None else LogOffset("acc", end, "0" * 32, "0" * 16, 1),
        is_ours=is_ours,
    )


@pytest.mark.parametrize("choice", LogStart)
def test_writeAheadLogStart_is_for_a_new_checkpoint_only(choice: LogStart) -> None:
    progress = LogProgress(committed=8, done=8)
    assert first(0, progress, choice=choice) in (0, 8)

    with pytest.raises(CheckpointMismatch):
        first(7, progress, choice=choice)


def test_the_first_batch_of_a_checkpoint_is_repeated_however_far_the_log_is() -> None:
    assert first(7, LogProgress(committed=20, done=20, named=20), end=8) == 7


def test_a_batch_that_is_not_the_first_one_does_not_begin_where_that_did() -> None:
    progress = LogProgress(committed=8, done=8, named=8, began=FirstBatch(3, 5))
    assert first(0, progress, end=5) == 3

    with pytest.raises(CheckpointMismatch):
        first(0, progress, end=6)


@pytest.mark.parametrize(
    ("end", "is_ours", "refused"), [(5, False, False), (1, True, False), (2, True, True)]
)
def test_only_a_run_that_returned_several_segments_must_know_what_a_checkpoint_named(
    end: int, is_ours: bool, refused: bool
) -> None:
    progress = LogProgress(named=5)
    if refused:
        with pytest.raises(CheckpointMismatch):
            first(0, progress, end=end, is_ours=is_ours)
    else:
        assert first(0, progress, end=end, is_ours=is_ours) == 0
