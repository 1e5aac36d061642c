"""Handles each call of Spark for a stream that reads a log. Imports no pyspark.

The stream stores no state: the position is in Spark's checkpoint, and the batches are in the log.
So any number of streams can read one log independently, and each stream can repeat its
micro-batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from spark_azqueue.errors import LostSegment
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.parsers import Bound
from spark_azqueue.options.replay import ReplayConfig

from ..calls import BareCalls
from ..offsets import OffsetJson
from ..refusals import (
    behind,
    end_of_stream,
    lost_batch,
    not_committed_yet,
    of_another,
    overlapping,
    removed,
)
from .batches import LogSurvey, Piece, ReplayOffset, first_batch, lost_at_start, parted, pieces_of
from .survey import History, history_of, opened_log

_AHEAD = 2
"""`startingAt` may be at most this number above the newest committed batch.

The log records the commit of a batch late, and a stream may begin with the batch after it.
"""

_NAP_AT_MOST_S = 0.25
"""Maximum number of seconds that `latest` waits if there is no batch.

The time is short because a query with several sources waits for each source in turn.
"""


class Follower:
    """Follows one log during a run of a query. Used by one thread.

    Its methods raise InvalidOption, CheckpointMismatch, LostSegment, LogDamaged, LogConflict,
    ServiceError.
    """

    def __init__(
        self,
        config: ReplayConfig,
        *,
        open_log: Callable[[ReplayConfig], Journal] = opened_log,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Keep the parameters; open nothing before the first call."""
        self._config = config
        self._open_log = open_log
        self._clock = clock
        self._sleep = sleep
        self.initial: OffsetJson = ReplayOffset().to_json()
        """Offset of a stream that has read nothing. The offset is the same in every run."""
        self._bare = BareCalls(self.initial)
        self._opened: Journal | None = None
        self._found: LogSurvey | None = None
        self._looked_at = 0.0
        self._until: int | None = None  # last batch of an availableNow run

    @property
    def opened(self) -> Journal:
        """The log, which is opened at the first use."""
        if self._opened is None:
            self._opened = self._open_log(self._config)
        return self._opened

    @property
    def _history(self) -> History:
        return history_of(self.opened)

    def freeze_cutoff(self) -> None:
        """Deliver only batches that are committed now."""
        self._until = self._survey().committed

    def latest(self, start: Mapping[str, Any] | None) -> OffsetJson:
        """Return the offset that ends the next micro-batch, or the start offset if the log has no
        further batches.

        start: committed offset; None on Spark 4.0 and 4.1, which do not pass the start.
        """
        if start is None:
            if (again := self._bare.asked()) is not None:
                return again
            start = self._bare.start
        position = self._position(start)
        self._look(position)
        found = self._found
        assert found is not None
        first = position.batch + 1
        if not position.log:
            begin = first_batch(found, self._config)
            if begin is None:
                return dict(start)
            first = begin
            if first == self._config.start.batch and first > found.committed + _AHEAD:
                raise not_committed_yet(found.where, "startingAt", first, found.committed)
            if self._config.has_start and (error := lost_at_start(found, self._config, first)):
                self._tell(error)
        if first <= found.floor:
            if position.log:
                self._tell(removed(found.where, first, found.floor, found.floor))
            first = found.floor + 1
        newest = found.committed if self._until is None else min(found.committed, self._until)
        last = min(newest, first + self._config.batches_per_trigger - 1)
        if last < first:
            return dict(start)
        offset = ReplayOffset(self.opened.uuid, first, last).to_json()
        self._bare.answered(offset)
        return offset

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> list[tuple[Piece, ...]]:
        """Return the partitions of the micro-batch that ends at `end`."""
        before, position = self._position(start), self._position(end)
        self._bare.planned(start, end)
        if before == position:
            return []
        if position.first <= before.batch:
            where = self.opened.store.where
            raise overlapping(where, position.first, position.batch, before.batch)
        first, last = position.first, position.batch
        found = self._found
        if found is None or found.committed < last or found.floor >= first:
            found = self._survey()
        if found.committed < last:
            raise behind(found.where, found.committed, last, is_read=True)
        if first <= found.floor:
            self._tell(removed(found.where, first, min(last, found.floor), found.floor))
        missing = found.missing(first, last)
        if missing is not None:
            self._tell(lost_batch(found.where, missing))
        return parted(pieces_of([each for each in found.batches if first <= each.number <= last]))

    def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            self._opened.store.close()

    def _position(self, offset: Mapping[str, Any]) -> ReplayOffset:
        position = ReplayOffset.from_json(offset)
        if position.log and position.log != self.opened.uuid:
            raise of_another(self.opened.store.where)
        return position

    def _look(self, position: ReplayOffset) -> None:
        """Read from the log which batches are committed, unless the next batch is already known or
        the last read was just before."""
        found = self._found
        if found is None:
            self._survey()
            return
        if self._until is not None or (position.batch < found.committed and position.log):
            return
        pause = self._looked_at + self._config.max_poll_interval - self._clock()
        if pause > 0:
            self._sleep(min(pause, _NAP_AT_MOST_S))
        if pause <= _NAP_AT_MOST_S:
            self._looked_at = self._clock()
            if self._history.has_new_batches(found):
                self._survey()

    def _survey(self) -> LogSurvey:
        self._looked_at = self._clock()
        self._found = self._history.survey()
        return self._found

    def _tell(self, error: LostSegment) -> None:
        """Raise this error. With failOnDataLoss=false, log it as a warning in place of raising
        it."""
        tell_loss(error, lose=not self._config.fail_on_data_loss)


def check_stream(config: ReplayConfig) -> None:
    """Raise InvalidOption for an option that only `spark.read` supports."""
    if config.end != Bound():
        raise end_of_stream("endingAt")
