"""The committed batches of a log that a driver writes (`log/`), as who only reads sees them.

The order of the steps matters, since the writer goes on meanwhile. First the newest header and mark
say what is committed. A batch that was given up has its verdict before it is committed, and one
with messages that did not decode its decisions, so a listing after that has them. The writer
removes these, then the segment, only after a newer header raised the floor. So the floor is read
last: above it none was removed.
"""

from __future__ import annotations

import logging

from spark_azqueue.errors import LogDamaged, LostSegment
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import number_in, standing, tagged_in

from ..log import names
from ..log.log import MARK_AT_MOST
from ..log.progress import LogProgress, SegmentHeader
from ..log.segment import Segments
from .batches import UNKNOWN, Logged, LogSurvey, Piece

log = logging.getLogger(__name__)

_TRIES = 5


class SegmentHistory:
    """Used by one thread. Writes nothing. Raises ServiceError, LogDamaged, LostSegment."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._store = journal.store
        self._segments = Segments(journal)

    def has_news(self, found: LogSurvey) -> bool:
        """False if nothing was committed since. For a few small requests."""
        head = max((each.number for each in found.batches), default=found.committed)
        newest = self._header(head + 1)
        while newest is not None:
            if newest.progress.committed > found.committed:
                return True
            newest = self._header(newest.number + 1)
        return self._marked().committed > found.committed

    def survey(self) -> LogSurvey:
        """What the log holds now."""
        for _ in range(_TRIES):
            entries = self._store.entries(names.SEGMENTS)
            stored = {number: each for each in entries if (number := number_in(each.name))}
            head = max(stored, default=0)
            newest, progress = self._header(head) if head else None, self._marked()
            if newest is not None:
                progress = max(progress, newest.progress, key=lambda each: each.age)
            if progress.committed <= head:  # else there are newer segments than were listed
                break
        verdicts = set(map(number_in, self._store.names(names.VERDICTS)))
        listed = map(tagged_in, self._store.names(names.DECISIONS))
        decided = {each.number for each in listed if each}
        floor = newest.floor if newest else 0
        while newest is not None:
            floor, newest = newest.floor, self._header(newest.number + 1)
        batches = []
        for number in standing(range(floor + 1, progress.committed + 1), stored):
            each = stored[number]
            at = int(each.written * 1_000_000) if each.written else UNKNOWN
            piece = Piece(number, at, each.size, number in verdicts, number in decided)
            batches.append(Logged(number, at, (piece,)))
        return LogSurvey(self._store.where, floor, progress.committed, tuple(batches))

    def _header(self, number: int) -> SegmentHeader | None:
        try:
            return self._segments.header(number)
        except LostSegment:
            return None

    def _marked(self) -> LogProgress:
        """The newest mark. One that cannot be read is left out, as its writer does."""
        for _ in range(_TRIES):
            listed = self._store.names(names.MARKS)
            if not listed:
                break
            try:
                found = self._journal.read(listed[-1], MARK_AT_MOST, self._progress_in)
            except LogDamaged as error:
                log.warning("%s; it is left out", error)
                break
            if found is not None:  # else the writer has replaced it
                return found
        return LogProgress()

    def _progress_in(self, mark: bytes) -> LogProgress:
        return LogProgress.from_mark(mark, account=self._journal.account)
