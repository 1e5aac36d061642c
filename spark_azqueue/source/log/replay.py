"""Reads segments back: the same messages in the same partitions, whatever the options are today."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import islice

from spark_azqueue.errors import LostSegment
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig

from ..columns import Columns
from ..rows import Row, streams
from .decisions import Copy
from .log import WriteAheadLog
from .offsets import LogOffset
from .reading import Reading
from .segment import Segment

log = logging.getLogger(__name__)


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
            if self._settings.fail_on_data_loss:
                raise
            is_deleted = self._settings.delete_after is DeleteAfter.LOG
            then = "were deleted" if is_deleted else "come again"
            log.warning("%s: its batch is empty, and its messages %s", error, then)
            return None
        self.known(segment)
        return segment

    def keep(self, segment: Segment) -> None:
        """Keep this one until the next `take`: it is the first to be handed out."""
        self._kept = segment

    def take(self, number: int) -> Segment | None:
        """The same as `read`, or the segment that was kept."""
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
        )
        return offset

    def offset(self, number: int) -> LogOffset:
        """The offset behind a segment that stands."""
        return self._offsets.get(number) or self.known(self._log.segments.read(number))

    def forget_before(self, number: int) -> None:
        """Offsets below this one are committed, and not asked for again."""
        for each in [each for each in self._offsets if each < number]:
            del self._offsets[each]

    def partitions_of(self, segment: Segment, copy: Copy) -> list[bytes]:
        """The segment's partitions: the same as ever.

        copy: to the poison queue, what is set aside now. Raises UndecodableBody.
        """
        rows = self._log.decisions.rows_of(segment, self._today)
        if rows.decide(copy):
            self._log.decisions.note(segment)
        parts = _parts(list(rows.rows()), segment.header.cut)
        return streams((part for part in parts if part), self._columns)


def _parts(rows: Sequence[Row | None], cut: Sequence[int]) -> Iterator[list[Row]]:
    rest = iter(rows)
    for size in cut:
        yield [row for row in islice(rest, size) if row is not None]
