"""Driver's part of a source with a write-ahead log: handles each call of Spark.

Batch n is segment n of the log, forever. A segment is written before its offset is returned. If
there is a backlog, the next segment is written while Spark works. The messages of a batch are
deleted when the batch is proven to be committed or, with deleteAfter=log, as soon as the batch is
in the log. A query run uses one instance, and Spark calls the instance from one thread. This module
does not import pyspark: `readers.py` converts Spark's types.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from concurrent import futures
from dataclasses import replace
from typing import Any

from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.store import Removals
from spark_azqueue.service.retry import LAST_WORDS_S

from ..batches.commits import CommitTracker, PlanAction, Proof
from ..calls import Wanted
from ..columns import Columns
from ..driver.engine import DriverLeasing, RestoredBatches
from ..leases.holder import removals_for
from ..offsets import OffsetJson, QueueOffset, offset_text
from ..runtime import DEFAULT, Runtime
from .batches import LoggedBatches, SegmentBodies
from .log import WriteAheadLog
from .recovery import Asked
from .state import LogOffset, ProgressKeeper

log = logging.getLogger(__name__)

_BATCHES_BEFORE_AHEAD = 2
"""Number of batches that a run must deliver before it writes the next batch in advance.

So a run that delivers only one batch leaves no unread batch in the log.
"""


class LogConsumer:
    """Writes batches into a log, delivers them from the log, and deletes their messages."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        settings: LogConfig,
        *,
        store: LogStore | None = None,
        removals: Removals | None = None,
        runtime: Runtime = DEFAULT,
    ) -> None:
        """Keep the parameters; send nothing before the first call.

        settings: options of the log. store: replaces the store that `settings` names.
        removals: deletes the blobs of large bodies; replaces deletes in the container that the
            options name.
        """
        if config.claim_check:  # `SegmentBodies` deletes a blob with its segment
            removals = removals or removals_for(config.claim_check, runtime.make_workers)
            config = replace(config, claim_check=replace(config.claim_check, delete=False))
        self.engine = engine = DriverLeasing(
            config,
            columns,
            runtime,
        )
        self._account = config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """Offset of a query that has read nothing. The offset is the same in every run, with or
        without a log."""
        self._commits = CommitTracker(self.initial)  # for batches read before there was a log
        self._builder, self._suspects = engine.builder, engine.suspects
        self._restored = RestoredBatches(engine, self._commits)
        self._runtime = runtime
        self._log = WriteAheadLog(
            store or log_store(settings.place, settings.account),
            self._account,
            settings.retention.batches,
            keep_s=settings.retention.seconds,
            lose=not settings.fail_on_data_loss,
            removes=removals
            is None,  # if False, `bodies` removes a segment after the segment's blobs
            now=runtime.now,
        )
        progress = ProgressKeeper(engine.holder, runtime.clock, lambda: engine.service_is_ahead)
        bodies = None
        if removals:
            bodies = SegmentBodies(config, self._log, engine.holder, removals)
        self._batches = LoggedBatches(
            self.engine, columns, settings, self._log, progress, runtime.clock, bodies
        )
        self._recovery = self._batches.recovery
        self._given = 0  # number of batches delivered in this run
        self._is_last = False  # the run may end after the newest batch

    def freeze_cutoff(self) -> None:
        """Restrict the run to messages that were inserted before this call, and to segments that
        exist now.
        """
        self.engine.freeze_cutoff()

    def latest(self, wanted: Wanted) -> OffsetJson:
        """Settle the batches that are proven to be committed, then return the offset of the next
        segment.

        The next segment already exists or is written now. Returns the start offset if there is no
        next segment.
        """
        self.engine.open()
        self._builder.catch_up()
        self._is_last = wanted.is_last
        self.engine.is_asked(wanted.most)
        position = self._read(wanted.start)
        self._batches.take_over(Asked(position))
        if wanted.may_run and self._suspects.isolating:
            return wanted.start  # a message in a batch with a suspect becomes a suspect
        if wanted.is_proven:
            self._batches.named(position.number)
            self._batches.delete_logged()
            self.committed(wanted.start)
        number = self._batches.standing_from(max(position.number, self._recovery.after) + 1)
        if number <= self._batches.head:
            return self._handed_out(self._batches.offset(number))
        if not self.engine.is_due(is_last=self._is_last):
            return wanted.start
        batch = self.engine.next_batch(number)
        if batch is None:
            self._batches.mark_if_due(at_once=self.engine.is_limited)
            return wanted.start
        return self._handed_out(self._batches.write(number, batch))

    def plan(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool = True
    ) -> list[bytes]:
        """Return the partitions of the segments after `start` up to `end`.

        The partitions are the same in every call.
        """
        position, last = self._read(start), self._read(end)
        if offset_text(start) == offset_text(end):
            self._batches.named(last.number)
            return []
        self.engine.open()
        self._builder.wait_for_prefetch()
        if not last.is_of_log:
            return self._plan_from_before(start, end, is_proven=is_proven)
        self._recovery.check_forward(position, last)
        self._batches.take_over(Asked(position, last))
        self._recovery.compare(last)
        if is_proven:
            self.committed(start)
        self._batches.named(last.number)
        self._batches.delete_logged()
        first = max(position.number, self._recovery.after) + 1
        parts = self._batches.rows_of(range(first, last.number + 1))
        # last, because abandoning a batch needs the receipts that the log has
        self.engine.start_renewing()
        if last.number == self._batches.head:
            self._prefetch()
        return parts

    def committed(self, offset: Mapping[str, Any]) -> None:
        """Settle this offset, which is proven to be committed. A repeated call does nothing."""
        position = self._read(offset)
        if not position.is_of_log:
            if self._commits.proven(offset) is Proof.SETTLE_RESTORED:
                self._restored.settle(offset)
                self._commits.settled(offset)
            return
        self._builder.wait_for_prefetch()
        self._batches.take_over(Asked(position))
        self._batches.committed(position.number)

    def give_back(self, offset: OffsetJson, timeout_s: float) -> bool | None:
        """Abandon a batch of this run, if Spark never requested its rows.

        The messages are delivered again.

        With deleteAfter=log, returns False and abandons nothing, because only the log has the
        messages. Returns None for a batch that an earlier run wrote. Also raises TimeoutError.
        """
        number = self._read(offset).number
        given = self._runtime.make_workers(1, "mark").submit(
            lambda: self._batches.give_back(number)
        )
        if futures.wait([given], timeout_s).not_done:
            raise TimeoutError(f"the log did not answer within {timeout_s:g} s")
        return given.result()

    def report(self) -> Report:
        """Return the backlog, the held messages, the counters of this run, and the state of the
        log."""
        return replace(self.engine.report(), log=self._batches.report())

    def close(self) -> None:
        """Stop renewing leases, finish deletes, write a last mark, and release messages that are in
        no segment.

        Messages in a segment stay leased: the next run delivers them again.
        """
        if self.engine.drain():
            self._last_mark()
            self._batches.finish_bodies(LAST_WORDS_S)
        self.engine.close()
        self._log.close()

    def _last_mark(self) -> None:
        """Write the last mark. Wait only a few seconds, because a store may retry for a minute."""
        marking = self._runtime.make_workers(1, "mark")
        with contextlib.suppress(RuntimeError):  # the interpreter can start no thread any more
            mark = marking.submit(lambda: self._batches.mark_if_due(at_once=True, has_ended=True))
            futures.wait([mark], LAST_WORDS_S)

    def _read(self, offset: Mapping[str, Any]) -> LogOffset:
        return LogOffset.from_json(offset, account=self._account)

    def _handed_out(self, offset: OffsetJson) -> OffsetJson:
        self._given += 1
        self.engine.has_given(self._read(offset).messages)
        return offset

    def _prefetch(self) -> None:
        """Lease and write the next batch while Spark works on the current batch."""
        if self._is_last:
            return
        if self._given < _BATCHES_BEFORE_AHEAD:
            self.engine.prefetch()
            return
        number = self._batches.head + 1
        self.engine.prefetch(number, lambda batch: self._batches.write(number, batch))

    def _plan_from_before(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool
    ) -> list[bytes]:
        """Release the messages of a batch that the query read before it had a log.

        The messages are dequeued again, and the new batch is written to a segment.
        """
        plan = self._commits.plan(start, end)
        if is_proven:
            self.committed(start)
        if plan is PlanAction.REPLAY:
            self._restored.replay(end)
        return []
