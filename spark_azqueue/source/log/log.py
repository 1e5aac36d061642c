"""The write-ahead log of one query: its identity, its claim, and its segments.

Each number is written once. The set of numbers is read from the folder once, after the claim; from
then on it grows by this process's own puts only.
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
"""How often a mark, or a list of pending deletes, may be replaced while a log is surveyed."""


@dataclass(frozen=True, slots=True)
class Contents:
    """What a new segment is to hold, see `SegmentHeader`."""

    received: Sequence[Received]
    cut: tuple[int, ...]
    oldest: int | None
    queues: tuple[QueueRef, ...]
    reading: Mapping[str, str]
    suspect: bool = False
    status: str = ""


class WriteAheadLog(Journal):
    """One folder. Used by one thread. What survives a restart is in the folder alone."""

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
        """Store; nothing is sent before `open`.

        retention: segments kept behind the committed. keep_s: for how long each is kept as well;
        None: its age does not matter. now: seconds since 1970. lose: failOnDataLoss=false.
        removes: segments are deleted as soon as they may be; else they wait in `take_removable`.
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
        self._floor = 0  # when it was claimed
        self._sequence = 0
        self.state = LogState(0, 0)
        self.newest: SegmentHeader | None = None
        """Of the newest segment when the log was surveyed, None if it had none."""
        self._mark = LogProgress()  # the newest one when the log was surveyed

    @property
    def is_claimed(self) -> bool:
        """True after `claim`."""
        return self._claim is not None

    @property
    def claim_number(self) -> int:
        """Of this process's claim, which is one above that of the process before; 0 before it."""
        return self._claim.number if self._claim else 0

    def claim(self, floor_if_empty: int) -> LogState:
        """Become the only writer, and find out which segments exist and how far deleting came.

        Call `survey` before it: the claim is above all that it has found.
        floor_if_empty: the batch after which a log begins that has no segment yet.
        Raises LogConflict, LogDamaged, LostSegment, ServiceError.
        """
        above = self._highest_claim()
        claim = Claim.take(self, self.writer, above=above)
        state = self.survey(floor_if_empty)
        if state.progress.claim >= claim.number:  # and its claim was removed
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
        """Find out the same without a claim: another process may change it meanwhile.

        Changes nothing. Raises LogDamaged, LostSegment, ServiceError.
        """
        lists: set[PendingList] = set()
        while True:
            progress, floor = self._newest_progress(floor_if_empty)
            # A list that is gone is lost only if no newer header or mark names another one.
            is_final = progress.pending_list in lists or len(lists) >= _TRIES
            whole = self._pending.whole(progress, is_final=is_final)
            if whole is not None:
                return LogState.of(self.segments.sizes, floor, whole, self.where, lose=self._lose)
            if progress.pending_list:
                lists.add(progress.pending_list)

    def _newest_progress(self, floor_if_empty: int) -> tuple[LogProgress, int]:
        """List the segments; the newer of mark and header, and the floor.

        The mark is read first, so the segments that it knows of existed, even if others write now.
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
        """The highest number of a claim that the log knows, but for claims: they may be removed."""
        found = (*self.store.names(names.MARKS), *self.store.names(names.PENDING))
        tagged = (tagged_in(each) for each in found)
        newest = self.newest.progress.claim if self.newest else 0
        return max((newest, *(each.number for each in tagged if each)))

    def check_claim(self) -> None:
        """Raise LogConflict if another process has claimed the log since."""
        assert self._claim
        self._claim.check()

    def skip_to(self, number: int) -> None:
        """Segments up to this one are lost: their numbers are not written again.

        A log that is so far behind is not read again, see `LogState.of`.
        """
        is_far = is_too_long(range(self.state.head, number))
        floor = number if is_far else self.state.floor
        self.state = replace(self.state, floor=floor, head=max(self.state.head, number))

    def put(self, contents: Contents, progress: LogProgress) -> Segment:
        """Write the next segment, and check that the claim still holds.

        Raises LogConflict if another process writes this log. Raises ServiceError: if it may have
        taken effect, the segment may be there, or appear later, and its messages belong to it.
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
            # A mark may say what it likes: what is in this segment is not removed by it.
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
        """Write down how far the log has come, if it has. Raises ServiceError, LogConflict."""
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
        self._claim.check()  # else the next process may be about to read what is deleted here
        for name in before:
            self.store.delete(name)
        self._pending.in_mark(written)

    def _old(self) -> int | None:
        """Up to which segment all were kept for long enough; None if that does not matter."""
        if self._keep_s is None:
            return None
        before = self._now() - self._keep_s
        return old_enough(self.state.floor, self.segments.times, before)

    def _next(self, progress: LogProgress) -> LogProgress:
        assert self._claim
        self._sequence += 1
        return replace(progress, claim=self._claim.number, sequence=self._sequence)

    def _is_there(self, segment: Segment) -> bool:
        """True if an earlier attempt of our own put has made it."""
        try:
            return self.segments.read(segment.number).digest == segment.digest
        except LogDamaged:
            return False

    def removable(self, number: int) -> Segment | None:
        """One of `take_removable`; None if nothing says that a query had the messages.

        The number of a segment that is removed is free for a process that was stopped in its put.
        So of those found at the start it has to be the one that the next segment follows.
        """
        if number > self._floor:
            return self.segments.read(number)
        if number + 1 not in self.segments.sizes:
            return None
        before = self.segments.header(number + 1).prev
        return self.segments.read(number, before) if before else None

    def take_removable(self) -> Iterator[int]:
        """The numbers of segments for `remove_segments`. Each is returned once."""
        while self._removable:
            yield self._removable.popleft()

    def put_back(self, number: int) -> None:
        """This one is the next of `take_removable`: those behind it tell that it was a batch."""
        self._removable.appendleft(number)

    def remove_segments(self, numbers: Iterable[int]) -> None:
        """Delete segments that are not needed. What fails is deleted after the next start."""
        for number in numbers:
            segment = names.segment(number)
            if segment not in self.remove([*self.outcomes.names_of(number), segment]):
                return
            for known in (self.outcomes, self.segments):
                known.forget(number)


def newest_mark(journal: Journal) -> LogProgress:
    """The newest mark of a log. One that cannot be read is left out: marks only save work."""
    parse = partial(LogProgress.from_mark, account=journal.account)
    for _ in range(_TRIES):
        marks = journal.store.names(names.MARKS)
        if not marks:
            break
        try:
            found = journal.read(marks[-1], MARK_AT_MOST, parse)
        except LogDamaged as error:
            log.warning("%s; it is left out: what reads the log does without it", error)
            break
        if found is not None:  # else the writer has replaced it
            return found
    return LogProgress()


class SegmentReader:
    """Reads the segments of one log, and keeps the offsets behind them. Used by one thread.

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
        """Read a segment; None if it is lost, with failOnDataLoss=false.

        digest: the first half of its digest, if known.
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
        """Keep this one until the next `take`: it is the first to be delivered."""
        self._kept = segment

    def take(self, number: int) -> Segment | None:
        """Read a segment, or return the one that was kept. See `read`."""
        kept, self._kept = self._kept, None
        return kept if kept and kept.number == number else self.read(number)

    def known(self, segment: Segment) -> LogOffset:
        """The offset behind this segment, which was read or written."""
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
        """The offset behind a segment that exists."""
        return self._offsets.get(number) or self.known(self._log.segments.read(number))

    def forget_before(self, number: int) -> None:
        """Offsets below this one are committed, and not asked for again."""
        for each in [each for each in self._offsets if each < number]:
            del self._offsets[each]

    def partitions_of(self, segment: Segment) -> list[bytes]:
        """The segment's partitions: the same as ever.

        Raises UndecodableBody if the options of today cannot show a body of it.
        """
        rows = segment_rows(segment, self._today).rows()
        return streams(_parts(rows, segment.header.cut), self._columns)


def _parts(rows: Iterator[Row], cut: Sequence[int]) -> Iterator[list[Row]]:
    return (list(islice(rows, size)) for size in cut)
