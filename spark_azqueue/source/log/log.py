"""Write-ahead log of one query: its identity, its claim, and its segments.

Each segment number is written once. The existing numbers are read from the folder once, after the
claim. After the claim, only this process adds numbers.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from spark_azqueue.errors import LogDamaged, LostSegment
from spark_azqueue.journal.claim import Claim
from spark_azqueue.journal.frame import digest_in
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import is_too_long, old_enough, standing, tagged_in
from spark_azqueue.journal.refusals import another_writer, tell_loss
from spark_azqueue.journal.store import LogStore
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import QueueRef, Received

from ..columns import Columns
from ..logged.undecodable import Reading
from ..offsets import STATUS_AT_MOST
from ..refusals import late_segment
from ..rows import Row, streams
from . import names
from .outcomes import BatchOutcomes
from .progress import MARK_AT_MOST, LogProgress, PendingList, PendingLists, SegmentHeader
from .segment import Segment, Segments, encode_segment, segment_rows
from .state import LogOffset, LogState, new_floor

log = logging.getLogger(__name__)

_TRIES = 5
"""Maximum number of times that a read is repeated because another process has replaced the mark, or
the list of pending deletes.
"""


@dataclass(frozen=True, slots=True)
class Contents:
    """Contents of a new segment. The fields are explained in `SegmentHeader`."""

    received: Sequence[Received]
    cut: tuple[int, ...]
    oldest: int | None
    queues: tuple[QueueRef, ...]
    reading: Mapping[str, str]
    suspect: bool = False
    status: str = ""


class WriteAheadLog(Journal):
    """Write-ahead log in one folder. Used by one thread. Only the folder survives a restart."""

    def __init__(
        self,
        store: LogStore,
        account: str,
        retention: int,
        *,
        keep_s: float | None = None,
        lose: bool = False,
        removes: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Keep the parameters; send nothing before `open`.

        retention: number of segments that are kept before the newest committed segment. keep_s: a
        segment is removed only if it is at least this many seconds old; None for no limit. now:
        seconds since 1970.
        lose: failOnDataLoss is false. removes: if true, segments are removed as soon as possible;
        if false, the caller removes the segments that `take_removable` yields.
        """
        super().__init__(store, account, names.SEGMENTS)
        self._retention = retention
        self._keep_s = keep_s
        self._now = now
        self._lose = lose
        self.writer = uuid.uuid4().hex
        self.segments = Segments(self)
        self.outcomes = BatchOutcomes(self, self.writer)
        self._pending = PendingLists(self, lose=lose)
        self._removable: deque[int] = deque()
        self._may_go = self.remove_segments if removes else self._removable.extend
        self._claim: Claim | None = None
        self._floor = 0  # floor at the time of the claim
        self._sequence = 0
        self.state = LogState(0, 0)
        self.newest: SegmentHeader | None = None
        """Header of the newest segment when the log was surveyed; None if there was no segment."""
        self._mark = LogProgress()  # the newest mark when the log was surveyed

    @property
    def is_claimed(self) -> bool:
        """True after `claim`."""
        return self._claim is not None

    @property
    def claim_number(self) -> int:
        """Number of this process's claim; 0 before `claim`.

        The number is one higher than the claim of the previous process.
        """
        return self._claim.number if self._claim else 0

    def claim(self, floor_if_empty: int) -> LogState:
        """Become the only writer of the log, then read which segments exist and which messages are
        deleted.

        Call `survey` first, because the new claim must have a higher number than every claim that
        the survey found. floor_if_empty: the batch after which a log without segments begins.
        Raises LogConflict, LogDamaged, LostSegment, ServiceError.
        """
        above = self._highest_claim()
        claim = Claim.take(self, self.writer, above=above)
        state = self.survey(floor_if_empty)
        if state.progress.claim >= claim.number:  # a newer claim was made, then removed
            raise another_writer(self.where)
        self.outcomes.find()
        if self.outcomes.highest > state.head:
            state = LogState.of(
                self.segments.sizes,
                state.floor,
                state.progress,
                self.where,
                lose=self._lose,
                known=self.outcomes.highest,
            )
        self._claim, self.state, self._floor = claim, state, state.floor
        self._pending.find(self.newest.progress if self.newest else None, self._mark)
        old = {number for number in self.segments.sizes if number <= state.floor}
        old |= self.outcomes.up_to(state.floor)
        self._may_go(sorted(old))
        return self.state

    def survey(self, floor_if_empty: int = 0) -> LogState:
        """Read the state of the log without a claim.

        Another process may change the log at the same time.

        Changes nothing. Raises LogDamaged, LostSegment, ServiceError.
        """
        lists: set[PendingList] = set()
        while True:
            progress, floor = self._newest_progress(floor_if_empty)
            # If a list is missing, its writer may have replaced it: a newer header or mark then
            # names another list. If the newest header or mark still names it, the list is lost.
            is_final = progress.pending_list in lists or len(lists) >= _TRIES
            whole = self._pending.whole(progress, is_final=is_final)
            if whole is not None:
                return LogState.of(self.segments.sizes, floor, whole, self.where, lose=self._lose)
            if progress.pending_list:
                lists.add(progress.pending_list)

    def _newest_progress(self, floor_if_empty: int) -> tuple[LogProgress, int]:
        """List the segments. Returns the progress from the newest mark or header, whichever is
        newer, and the floor.

        The mark is read before the segments are listed. So the listing contains the segments that
        the mark names, even if another process writes at the same time.
        """
        progress = self._mark = newest_mark(self)
        self.segments.list()
        newest, self.newest, floor = self.newest, None, floor_if_empty
        if self.segments.sizes:
            head = max(self.segments.sizes)
            is_known = newest is not None and newest.number == head  # a segment never changes
            self.newest = newest if is_known and newest else self.segments.header(head)
            floor = self.newest.floor
            progress = max(progress, self.newest.progress, key=lambda each: each.age)
        return progress, floor

    def _highest_claim(self) -> int:
        """Return the highest claim number in marks, in lists of pending deletes, and in the newest
        header.

        The claim objects are not read, because old claim objects are removed.
        """
        found = (*self.store.names(names.MARKS), *self.store.names(names.PENDING))
        tagged = (tagged_in(each) for each in found)
        newest = self.newest.progress.claim if self.newest else 0
        return max((newest, *(each.number for each in tagged if each)))

    def check_claim(self) -> None:
        """Raise LogConflict if another process has claimed the log since this process did."""
        assert self._claim
        self._claim.check()

    def skip_to(self, number: int) -> None:
        """Record that the segments up to this number are lost, so that their numbers are never used
        again.

        If too many segments are lost, the floor is raised to this number as well; see
        `LogState.of`.
        """
        is_far = is_too_long(range(self.state.head, number))
        floor = number if is_far else self.state.floor
        self.state = replace(self.state, floor=floor, head=max(self.state.head, number))

    def put(self, contents: Contents, progress: LogProgress) -> Segment:
        """Write the next segment, then check that the claim still holds.

        Raises LogConflict if another process writes this log. Raises ServiceError. If the error's
        `may_have_taken_effect` is true, the segment may exist or may appear later, and the messages
        belong to the segment.
        """
        assert self._claim
        number = self.state.head + 1
        state = replace(self.state, progress=self._next(progress))
        header = SegmentHeader(
            log=self.uuid,
            number=number,
            writer=self.writer,
            account=self.account,
            prev=self.segments.digest(number - 1),
            # A wrong mark must never cause the removal of this segment.
            floor=min(new_floor(state, self._retention, self._old()), state.head),
            progress=self._pending.shortened(state.progress),
            queues=contents.queues,
            reading=contents.reading,
            cut=contents.cut,
            oldest=contents.oldest,
            suspect=contents.suspect,
            status=contents.status,
        )
        data = encode_segment(header, contents.received)
        segment = Segment(header, tuple(contents.received), digest_in(data))
        if not self.store.put_new(names.segment(number), data) and not self._is_there(segment):
            self._claim.check()
            raise late_segment(self.where, number)
        removable = standing(range(self.state.floor + 1, header.floor + 1), self.segments.sizes)
        self.state = replace(state, head=number, floor=header.floor)
        self.segments.have(segment, len(data), self._now())
        self._claim.check()
        self._pending.in_header(header.progress)
        self._may_go(removable)
        return segment

    def mark(self, progress: LogProgress) -> None:
        """Write the progress as a mark, if it has changed. Raises ServiceError, LogConflict."""
        if self._claim is None or replace(progress, claim=0, sequence=0) == replace(
            self.state.progress, claim=0, sequence=0
        ):
            return
        self._claim.check()
        progress = self._next(progress)
        before = self.store.names(names.MARKS)
        written = self._pending.shortened(progress)
        name, data = names.mark(*progress.age), written.to_mark()
        if not self.is_ours(name, data):
            raise another_writer(self.where)
        self.state = replace(self.state, progress=progress)
        # a process with a newer claim may be reading the marks that are deleted below
        self._claim.check()
        for name in before:
            self.store.delete(name)
        self._pending.in_mark(written)

    def _old(self) -> int | None:
        """Return the newest segment that is old enough to be removed; None if segments of any age
        may be removed.
        """
        if self._keep_s is None:
            return None
        before = self._now() - self._keep_s
        return old_enough(self.state.floor, self.segments.times, before)

    def _next(self, progress: LogProgress) -> LogProgress:
        assert self._claim
        self._sequence += 1
        return replace(progress, claim=self._claim.number, sequence=self._sequence)

    def _is_there(self, segment: Segment) -> bool:
        """Return True if the segment exists because an earlier try of the same put created it."""
        try:
            return self.segments.read(segment.number).digest == segment.digest
        except LogDamaged:
            return False

    def removable(self, number: int) -> Segment | None:
        """Read a segment that `take_removable` yielded. Returns None if the segment may never have
        been a batch.

        After a segment is removed, a process that was paused during its put may still write a
        segment with the same number. So a segment that existed at the start is trusted only if the
        header of the next segment names its digest.
        """
        if number > self._floor:
            return self.segments.read(number)
        if number + 1 not in self.segments.sizes:
            return None
        before = self.segments.header(number + 1).prev
        return self.segments.read(number, before) if before else None

    def take_removable(self) -> Iterator[int]:
        """Yield the numbers of segments for `remove_segments`, each number once."""
        while self._removable:
            yield self._removable.popleft()

    def put_back(self, number: int) -> None:
        """Make this segment the next segment that `take_removable` yields.

        Segments must be removed in order, because the header of the next segment proves that this
        segment was a batch.
        """
        self._removable.appendleft(number)

    def remove_segments(self, numbers: Iterable[int]) -> None:
        """Delete these segments, which are not needed any more.

        If the delete of a segment fails, the segment is deleted after the next start.
        """
        for number in numbers:
            segment = names.segment(number)
            if segment not in self.remove([*self.outcomes.names_of(number), segment]):
                return
            for known in (self.outcomes, self.segments):
                known.forget(number)


def newest_mark(journal: Journal) -> LogProgress:
    """Return the newest mark of a log.

    A mark that cannot be read is ignored, because marks only save work.
    """
    parse = partial(LogProgress.from_mark, account=journal.account)
    for _ in range(_TRIES):
        marks = journal.store.names(names.MARKS)
        if not marks:
            break
        try:
            found = journal.read(marks[-1], MARK_AT_MOST, parse)
        except LogDamaged as error:
            log.warning("%s; the mark is ignored: readers of the log do not need it", error)
            break
        if found is not None:  # if None, the writer has replaced this mark by a newer mark
            return found
    return LogProgress()


class SegmentReader:
    """Reads the segments of one log, and keeps their offsets. Used by one thread.

    Raises LostSegment, LogDamaged and ServiceError.
    """

    def __init__(
        self, config: SourceConfig, columns: Columns, settings: LogConfig, wal: WriteAheadLog
    ) -> None:
        self._config = config
        self._today = Reading.of(config)
        self._columns = columns
        self._settings = settings
        self._log = wal
        self._offsets: dict[int, LogOffset] = {}
        self._kept: Segment | None = None

    def read(self, number: int, digest: str = "") -> Segment | None:
        """Read a segment. With failOnDataLoss=false, returns None if the segment is lost.

        digest: the first half of the segment's digest, if known.
        """
        try:
            segment = self._log.segments.read(number, digest)
        except LostSegment as error:
            is_deleted = self._settings.delete_after is DeleteAfter.LOG
            messages = "were deleted" if is_deleted else "come again"
            then = f"its batch is empty, and its messages {messages}"
            tell_loss(error, lose=not self._settings.fail_on_data_loss, then=then)
            return None
        self.known(segment)
        return segment

    def keep(self, segment: Segment) -> None:
        """Keep this segment in memory for the next `take`, because Spark requests this segment
        first.
        """
        self._kept = segment

    def take(self, number: int) -> Segment | None:
        """Return the kept segment if it has this number, else read the segment; see `read`."""
        kept, self._kept = self._kept, None
        return kept if kept and kept.number == number else self.read(number)

    def known(self, segment: Segment) -> LogOffset:
        """Remember and return the offset whose last batch is this segment.

        Called after the segment was read or written.
        """
        offset = self._offsets[segment.number] = LogOffset(
            self._config.account.name,
            segment.number,
            self._log.uuid,
            segment.digest[:16],
            len(segment.received),
            segment.header.oldest,
            segment.header.status[:STATUS_AT_MOST],
        )
        return offset

    def offset(self, number: int) -> LogOffset:
        """Return the offset whose last batch is this segment. The segment must exist."""
        return self._offsets.get(number) or self.known(self._log.segments.read(number))

    def forget_before(self, number: int) -> None:
        """Remove the offsets below this number from memory, because committed offsets are not
        requested again.
        """
        for each in [each for each in self._offsets if each < number]:
            del self._offsets[each]

    def partitions_of(self, segment: Segment) -> list[bytes]:
        """Return the segment's partitions, the same in every call.

        Raises UndecodableBody if the current options cannot decode a body of the segment.
        """
        rows = segment_rows(segment, self._today).rows()
        return streams(_parts(rows, segment.header.cut), self._columns)


def _parts(rows: Iterator[Row], cut: Sequence[int]) -> Iterator[list[Row]]:
    return (list(islice(rows, size)) for size in cut)
