"""Small decisions about the driver's log that larger tests do not notice."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
from ledgers import lease

from spark_azqueue.errors import CheckpointMismatch, LogDamaged, LostSegment
from spark_azqueue.options.choices import LogStart
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.log.progress import FirstBatch, LogProgress
from spark_azqueue.source.log.state import LogOffset, LogState, ProgressKeeper, first_segment

WHERE = "file:/logs/orders"


def first(
    start: int,
    progress: LogProgress,
    *,
    end: int | None = None,
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
    )


@pytest.mark.parametrize("choice", LogStart)
def test_writeAheadLogStart_is_for_a_new_checkpoint_only(choice: LogStart) -> None:
    progress = LogProgress(committed=8, done=8)
    assert first(0, progress, choice=choice) in (0, 8)

    with pytest.raises(CheckpointMismatch):
        first(7, progress, choice=choice)


def test_the_first_batch_of_a_checkpoint_is_repeated_however_far_the_log_is() -> None:
    assert first(7, LogProgress(committed=20, done=20, named=20), end=8) == 7


def test_a_log_that_others_used_is_not_read_again_by_a_new_checkpoint() -> None:
    used = LogProgress(committed=12, done=12, named=12, began=FirstBatch(0, 1))
    with pytest.raises(CheckpointMismatch):
        first(0, used)

    assert first(0, used, end=1) == 0, "the checkpoint has that batch, which did not end"
    assert first(1, dataclasses.replace(used, began=FirstBatch(1, 2))) == 1


def test_with_failOnDataLoss_false_a_checkpoint_may_be_ahead_of_the_log() -> None:
    ahead = LogOffset("acc", 21, "0" * 32, "0" * 16, 1)
    state = LogState(0, 20, LogProgress())

    assert first_segment(ahead, state, WHERE, choice=None, lose=True) == 21


def test_what_is_below_the_floor_does_not_lower_the_head() -> None:
    assert LogState.of([9], 10, LogProgress(), WHERE).head == 10


def test_a_batch_that_is_not_the_first_one_does_not_begin_where_that_did() -> None:
    progress = LogProgress(committed=8, done=8, named=8, began=FirstBatch(3, 5))
    assert [first(start, progress, end=5) for start in (0, 3)] == [3, 3]
    assert first(0, dataclasses.replace(progress, began=FirstBatch(0, 3)), end=3) == 0

    with pytest.raises(CheckpointMismatch):
        first(0, progress, end=6)


def test_a_batch_beyond_all_that_was_named_must_be_known() -> None:
    progress = LogProgress(named=5)
    assert first(0, progress, end=5) == 0
    with pytest.raises(CheckpointMismatch):
        first(0, progress, end=6)


def test_a_query_may_be_rolled_back_to_the_last_batch_before_the_log() -> None:
    known = {"committed": 12, "done": 12}
    assert first(7, LogProgress(**known, began=FirstBatch(7, 9))) == 7  # type: ignore[arg-type]

    with pytest.raises(CheckpointMismatch):
        first(7, LogProgress(**known, began=FirstBatch(8, 9)))  # type: ignore[arg-type]


OFFSET = LogOffset("acc", 5, "0" * 32, "0" * 16, 3, 1_700_000_000)


@pytest.mark.parametrize("oldest", [None, 1_700_000_000])
def test_an_offset_comes_back_with_and_without_the_oldest_message(oldest: int | None) -> None:
    offset = dataclasses.replace(OFFSET, messages=1, oldest=oldest)

    assert LogOffset.from_json(offset.to_json(), account="acc") == offset
    assert ("oldest" in offset.to_json()) == (oldest is not None)


@pytest.mark.parametrize(
    "changed",
    [{"log": "x"}, {"log": 7}, {"segment": "x"}, {"segment": 7}]
    + [{"messages": each} for each in (0, True, "3")],
)
def test_an_offset_with_a_value_that_nobody_writes_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch, match="is missing or not valid"):
        LogOffset.from_json(OFFSET.to_json() | changed, account="acc")


def test_an_error_names_the_segments_that_are_missing() -> None:
    with pytest.raises(LostSegment, match=r"segment 13 is missing.* segments 12 to 14 should"):
        LogState.of([11, 12, 14], 10, LogProgress(committed=11, done=11), WHERE)
    with pytest.raises(LogDamaged, match=r"segment 12 is missing.* names number 9999999"):
        LogState.of([11, 9_999_999], 10, LogProgress(), WHERE)
    with pytest.raises(LogDamaged, match=r"segment 13 is missing.* names number 9999999"):
        LogState.of([11, 12], 10, LogProgress(), WHERE, known=9_999_999)


class Holder:
    """Of a ledger, whose leases may be so long."""

    def __init__(self) -> None:
        self.known = Ledger()

    @property
    def locked_ledger(self) -> contextlib.AbstractContextManager[Ledger]:
        return contextlib.nullcontext(self.known)

    @property
    def lengths(self) -> Holder:
        return self

    def longest_s(self) -> int:
        return 300


@pytest.fixture
def holder() -> Holder:
    return Holder()


def test_a_mark_says_until_when_released_messages_may_be_hidden(holder: Holder) -> None:
    now = [0.0]
    progress = ProgressKeeper(holder, lambda: now[0], lambda: 2.0)  # type: ignore[arg-type]
    holder.known.hide_until(97.5)
    assert (progress.now().hidden, progress.now().hidden_until) == (0, 0)

    progress.released(3, 90.0)
    progress.released(4, 97.5)
    assert (progress.now().hidden, progress.now().hidden_until) == (7, 100)
    now[0] = 90.0
    assert progress.now().hidden == 4


@pytest.mark.parametrize("is_pending", [False, True])
def test_a_mark_says_of_owed_deletes_until_when_they_may_be_hidden(
    holder: Holder, is_pending: bool
) -> None:
    progress = ProgressKeeper(holder, lambda: 0.0)  # type: ignore[arg-type]
    holder.known.hide_until(50.0)
    if is_pending:
        holder.known.restore_pending(lease("r1"), 7, 0)

    said = progress.now(has_ended=True)
    assert (len(said.pending), said.hidden_until, said.has_ended) == (
        (1, 50, True) if is_pending else (0, 0, False)
    )
    assert not progress.now().has_ended


def test_a_mark_keeps_where_the_first_batch_began_and_how_far_the_log_has_come(
    holder: Holder,
) -> None:
    before = LogProgress(named=9, committed=8, done=6, began=FirstBatch(3, 5), leased_s=300)
    progress = ProgressKeeper(holder, lambda: 0.0)  # type: ignore[arg-type]
    progress.restored(before, [7, 8, 9])

    assert progress.now() == before


def test_done_follows_the_segments_that_were_found_and_those_that_were_written(
    holder: Holder,
) -> None:
    progress = ProgressKeeper(holder, lambda: 0.0)  # type: ignore[arg-type]
    progress.restored(LogProgress(committed=9, done=6), [])
    assert progress.now().done == 6
    progress.written(7)
    assert progress.now().done == 6
    progress.settled(7)
    assert progress.now().done == 7

    progress.restored(LogProgress(committed=9, done=3), [7, 8, 9])
    assert progress.now().done == 6, "what is below the floor has ended"
    progress.settled(9)
    assert progress.now().done == 9


def test_an_idle_query_notes_its_progress_a_minute_after_the_last_time(holder: Holder) -> None:
    now = [0.0]
    progress = ProgressKeeper(holder, lambda: now[0])  # type: ignore[arg-type]
    due = []
    for now[0] in (59.9, 60.0):
        due.append(progress.is_due())
    progress.now()
    for now[0] in (119.9, 120.0):
        due.append(progress.is_due())

    assert due == [False, True, False, True]


def test_an_offset_from_before_the_log_is_a_position_without_a_segment() -> None:
    offset = {"version": 1, "batch": 4, "account": "acc", "queues": {}}

    assert LogOffset.from_json(offset, account="acc") == LogOffset("acc", 4)
    assert not LogOffset("acc", 4).is_of_log
