"""largeBody=blob with a log: a blob lives as long as the segment that names it.

So a replay of any segment that is kept finds its bodies. When a segment is to go, its blobs are
deleted first and the segment last: a restart that finds the segment goes on with it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace

from spark_azqueue.errors import LogDamaged, ServiceError
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.removals import Removals
from spark_azqueue.service.messages import MessageKey

from ..leases.holder import LeaseHolder
from .log import WriteAheadLog
from .reading import Reading
from .segment import Segment

log = logging.getLogger(__name__)

_AT_ONCE = 2
"""For how many segments blobs may be deleted in the background; a further one waits."""

_WAIT_S = 60.0


class SegmentBodies:
    """Removes segments, and before each of them the blobs of its messages. Used by one thread.

    A blob stays if its message is in hand, if its delete is owed, or if its batch was given up:
    it may still be read.
    """

    def __init__(
        self,
        config: SourceConfig,
        wal: WriteAheadLog,
        holder: LeaseHolder,
        removals: Removals,
    ) -> None:
        # What does not decode has no blob.
        self._today = replace(Reading.of(config), on_undecodable=OnUndecodable.PERMISSIVE)
        self._log = wal
        self._holder = holder
        self._removals = removals
        self._begun: deque[tuple[int, Sequence[Future[None]]]] = deque()

    def go_on(self) -> None:
        """Delete blobs in the background, and remove the segments whose blobs are gone.

        Never raises: what fails is done after the next start, or stays.
        """
        for number in self._log.take_removable():
            try:
                names = self._names_in(number)
            except ServiceError as error:
                log.warning("segment %d stays until the next start: %s", number, error)
                continue
            self._begun.append((number, [*filter(None, map(self._removals.begin, names))]))
            self._remove(_AT_ONCE, _WAIT_S)
        self._remove(0, 0.0)

    def finish(self, timeout_s: float) -> None:
        """Wait this long for the blobs whose delete has begun, and close the connections."""
        self._removals.wait(timeout_s)
        self._remove(0, 0.0)
        self._removals.close()

    def _remove(self, most: int, timeout_s: float) -> None:
        """Remove what is ready. Wait if more than `most` are under way.

        A segment whose blobs take too long stays until the next start.
        """
        while self._begun:
            number, under_way = self._begun[0]
            patience = timeout_s if len(self._begun) > most else 0.0
            is_ready = not wait(under_way, patience).not_done
            if not is_ready and not patience:
                return
            self._begun.popleft()
            if is_ready:
                self._log.remove_segments([number])

    def _names_in(self, number: int) -> list[str]:
        """The blobs of a segment that no reader needs. Raises ServiceError."""
        try:
            verdict = self._log.verdicts.on(number)
            if verdict is not None and verdict.gives_up:
                return []
            segment = self._log.segments.read(number)
        except LogDamaged as error:
            log.warning("the blobs of segment %d stay: %s", number, error)
            return []
        blobs = list(self._blobs(segment))
        with self._holder.ledger as ledger:
            return [name for key, name in blobs if key not in ledger]

    def _blobs(self, segment: Segment) -> Iterable[tuple[MessageKey, str]]:
        """Not that of a message in the poison queue, whose copy names it."""
        for row in self._log.decisions.rows_of(segment, self._today).rows():
            if row is not None and row.reference:
                yield row.message.key, row.reference.name
