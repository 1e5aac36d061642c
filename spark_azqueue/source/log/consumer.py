"""The driver-side half of a source with a write-ahead log: what happens at each of Spark's calls.

Batch n is segment n of the log, for ever. A segment is written before its offset is returned, and
its messages are deleted when its batch is proven committed. One instance lives for a whole query
run; Spark calls it from one thread. Knows no pyspark: `readers.py` translates.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spark_azqueue.errors import AzQueueError, CheckpointMismatch, LostSegment, ServiceError
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import Workers

from ..batches.bare_calls import BareCalls
from ..batches.builder import Batch
from ..batches.commits import CommitTracker, Plan, Proof
from ..columns import Columns
from ..engine import Engine
from ..leases.holder import MakeWorkers
from ..offsets import OffsetJson, QueueOffset, text_of
from ..restored import RestoredBatches
from .known import fingerprint
from .log import Contents, WriteAheadLog
from .offsets import LogOffset
from .progress import ProgressKeeper
from .replay import partitions_of, reading_options
from .segment import Segment
from .standing import first_segment
from .store import LogStore
from .stores import log_store

log = logging.getLogger(__name__)

_AHEAD_OF_SPARK = 2
"""Spark 4.0 and 4.1 may ask for news before they name their position. One segment is written then;
a mark follows as soon as the batch before it is proven. So if this many segments are not known to
be committed, Spark cannot be at the last one: that one is news enough.
"""


class LogConsumer:
    """Writes batches into a log, gives them out from it, and deletes what Spark has committed."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        settings: LogConfig,
        *,
        store: LogStore | None = None,
        client: QueueClient | None = None,
        renews: bool = True,
        make_workers: MakeWorkers = Workers,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store; nothing is sent before the first call.

        settings: of the log. store: where it is, if not where they say. The others: see `Engine`.
        """
        if config.claim_check:  # a blob is needed for as long as its segment
            config = replace(config, claim_check=replace(config.claim_check, delete=False))
        self._engine = Engine(
            config,
            columns,
            client=client,
            renews=renews,
            make_workers=make_workers,
            clock=clock,
            sleep=sleep,
            fingerprint=fingerprint,
        )
        self._config = config
        self._columns = columns
        self._settings = settings
        self._account = config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """The offset of a query that has read nothing: the same in every run, with a log or not."""
        self._commits = CommitTracker(self.initial)  # of batches from before the log
        self._restored = RestoredBatches(self._engine, self._commits)
        self._bare = BareCalls(self.initial)
        self._is_named = False  # Spark has named an offset, in a probe or as a start
        self._lose = not settings.fail_on_data_loss
        self._log = WriteAheadLog(
            store or log_store(settings), self._account, settings.retention, lose=self._lose
        )
        self._progress = ProgressKeeper(self._engine.holder, clock)
        self._after = 0  # no segment up to this one is given out
        self._is_checked = False
        self._partitions: dict[int, list[bytes]] = {}  # of segments written and not yet committed
        self._offsets: dict[int, OffsetJson] = {}
        self._is_limited = False
        self._is_ahead = False  # a segment was written before Spark named its position

    # ── Spark's calls ─────────────────────────────────────────────────────────────────────────────

    def only_what_is_there(self) -> None:
        """From now on read only messages inserted by now, and segments that stand now."""
        self._engine.only_what_is_there()
        self._is_limited = True

    def latest(self, start: Mapping[str, Any] | None, most: int | None) -> OffsetJson:
        """Settle what is proven committed, then return the offset behind the next segment.

        start: the committed offset, None on Spark 4.0 and 4.1, which do not tell. The next segment
        is one that stands already, or a new one of at most `most` messages. Returns the start
        itself if there is neither.
        """
        self._engine.open()
        if start is None:
            known, is_proven = self._bare.start()
            if not self._is_named:
                self._claim(None)
                standing = self._log.standing
                known = self._offset(standing.head)
                if standing.head - standing.progress.committed >= _AHEAD_OF_SPARK:
                    return self._handed_out(known)
                self._is_ahead = True
            elif not self._bare.is_planned and not is_proven:
                return known  # asked again before the last one was planned
        else:
            known, is_proven = dict(start), True
            self._is_named = True
        position = self._position(known)
        self._claim(position)
        if is_proven:
            self.committed(known)
        number = max(position.number, self._after) + 1
        if number <= self._log.standing.head:
            return self._handed_out(self._offset(number))
        if not self._engine.is_due():
            return known
        batch = self._engine.next_batch(number, most)
        if batch is None:
            self._mark(now=self._is_limited)
            return known
        return self._handed_out(self._written(number, batch))

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> list[bytes]:
        """The partitions of the segments behind `start` up to `end`: the same at every call."""
        position, last = self._position(start), self._position(end)
        if text_of(start) == text_of(end):
            if not self._bare.is_planned and not self._offsets:
                self._bare.probed(end)
                self._is_named = True
            return []
        self._bare.planned(end)
        self._is_named = True
        self._engine.open()
        if not last.is_of_log:
            return self._plan_from_before(start, end)
        self._claim(position)
        self._check_start(position)
        self._compare(last)
        self._log.skip_to(last.number)
        self.committed(start)
        if self._is_ahead:  # before Spark commits more: see _AHEAD_OF_SPARK
            self._log.mark(self._progress.now())
            self._is_ahead = False
        self._engine.start_renewing()
        if last.number == self._log.standing.head:
            self._engine.look_ahead()
        first = max(position.number, self._after) + 1
        return [part for n in range(first, last.number + 1) for part in self._rows_of(n)]

    def committed(self, offset: Mapping[str, Any]) -> None:
        """This offset is proven committed: settle it, unless that was done. Repeatable."""
        position = self._position(offset)
        if not position.is_of_log:
            if self._commits.proven(offset) is Proof.SETTLE_RESTORED:
                self._restored.settle(offset)
                self._commits.settled(offset)
            return
        self._claim(position)
        for number in self._progress.proven(position.number):
            self._engine.settle(number)
            self._partitions.pop(number, None)
            self._offsets.pop(number - 1, None)

    def report(self) -> Report:
        """The backlog, what is held, and what this run has counted. Sends little, seldom."""
        return self._engine.report()

    def renew_due(self) -> int:
        """Renew the leases that are due now, as the background thread does; returns how many."""
        return self._engine.holder.renew_due()

    def keeps(self, lease: Lease) -> bool:
        """True if this message is in hand, and its lease is renewed when that is due."""
        return self._engine.holder.keeps(lease)

    def wait(self, timeout_s: float) -> None:
        """Wait for what goes on in the background. Raises what went wrong there."""
        self._engine.wait(timeout_s)

    def close(self) -> None:
        """End renewals, finish deletes, note how far they came, give back what is in no segment.

        What stands in a segment is left leased: the next run gives it out again.
        """
        self._engine.drain()
        self._mark(now=True)
        self._engine.close()
        self._log.close()

    # ── the log ───────────────────────────────────────────────────────────────────────────────────

    def _claim(self, start: LogOffset | None) -> None:
        """Once: become the log's writer, and take over what earlier runs left in it.

        start: where the query goes on, None if Spark has not said. Raises CheckpointMismatch,
        LogConflict, LogDamaged, LostSegment, ServiceError.
        """
        if self._log.is_claimed:
            return
        self._log.open()
        # A log that an offset names has segments: with none, it is behind the checkpoint.
        standing = self._log.claim(0 if start is None or start.is_of_log else start.number)
        if start:
            self._check_start(start)
        if standing.head > standing.floor:
            self._check_queues(self._log.header(standing.head).queues)
        for owed in standing.progress.owed:
            self._engine.holder.restore_owed(owed.key, owed.fingerprint)
        first = max(standing.progress.done, standing.floor) + 1
        for number in range(first, standing.head + 1):
            if segment := self._segment(number):
                self._check_holds(segment)
                self._engine.holder.restore(segment.messages, number)
                self._offsets[number] = self._offset_of(segment)
        self._progress.restored(standing.progress, range(first, standing.head + 1))
        if start and start.is_of_log:
            self._compare(start)

    def _check_start(self, start: LogOffset) -> None:
        """Once: may a query go on from here? Raises CheckpointMismatch or LostSegment."""
        if self._is_checked:
            return
        self._check_log(start)
        self._after = first_segment(
            start,
            self._log.standing,
            self._log.where,
            choice=self._settings.start,
            lose=self._lose,
        )
        if self._after > start.number:
            log.warning("batches %d to %d are not given out", start.number + 1, self._after)
        self._log.skip_to(start.number)
        self._is_checked = True

    def _check_log(self, position: LogOffset) -> None:
        if position.is_of_log and position.log != self._log.uuid:
            raise CheckpointMismatch(
                f"the checkpoint belongs to another write-ahead log than {self._log.where}: name"
                " its folder, or start with a new checkpointLocation and a new output"
            )

    def _check_queues(self, queues: tuple[Any, ...]) -> None:
        if not set(queues) & set(self._config.queues):
            names = sorted(queue.name for queue in queues)
            raise CheckpointMismatch(
                f"the write-ahead log {self._log.where} was written from the queues {names}, and"
                " option 'queue' names none of them: is it the folder of another query?"
            )

    def _check_holds(self, segment: Segment) -> None:
        """Its messages are to be deleted: does this query read their queues?"""
        missing = {message.queue for message in segment.messages} - set(self._config.queues)
        if missing:
            names = sorted(queue.name for queue in missing)
            raise CheckpointMismatch(
                f"batch {segment.number} of the write-ahead log {self._log.where} has messages of"
                f" {names}, which are not deleted yet and which option 'queue' does not name any"
                " more: add it until they are (an availableNow run does it)"
            )

    def _segment(self, number: int, digest: str = "") -> Segment | None:
        """Read a segment; None if it is lost, with failOnDataLoss=false."""
        try:
            return self._log.segment(number, digest)
        except LostSegment as error:
            if not self._lose:
                raise
            log.warning("%s: its batch is empty, and its messages come again", error)
            return None

    def _compare(self, position: LogOffset) -> None:
        """Is this the segment that the checkpoint names? Raises LogDamaged."""
        self._check_log(position)
        if position.number <= self._log.standing.floor:
            return
        if self._log.digest(position.number)[:16] != position.segment:
            self._segment(position.number, position.segment)

    def _written(self, number: int, batch: Batch) -> OffsetJson:
        """Put the batch into the log. Returns its offset; raises as `WriteAheadLog.put`."""
        contents = Contents(
            self._engine.holder.with_newest_receipts(batch.messages),
            batch.cut,
            batch.oldest,
            self._config.queues,
            reading_options(self._config),
        )
        try:
            segment = self._log.put(contents, self._progress.now())
        except ServiceError as error:
            if not error.may_have_taken_effect:
                self._engine.holder.give_back_batch(number)
            raise
        self._progress.written(number)
        self._partitions[number] = batch.partitions
        self._offsets[number] = self._offset_of(segment)
        return self._offsets[number]

    def _rows_of(self, number: int) -> list[bytes]:
        """A segment's partitions, from memory or from the store."""
        if number in self._partitions:
            return self._partitions[number]
        segment = self._segment(number)
        if segment is None:
            self._engine.holder.forget(number)
            return []
        log.info("batch %d is read from the log: %d messages", number, len(segment.messages))
        return partitions_of(segment, self._columns, self._config)

    def _mark(self, *, now: bool) -> None:
        """Write down how far deleting has come, seldom. Best effort: it only saves work."""
        if not self._log.is_claimed or not (now or self._progress.is_due()):
            return
        try:
            self._log.mark(self._progress.now())
        except AzQueueError as error:
            log.warning("could not note how far deleting has come: %s", error)

    # ── offsets ───────────────────────────────────────────────────────────────────────────────────

    def _position(self, offset: Mapping[str, Any]) -> LogOffset:
        return LogOffset.from_json(offset, account=self._account)

    def _offset(self, number: int) -> OffsetJson:
        """The offset behind a segment that stands (or the initial one)."""
        if number == 0:
            return self.initial
        if number not in self._offsets:
            self._offsets[number] = self._offset_of(self._log.segment(number))
        return self._offsets[number]

    def _offset_of(self, segment: Segment) -> OffsetJson:
        return LogOffset(
            self._account,
            segment.number,
            self._log.uuid,
            segment.digest[:16],
            len(segment.messages),
            segment.header.oldest,
        ).to_json()

    def _handed_out(self, offset: OffsetJson) -> OffsetJson:
        self._bare.handed_out(offset)
        self._is_named = True
        return offset

    def _plan_from_before(self, start: Mapping[str, Any], end: OffsetJson) -> list[bytes]:
        """A batch from before the log: its messages are released, and come again in a segment."""
        plan = self._commits.plan(start, end)
        self.committed(start)
        if plan is Plan.REPLAY:
            self._restored.replay(end)
        return []
