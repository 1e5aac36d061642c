"""Writes, reads, abandons and settles the batches of a query with a log."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from spark_azqueue.errors import AzQueueError, LogDamaged, ServiceError
from spark_azqueue.journal.numbers import is_too_long, standing
from spark_azqueue.metrics.report import LogReport
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.store import Removals

from ..batches.batch import Batch
from ..columns import Columns
from ..driver.engine import DriverLeasing
from ..leases.holder import LeaseHolder
from ..logged.undecodable import Reading
from ..offsets import STATUS_AT_MOST, OffsetJson
from .given_up import DELETE_AFTER, FailedBatches
from .log import Contents, SegmentReader, WriteAheadLog
from .recovery import Asked, LogRecovery
from .segment import segment_rows
from .state import ProgressKeeper

log = logging.getLogger(__name__)

_AT_ONCE = 2
"""Maximum number of segments whose blobs are deleted in the background at the same time."""

_WAIT_S = 60.0


class SegmentBodies:
    """Removes segments after it has removed the blobs of their messages. Used by one thread.

    A blob is kept if a reader may still need it: its message is held, the delete of its message is
    pending, or its batch was abandoned.
    """

    def __init__(
        self,
        config: SourceConfig,
        wal: WriteAheadLog,
        holder: LeaseHolder,
        removals: Removals,
    ) -> None:
        self._today = Reading.of(config)
        self._log = wal
        self._holder = holder
        self._removals = removals
        self._begun: deque[tuple[int, Sequence[Future[None]]]] = deque()

    def go_on(self) -> None:
        """Delete blobs in the background, and remove the segments whose blobs are deleted.

        Never raises. A failed step is repeated with the next batch or after the next start. In rare
        cases a blob is never deleted.
        """
        for number in self._log.take_removable():
            try:
                names = self._names_in(number)
            except ServiceError as error:
                log.warning("segment %d is kept for now: %s", number, error)
                self._log.put_back(number)
                break
            self._begun.append((number, [*filter(None, map(self._removals.begin, names))]))
            self._remove(_AT_ONCE, _WAIT_S)
        self._remove(0, 0.0)

    def finish(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds for blob deletes that have begun, then close the
        connections to the blob service.
        """
        self._removals.wait(timeout_s)
        self._remove(0, 0.0)
        self._removals.close()

    def _remove(self, most: int, timeout_s: float) -> None:
        """Remove segments whose blobs are deleted.

        First wait until at most `most` segments have blob deletes in progress.

        If the blobs of a segment are not deleted within `timeout_s` seconds, the segment stays
        until the next start.
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
        """Return the names of a segment's blobs that may be deleted. Raises ServiceError."""
        try:
            outcome = self._log.outcomes.on(number)
            if outcome is not None and outcome.gives_up:
                return []
            segment = self._log.removable(number)
        except LogDamaged as error:
            log.warning("the blobs of segment %d are kept: %s", number, error)
            return []
        if segment is None:
            log.warning("the blobs of segment %d are kept: it may never have been a batch", number)
            return []
        blobs = list(segment_rows(segment, self._today).blobs())
        with self._holder.locked_ledger as ledger:
            return [name for key, name in blobs if key not in ledger]


class LoggedBatches:
    """Batches in the log; batch n is segment n. Only the log survives a restart.

    Used by one thread at a time. If another thread is writing the next batch in advance, each
    method first waits for this thread.

    Its methods raise CheckpointMismatch, LogConflict, LogDamaged, LostSegment, ServiceError.
    """

    def __init__(
        self,
        engine: DriverLeasing,
        columns: Columns,
        settings: LogConfig,
        wal: WriteAheadLog,
        progress: ProgressKeeper,
        clock: Callable[[], float],
        bodies: SegmentBodies | None = None,
    ) -> None:
        """bodies: with largeBody=blob, deletes the blobs of removed segments."""
        self._engine = engine
        self._config, self._holder, self._suspects = engine.config, engine.holder, engine.suspects
        self._settings = settings
        self._deletes_at_once = settings.delete_after is DeleteAfter.LOG
        self._log = wal
        self._progress = progress
        self._failures = FailedBatches(engine, wal, progress, deletes_at_once=self._deletes_at_once)
        self._segments = SegmentReader(self._config, columns, settings, wal)
        self._bodies = bodies
        self._clock = clock
        self._in_doubt: ServiceError | None = None
        self._put_s: float | None = None  # seconds that the newest put of a segment took
        # key: number of a segment that is written but not committed
        self._partitions: dict[int, list[bytes]] = {}
        self.recovery = LogRecovery(
            engine, settings, wal, progress, self._failures, self._segments, clock
        )
        """Takes over the log: decides whether this query may use the log, and where the query
        resumes."""

    @property
    def head(self) -> int:
        """Number of the newest batch in the log."""
        return self._log.state.head

    def take_over(self, asked: Asked) -> None:
        """Become the log's only writer, and take over the leases of messages of earlier runs.

        After the first success, a call does nothing.
        """
        if self.recovery.take_over(asked) and self._bodies:
            self._bodies.go_on()

    def delete_logged(self) -> None:
        """With deleteAfter=log, begin to delete the log's messages from the queues."""
        if self._deletes_at_once and self.recovery.is_done:
            self._settle(self.head)

    def write(self, number: int, batch: Batch) -> OffsetJson:
        """Put a new batch into the log. Returns its offset.

        If the put fails, the messages are released. If the put gets no answer, the segment may
        exist, or may appear later. In this case the messages stay leased, and this process writes
        no other segment.
        """
        if self._in_doubt:
            raise self._in_doubt
        with self._holder.locked_ledger as ledger:
            # some leases were renewed while the batch waited
            received = ledger.newest(batch.received)
        queues = (*self._config.queues, *(lease.queue for _, lease in received))
        contents = Contents(
            received,
            batch.cut,
            batch.oldest,
            tuple(dict.fromkeys(queues)),
            {**Reading.of(self._config).options, DELETE_AFTER: self._settings.delete_after.value},
            batch.suspect,
            self._suspects.status[:STATUS_AT_MOST],
        )
        self._engine.forget_expired()
        began = self._clock()
        try:
            segment = self._log.put(contents, self._progress.now())
        except Exception as error:
            if isinstance(error, ServiceError) and error.may_have_taken_effect:
                self._in_doubt = error
            elif self.head < number:  # if the put had an effect, the segment exists
                self._holder.release_batch(number)
            raise
        self._put_s = self._clock() - began
        self._progress.written(number)
        self._partitions[number] = batch.partitions
        if self._bodies:
            self._bodies.go_on()
        self.delete_logged()
        return self._segments.known(segment).to_json()

    def offset(self, number: int) -> OffsetJson:
        """Return the offset whose last batch is this batch of the log."""
        return self._segments.offset(number).to_json()

    def standing_from(self, number: int) -> int:
        """Return the number of the first batch at or after `number` whose segment exists.

        If no such segment exists, returns the number of the next new batch.

        With failOnDataLoss=false, lost batches are skipped. With failOnDataLoss=true, the number is
        returned unchanged.
        """
        if self._settings.fail_on_data_loss or number in self._log.segments.sizes:
            return number
        return min(
            (each for each in self._log.segments.sizes if each > number), default=self.head + 1
        )

    def rows_of(self, numbers: range) -> list[bytes]:
        """Return the partitions of these segments, the same in every call.

        Spark reads these segments as one batch.

        An abandoned segment has no partitions, even if this call abandons it. With
        failOnDataLoss=false, a missing segment has no partitions either.
        """
        alone = len(numbers) == 1
        there = standing(numbers, self._log.segments.sizes) if is_too_long(numbers) else numbers
        return [part for number in there for part in self._rows(number, is_alone=alone)]

    def _rows(self, number: int, *, is_alone: bool) -> list[bytes]:
        """Return a segment's partitions, from memory or from the log."""
        if number in self._partitions:
            return self._partitions[number]
        if self._failures.is_given_up(number):
            return []
        segment = self._segments.take(number)
        if segment is None:
            with self._holder.locked_ledger as ledger:
                ledger.forget(number)
            return []
        partitions = self._segments.partitions_of(
            segment
        )  # a failure here does not count as an attempt
        if self._failures.gives_up(segment, is_alone=is_alone):
            return []
        log.info("batch %d is read from the log: %d messages", number, len(segment.received))
        return partitions

    def committed(self, number: int) -> None:
        """Delete the messages of all batches up to this number. The batches are committed. The call
        may be repeated.
        """
        self._progress.proven(number)
        self._settle(number)
        for each in [each for each in self._partitions if each <= number]:
            del self._partitions[each]
        self._segments.forget_before(number)

    def give_back(self, number: int) -> bool | None:
        """Abandon a batch of this run that delivered no rows. Returns True if its messages will be
        delivered again.

        Returns None for a batch of an earlier run. The sink may already have the rows of such a
        batch. A sink that has them skips the batch.
        """
        return self._failures.give_back(number) if number in self._partitions else None

    def finish_bodies(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds for blob deletes that have begun."""
        if self._bodies:
            self._bodies.finish(timeout_s)

    def named(self, number: int) -> None:
        """Record that Spark has named this batch, which proves that the checkpoint has it."""
        self._progress.named(number)

    def report(self) -> LogReport | None:
        """Return the log's state, or None before the log is claimed. Sends no request."""
        if not self._log.is_claimed:
            return None
        state = self._log.state
        sizes = list(
            self._log.segments.sizes.values()
        )  # another thread may write the next batch at the same time
        with self._holder.locked_ledger as ledger:
            seen, pending = ledger.known, ledger.pending_count
        return LogReport(
            segments=len(sizes),
            bytes=sum(sizes),
            uncommitted=state.head - max(self._progress.committed, state.floor),
            seen=seen,
            pending_deletes=pending,
            put_seconds=None if self._put_s is None else round(self._put_s, 3),
        )

    def mark_if_due(self, *, at_once: bool = False, has_ended: bool = False) -> None:
        """Write the log's progress as a mark, if the last mark is too old.

        A failure is only logged, because a mark only saves work.

        has_ended: this mark is the last mark of the process. Before the takeover is complete,
        nothing is written, because a start that is refused must not change the log.
        """
        if not self.recovery.is_done or not (at_once or self._progress.is_due()):
            return
        try:
            self._log.mark(self._progress.now(has_ended=has_ended))
        except AzQueueError as error:
            log.warning("could not note how far deleting has come: %s", error)

    def _settle(self, number: int) -> None:
        for each in self._progress.kept_up_to(number):
            if self._failures.may_settle(each):
                self._engine.settle(each)
            self._progress.settled(each)  # as the last step, so that a failed delete is repeated
