"""Decisions about a log, from the names in its folder and the newest header. Pure.

Segments up to `floor` may be deleted. Those from floor + 1 to head exist; one may be missing only
if nothing needs it any more, or with failOnDataLoss=false. Where a query resumes follows from its
start and from how far the log has come. `ProgressKeeper` says what the next header or mark is to
say of that.
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
    """A position: batches up to segment `number` of this log.

    log, segment: "" for a position from before the log (version 1). digest: of a segment, whose
    first half is `segment`. oldest: seconds since 1970, None if unknown. status: what isolation
    does, in a line.
    """

    account: str
    number: int
    log: str = ""
    segment: str = ""
    messages: int = 0
    oldest: int | None = None
    status: str = ""

    def to_json(self) -> OffsetJson:
        """The value for Spark: plain values, always in the same key order."""
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
        """False for a position from before the log."""
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
    """Which segments exist, and how far the log has come."""

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
        known: int = 0,
    ) -> LogState:
        """From the numbers in the folder. Raises LostSegment if one is missing that is needed.

        Raises LogDamaged if more are missing than a log can have had.
        lose: failOnDataLoss=false. A missing one whose batch is committed and whose deletes have
        ended is not needed: no rows of it are lost, unless the checkpoint is rolled back to it.
        known: the highest number that outcomes name. No number comes a second time,
        also if the newest segments were lost: what is known of a number would be believed of
        another segment.
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
    """The segment behind which a query resumes that starts at this offset.

    choice: what a new checkpoint gets from a used log. lose: failOnDataLoss=false. end: of the
    batch that Spark asks for, if it does. The checkpoint has it, so it is no new checkpoint: it was
    rolled back, or its first batch did not end.
    Raises CheckpointMismatch or LostSegment.
    """
    number = start.number
    if not start.is_of_log:
        began = None if end is None else _began(start, end, state.progress)
        first = state.progress.began
        is_last_before_log = number > 0 and first is not None and first.after == number
        if began is not None:
            number = began
        elif not is_last_before_log:  # else it was rolled back to there
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
    """Behind which segment the first batch of a checkpoint begins that has `end`, if known.

    On 4.0 and 4.1 also a start that was refused leaves its offset in the checkpoint.
    """
    if end.number == start.number + 1:
        return start.number
    first = progress.began
    return first.after if first and start.number <= first.after < end.number == first.last else None


def _handed_out(progress: LogProgress, end: LogOffset | None) -> int:
    """Up to which segment a checkpoint from before the log must have been lost to start here.

    end: of the first batch, if it is known. One that reaches behind the newest segment that a
    checkpoint has named would join old rows with new ones; an old output skips both.
    """
    joins = end is not None and end.number > progress.named
    return max(progress.committed, progress.named) if joins else progress.committed


def _as_chosen(
    choice: LogStart | None, start: LogOffset, given: int, state: LogState, where: str
) -> int:
    if choice is None or start.number:  # the option is for a new checkpoint with a new output
        raise unknown(where, given, start.number)
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


_MARK_EVERY_S = 60.0


class ProgressKeeper:
    """Follows segments from written to committed and deleted. Used by one thread at a time."""

    def __init__(
        self,
        holder: LeaseHolder,
        clock: Callable[[], float],
        service_is_ahead: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """service_is_ahead: the service's clock, minus this one, in seconds."""
        self._holder = holder
        self._clock = clock
        self._service_is_ahead = service_is_ahead
        self._named = 0
        self.committed = 0
        """The newest batch that is known to be committed."""
        self.began: FirstBatch | None = None
        """The first batch of the checkpoint, if Spark has said so."""
        self._done = 0
        self._head = 0
        self._kept: list[int] = []  # segments whose deletes are not begun; ascending
        self._hidden: list[tuple[float, int]] = []  # released: until when, and how many messages
        self._noted_at = clock()

    def restored(self, progress: LogProgress, numbers: Iterable[int]) -> None:
        """A log was taken over; the messages of these segments are held."""
        self._named, self.committed = progress.named, progress.committed
        self.began = progress.began
        self._kept = list(numbers)
        self._done = self._kept[0] - 1 if self._kept else progress.done
        self._head = self._kept[-1] if self._kept else progress.done

    def written(self, number: int) -> None:
        """A new segment exists; its messages are held."""
        self._kept.append(number)
        self._head = number

    def named(self, number: int) -> None:
        """Spark has named this segment, so its checkpoint knows it."""
        self._named = max(self._named, number)

    def proven(self, number: int) -> None:
        """The segments up to this one are committed."""
        self.committed = max(self.committed, number)

    def released(self, messages: int, hidden_until: float) -> None:
        """This many messages of batches that were given up may be hidden until then.

        The next process may have to wait for them, too.
        """
        self._hidden.append((hidden_until, messages))

    def kept_up_to(self, number: int) -> list[int]:
        """Of the segments up to this one, those whose deletes are not begun."""
        return [each for each in self._kept if each <= number]

    def settled(self, number: int) -> None:
        """Deletes have begun for the segments up to this one."""
        self._kept = [each for each in self._kept if each > number]

    def now(self, *, has_ended: bool = False) -> LogProgress:
        """How far it has come. `done`: deletes have ended up to this segment.

        has_ended: this process leases nothing any more. That is said if something is pending.
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
        """True if nothing was noted for so long that an idle query should note it."""
        return self._clock() - self._noted_at >= _MARK_EVERY_S
