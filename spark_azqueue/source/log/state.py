"""Decisions about a log, made from the names in its folder and from the newest header. Pure
functions, except `ProgressKeeper`.

Segments up to `floor` may be removed. Segments from `floor` + 1 to `head` exist. A segment in this
range may be missing only if its rows are not needed any more, or with failOnDataLoss=false. The
offset at which a query starts and the progress of the log decide where the query resumes.
`ProgressKeeper` returns the progress for the next header or mark.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_azqueue.journal.numbers import KEPT_AT_MOST, first_missing, is_too_long
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.options.choices import LogStart

from ..offset_columns import DamagedOffset
from ..offsets import (
    ISOLATION,
    OFFSET_VERSION,
    OffsetJson,
    check_lease_on_driver,
    moment,
    refusing_damage,
    seconds,
    status_in,
    version_and_batch,
)
from ..refusals import behind, gap_in_segments, number_far_above, rolled_back_too_far, unknown
from .progress import FirstBatch, LogProgress

if TYPE_CHECKING:
    from ..leases.holder import LeaseHolder

LOG_OFFSET_VERSION = 2

_LOG = re.compile(r"[0-9a-f]{32}")
_SEGMENT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class LogOffset:
    """Position in a log: the query has read the batches up to segment `number`.

    log: id of the log. segment: first half of the segment's digest. Both are "" if the position was
    written before the query had a log (version 1). oldest: insertion time of the oldest message, in
    seconds since 1970; None if unknown. status: one line about the isolation of poison messages.
    """

    account: str
    number: int
    log: str = ""
    segment: str = ""
    messages: int = 0
    oldest: int | None = None
    status: str = ""

    def to_json(self) -> OffsetJson:
        """Return the offset for Spark: plain values, always in the same key order."""
        value: OffsetJson = {
            "version": LOG_OFFSET_VERSION,
            "batch": self.number,
            "account": self.account,
            "log": self.log,
            "segment": self.segment,
            "messages": self.messages,
        }
        if self.oldest is not None:
            value["oldest"] = moment(self.oldest)
        if self.status:
            value[ISOLATION] = self.status
        return value

    @property
    def is_of_log(self) -> bool:
        """False if the position was written before the query had a log."""
        return self.log != ""

    @classmethod
    def from_json(cls, offset: Mapping[str, Any], *, account: str) -> LogOffset:
        """Read an offset of either version. Raises CheckpointMismatch."""
        version, number = version_and_batch(offset, account=account)
        if version == OFFSET_VERSION:
            return cls(account, number)
        check_lease_on_driver(version)
        with refusing_damage():
            log, segment, messages = (offset.get(name) for name in ("log", "segment", "messages"))
            if not isinstance(log, str) or not _LOG.fullmatch(log):
                raise DamagedOffset("the name of its log is missing or not valid")
            if not isinstance(segment, str) or not _SEGMENT.fullmatch(segment):
                raise DamagedOffset("the digest of its segment is missing or not valid")
            if type(messages) is not int or messages < 1:
                raise DamagedOffset("its number of messages is missing or not valid")
            oldest = seconds(offset["oldest"]) if "oldest" in offset else None
            status = status_in(offset)
        return cls(account, number, log, segment, messages, oldest, status)


@dataclass(frozen=True, slots=True)
class LogState:
    """Range of the existing segments, and the progress of the log."""

    floor: int
    head: int
    progress: LogProgress = field(default_factory=LogProgress)

    @property
    def not_done(self) -> range:
        """Segments whose messages may not all be deleted yet."""
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
        known: int = 0,
    ) -> LogState:
        """Create the state from the numbers in the folder.

        Raises LostSegment if a needed segment is missing. Raises LogDamaged if more segments in a
        row are missing than a log can have. lose: failOnDataLoss is false. A missing segment is not
        needed if its batch is committed and its messages are deleted: its rows are lost only if the
        checkpoint is rolled back to before this segment. known: highest number of a segment with an
        outcome. If the newest segments were lost, their numbers are not used again, because the
        outcome of a lost segment would be applied to the new segment.
        """
        above = sorted(number for number in numbers if number > floor)
        newest = above[-1] if above else floor
        head = max(newest, progress.newest, known)
        over = max(floor, min(progress.committed, progress.done))
        missing = first_missing(range(over + 1, head + 1), above)
        if is_too_long(range(missing or newest + 1, head)):
            raise number_far_above(where, missing or newest + 1, head)
        if missing and not lose:
            raise gap_in_segments(where, missing, over + 1, head)
        return cls(floor, head, progress)


def first_segment(
    start: LogOffset,
    state: LogState,
    where: str,
    *,
    choice: LogStart | None,
    lose: bool,
    end: LogOffset | None = None,
) -> int:
    """Return the segment after which the query resumes. start: offset at which the query starts.

    choice: option that says where a new checkpoint starts in a used log. lose: failOnDataLoss is
    false. end: end of the batch that Spark asks for, or None. If the checkpoint already has a
    batch, the checkpoint is not new: it was rolled back, or its first batch did not finish. Raises
    CheckpointMismatch or LostSegment.
    """
    number = start.number
    if not start.is_of_log:
        began = None if end is None else _began(start, end, state.progress)
        first = state.progress.began
        is_last_before_log = number > 0 and first is not None and first.after == number
        if began is not None:
            number = began
        elif not is_last_before_log:  # if true, the checkpoint was rolled back
            given = _handed_out(state.progress, end)
            if given > number:
                return _as_chosen(choice, start, given, state, where)
    if number > state.head:
        if lose:
            return number
        raise behind(where, state.head, number)
    if number < state.floor:
        if not lose:
            raise rolled_back_too_far(where, number, state.floor)
        return state.floor
    return number


def _began(start: LogOffset, end: LogOffset, progress: LogProgress) -> int | None:
    """Return the segment after which the checkpoint's first batch begins. end: end of this batch.

    Returns None if unknown. On Spark 4.0 and 4.1, even a refused start leaves its offset in the
    checkpoint.
    """
    if end.number == start.number + 1:
        return start.number
    first = progress.began
    return first.after if first and start.number <= first.after < end.number == first.last else None


def _handed_out(progress: LogProgress, end: LogOffset | None) -> int:
    """Return the newest segment whose rows may be in an output.

    If this segment is after the query's start, a checkpoint was lost.

    end: end of the first batch, if known. If the first batch ends after the newest segment that a
        checkpoint has named, the batch would combine rows that an output may have with rows that no
        output has, and this output would skip both.
    """
    joins = end is not None and end.number > progress.named
    return max(progress.committed, progress.named) if joins else progress.committed


def _as_chosen(
    choice: LogStart | None, start: LogOffset, given: int, state: LogState, where: str
) -> int:
    if choice is None or start.number:  # the option is only for a new output
        raise unknown(where, given, start.number)
    if choice is LogStart.EARLIEST:
        return state.floor
    return max(state.progress.committed, state.floor)


def new_floor(state: LogState, retention: int, old: int | None = None) -> int:
    """Return the number up to which segments may be removed.

    These segments are committed, their deletes are done, and they are old enough.

    retention: number of segments that are kept before the newest committed segment. old: newest
        segment that is old enough; None if segments of any age may be removed. At most KEPT_AT_MOST
        segments are kept because of their age.
    """
    progress = state.progress
    floor = min(progress.committed - retention, progress.done)
    if old is not None:
        floor = min(floor, max(old, progress.committed - KEPT_AT_MOST))
    return max(state.floor, floor)


_MARK_EVERY_S = 60.0


class ProgressKeeper:
    """Records which segments are written, committed, and deleted. Used by one thread at a time."""

    def __init__(
        self,
        holder: LeaseHolder,
        clock: Callable[[], float],
        service_is_ahead: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """service_is_ahead: seconds by which the service's clock is ahead of this machine's
        clock."""
        self._holder = holder
        self._clock = clock
        self._service_is_ahead = service_is_ahead
        self._named = 0
        self.committed = 0
        """Number of the newest batch that is known to be committed."""
        self.began: FirstBatch | None = None
        """First batch of the checkpoint; None if Spark has not named this batch."""
        self._done = 0
        self._head = 0
        self._kept: list[int] = []  # segments whose messages are not being deleted yet; ascending
        self._hidden: list[
            tuple[float, int]
        ] = []  # of released messages: latest end of a lease, and number of messages
        self._noted_at = clock()

    def restored(self, progress: LogProgress, numbers: Iterable[int]) -> None:
        """Record that this process took over the log, and holds the messages of these segments."""
        self._named, self.committed = progress.named, progress.committed
        self.began = progress.began
        self._kept = list(numbers)
        self._done = self._kept[0] - 1 if self._kept else progress.done
        self._head = self._kept[-1] if self._kept else progress.done

    def written(self, number: int) -> None:
        """Record that this process wrote a segment, and holds its messages."""
        self._kept.append(number)
        self._head = number

    def named(self, number: int) -> None:
        """Record that Spark has named this segment, which proves that the checkpoint has it."""
        self._named = max(self._named, number)

    def proven(self, number: int) -> None:
        """Record that all segments up to this number are committed."""
        self.committed = max(self.committed, number)

    def released(self, messages: int, hidden_until: float) -> None:
        """Record that messages of an abandoned batch were released, and may stay invisible until
        `hidden_until`.

        messages: number of messages.

        The progress includes them, because the next process may also have to wait for them.
        """
        self._hidden.append((hidden_until, messages))

    def kept_up_to(self, number: int) -> list[int]:
        """Return the segments up to this number whose deletes have not begun."""
        return [each for each in self._kept if each <= number]

    def settled(self, number: int) -> None:
        """Record that deletes have begun for all segments up to this number."""
        self._kept = [each for each in self._kept if each > number]

    def now(self, *, has_ended: bool = False) -> LogProgress:
        """Return the progress of the log, for the next header or mark.

        has_ended: this process will lease no more messages. The value is stored only if a delete is
            pending.
        """
        most = self._kept[0] - 1 if self._kept else self._head
        with self._holder.locked_ledger as ledger:
            self._done = max(self._done, ledger.ended_up_to(self._done, most))
            pending = tuple(PendingDelete(*each) for each in ledger.pending())
            hidden_until = ledger.hidden_until + self._service_is_ahead()
        self._noted_at = now = self._clock()
        self._hidden = [each for each in self._hidden if each[0] > now]
        hidden = sum(messages for _, messages in self._hidden)
        return LogProgress(
            named=self._named,
            committed=self.committed,
            done=self._done,
            pending=pending,
            began=self.began,
            hidden=hidden,
            leased_s=self._holder.lengths.longest_s(),
            hidden_until=max(0, math.ceil(hidden_until)) if pending or hidden else 0,
            has_ended=has_ended and bool(pending),
        )

    def is_due(self) -> bool:
        """Return True if the last call of `now` was so long ago that a mark is due."""
        return self._clock() - self._noted_at >= _MARK_EVERY_S
