"""Decisions about a log, from the names in its folder and the newest header. Pure.

Segments up to `floor` are nobody's and may be gone. Those from floor + 1 to head stand, without a
gap. Where a query goes on follows from its start and from how far the log has come.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from spark_azqueue.errors import CheckpointMismatch, LostSegment
from spark_azqueue.options.choices import LogStart

from .header import Progress
from .offsets import LogOffset


@dataclass(frozen=True, slots=True)
class Standing:
    """Which segments stand, and how far the log has come."""

    floor: int
    head: int
    progress: Progress = field(default_factory=Progress)

    @classmethod
    def of(
        cls,
        numbers: Iterable[int],
        floor: int,
        progress: Progress,
        where: str,
        *,
        lose: bool = False,
    ) -> Standing:
        """From the numbers in the folder. Raises LostSegment if one is missing between others.

        lose: failOnDataLoss=false.
        """
        above = sorted(number for number in numbers if number > floor)
        head = above[-1] if above else floor
        missing = sorted(set(range(floor + 1, head + 1)) - set(above))
        if missing and not lose:
            raise LostSegment(
                f"segment {missing[0]} is missing in the write-ahead log {where}, though segments"
                f" {floor + 1} to {head} should stand there: restore it, or start with a new"
                " folder, a new checkpointLocation and a new output"
            )
        return cls(floor, head, progress)


def first_segment(
    start: LogOffset,
    standing: Standing,
    where: str,
    *,
    choice: LogStart | None,
    lose: bool,
    is_replay: bool = False,
) -> int:
    """The segment behind which a query goes on that starts at this offset.

    choice: what a new checkpoint gets from a used log. lose: failOnDataLoss=false. is_replay: the
    checkpoint names the next segment, so it is no new one: it was rolled back.
    Raises CheckpointMismatch or LostSegment.
    """
    committed = standing.progress.committed
    is_new = not start.is_of_log and not (is_replay and choice is None)
    if is_new and committed > start.number:
        if choice is None:
            raise CheckpointMismatch(
                f"the write-ahead log {where} has committed batches up to {committed}, but the"
                f" checkpoint does not know it (it is at {start.number}): it is the log of another"
                " query, or the checkpoint was lost. Name another folder, or restore the"
                " checkpoint; or take a new output, and set writeAheadLogStart=afterCommitted, or"
                " earliest to get all batches again that the log holds"
            )
        return standing.floor if choice is LogStart.EARLIEST else max(committed, standing.floor)
    if start.number > standing.head:
        if lose:
            return start.number
        raise CheckpointMismatch(
            f"the write-ahead log {where} is behind the checkpoint: it ends with batch"
            f" {standing.head}, and the checkpoint is at {start.number}. Restore the log, or start"
            " with a new folder, a new checkpointLocation and a new output"
        )
    if start.number < standing.floor:
        if not lose:
            raise LostSegment(
                f"the checkpoint is at batch {start.number}, but the write-ahead log {where} holds"
                f" batches from {standing.floor + 1} on: batches {start.number + 1} to"
                f" {standing.floor} were removed (see writeAheadLogRetention). Go back no further,"
                " or set failOnDataLoss=false to go on without them"
            )
        return standing.floor
    return start.number


def new_floor(standing: Standing, retention: int) -> int:
    """Up to which segment the log may be removed now: committed, done, and old enough."""
    progress = standing.progress
    return max(standing.floor, min(progress.committed - retention, progress.done))
