"""Decisions about a log, from the names in its folder and the newest header. Pure.

Segments up to `floor` may be deleted. Those from floor + 1 to head stand; one may be missing only
if nothing needs it any more, or with failOnDataLoss=false. Where a query goes on follows from its
start and from how far the log has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch, LogDamaged, LostSegment
from spark_azqueue.journal.numbers import first_missing, is_too_long
from spark_azqueue.options.choices import LogStart

from .offsets import LogOffset
from .progress import LogProgress

KEPT_AT_MOST = 100_000
"""Batches, or objects, of a log that are kept for their age: far fewer than a listing may have."""

AT_ONCE = 64
"""So many batches at most are removed at once for their age: a batch waits for that."""


@dataclass(frozen=True, slots=True)
class LogState:
    """Which segments stand, and how far the log has come."""

    floor: int
    head: int
    progress: LogProgress = field(default_factory=LogProgress)

    @property
    def not_done(self) -> range:
        """The segments whose deletes are not known to have ended."""
        return range(max(self.progress.done, self.floor) + 1, self.head + 1)

    @classmethod
    def of(
        cls,
        numbers: Iterable[int],
        floor: int,
        progress: LogProgress,
        where: str,
        *,
        lose: bool = False,
    ) -> LogState:
        """From the numbers in the folder. Raises LostSegment if one is missing that is needed.

        Raises LogDamaged if so many are missing that no log can have had them.
        lose: failOnDataLoss=false. A missing one whose batch is committed and whose deletes have
        ended is not needed: no rows of it are lost, unless the checkpoint is rolled back to it.
        """
        above = sorted(number for number in numbers if number > floor)
        head = above[-1] if above else floor
        over = max(floor, min(progress.committed, progress.done))
        missing = first_missing(range(over + 1, head + 1), above)
        if missing and is_too_long(range(missing, head)):
            raise LogDamaged(
                f"segment {missing} is missing in the write-ahead log {where}, and there is one"
                f" with the number {head}, which is far above all others: nobody numbered it so."
                " Remove it, if it is not one of a log that was restored in part"
            )
        if missing and not lose:
            raise LostSegment(
                f"segment {missing} is missing in the write-ahead log {where}, though segments"
                f" {over + 1} to {head} should stand there: restore it, or start with a new"
                " folder, a new checkpointLocation and a new output. failOnDataLoss=false goes on"
                " without its rows"
            )
        return cls(floor, head, progress)


def first_segment(
    start: LogOffset,
    state: LogState,
    where: str,
    *,
    choice: LogStart | None,
    lose: bool,
    end: LogOffset | None = None,
    is_ours: bool = False,
) -> int:
    """The segment behind which a query goes on that starts at this offset.

    choice: what a new checkpoint gets from a used log. lose: failOnDataLoss=false. end: of the
    batch that Spark asks for, if it does. is_ours: this run gave `end` to Spark before Spark said
    where it starts (4.0, 4.1). Otherwise the checkpoint has it, so it is no new checkpoint: it was
    rolled back, or its first batch did not end.
    Raises CheckpointMismatch or LostSegment.
    """
    number = start.number
    if not start.is_of_log:
        began = None if end is None or is_ours else _began(start, end, state.progress)
        first = state.progress.began
        is_last_before_log = number > 0 and first is not None and first.after == number
        if began is not None:
            number = began
        elif not is_last_before_log:  # else it was rolled back to there
            given = _handed_out(start, state.progress, end, is_ours=is_ours)
            if given > number:
                return _as_chosen(choice, start, given, state, where)
    if number > state.head:
        if lose:
            return number
        raise CheckpointMismatch(
            f"the write-ahead log {where} is behind the checkpoint: it ends with batch"
            f" {state.head}, and the checkpoint is at {number}. Restore the log, or start"
            " with a new folder, a new checkpointLocation and a new output",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )
    if number < state.floor:
        if not lose:
            raise LostSegment(
                f"the checkpoint is at batch {number}, but the write-ahead log {where} holds"
                f" batches from {state.floor + 1} on: batches {number + 1} to"
                f" {state.floor} were removed (see writeAheadLogRetention). Go back no further,"
                " or set failOnDataLoss=false to go on without them"
            )
        return state.floor
    return number


def _began(start: LogOffset, end: LogOffset, progress: LogProgress) -> int | None:
    """Behind which segment the first batch of a checkpoint begins that has `end`, if known.

    On 4.0 and 4.1 also a start that was refused leaves its offset in the checkpoint.
    """
    if end.number == start.number + 1:
        return start.number
    first = progress.began
    return first.after if first and start.number <= first.after < end.number == first.last else None


def _handed_out(
    start: LogOffset, progress: LogProgress, end: LogOffset | None, *, is_ours: bool
) -> int:
    """Up to which segment a checkpoint from before the log must have been lost to start here.

    end: of the first batch, if it is known. One that reaches behind the newest segment that a
    checkpoint has named would join old rows with new ones; an old output skips both. So would one
    of several segments that is none of the checkpoint's.
    """
    joins = end is not None and (
        end.number > progress.named or (is_ours and end.number > start.number + 1)
    )
    return max(progress.committed, progress.named) if joins else progress.committed


def _as_chosen(
    choice: LogStart | None, start: LogOffset, given: int, state: LogState, where: str
) -> int:
    if choice is None or start.number:  # the option is for a new checkpoint with a new output
        raise CheckpointMismatch(
            f"the write-ahead log {where} has given out batches up to {given}, but the"
            f" checkpoint does not know it (it is at {start.number}): it is the log of another"
            " query, or the checkpoint was lost. Name another folder, or restore the"
            " checkpoint; or take a new output, and set writeAheadLogStart=afterCommitted, or"
            " earliest to get all batches again that the log holds",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )
    if choice is LogStart.EARLIEST:
        return state.floor
    return max(state.progress.committed, state.floor)


def new_floor(state: LogState, retention: int, old: int | None = None) -> int:
    """Up to which segment the log may be removed now: committed, done, and old enough.

    retention: how many stay behind the committed ones. old: segments up to this one have been kept
    for as long as they are to be; None: that does not matter. Nor does it above KEPT_AT_MOST.
    """
    progress = state.progress
    floor = min(progress.committed - retention, progress.done)
    if old is not None:
        floor = min(floor, max(old, progress.committed - KEPT_AT_MOST))
    return max(state.floor, floor)


def old_enough(floor: int, times: Mapping[int, float], before: float) -> int:
    """Up to which batch all were stored before this time: `floor`, or at most AT_ONCE above it.

    times: when each batch was stored, seconds since 1970. One that is not there is old enough.
    """
    last = max(times, default=floor)
    number = floor
    while number < min(last, floor + AT_ONCE) and times.get(number + 1, before) <= before:
        number += 1
    return number
