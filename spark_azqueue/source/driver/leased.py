"""The source without a write-ahead log: the offset of a batch contains the batch's leases.

`batches/commits.py` and `leases/ledger.py` make the decisions, and `engine.py` acts on them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_azqueue.metrics.report import Report
from spark_azqueue.options.source_config import SourceConfig

from ..batches.batch import Batch
from ..batches.commits import CommitTracker, PlanAction, Proof
from ..calls import Wanted
from ..columns import Columns
from ..offsets import OffsetJson, QueueOffset, batch_of, offset_text
from ..runtime import DEFAULT, Runtime
from .engine import DriverLeasing, Pending, RestoredBatches

log = logging.getLogger(__name__)

_NOT_ISOLATED = (
    "this run released the messages of a batch that had failed, and ended before a new batch. If"
    " each run does, as with availableNow on Spark 4.0 and 4.1, no poison message is isolated: set"
    " writeAheadLog, or run the query without availableNow"
)


class LeasedConsumer:
    """Consumer without a log. Leases micro-batches, and deletes the messages of a batch after
    Spark's commit."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        runtime: Runtime = DEFAULT,
    ) -> None:
        """Store the arguments; nothing is sent before the first call."""
        self.engine = engine = DriverLeasing(config, columns, runtime)
        self._config, self._holder, self._suspects = config, engine.holder, engine.suspects
        self._account = config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """Offset of a query that has read nothing. The offset is the same in every run, with or
        without a log."""
        self._commits = CommitTracker(self.initial)
        self._restored = RestoredBatches(engine, self._commits)
        self._partitions: dict[str, list[bytes]] = {}  # of uncommitted batches, by offset
        self._has_replayed = False  # True until a batch is requested after the replay
        self._is_last = False  # the run may end after the newest batch

    def freeze_cutoff(self) -> None:
        """From now on, read only messages that were inserted before this call.

        The service's clock decides, in whole seconds.
        """
        self.engine.freeze_cutoff()

    def latest(self, wanted: Wanted) -> OffsetJson:
        """Settle the batches that are proven to be committed, then lease the next batch.

        Returns the new offset. Returns the start if there is no batch and the pending deletes have
        not changed.
        """
        self.engine.open()
        self._has_replayed = False
        self._is_last = wanted.is_last
        start = wanted.start
        self.engine.is_asked(wanted.most)
        number = batch_of(start, account=self._account) + 1
        if wanted.is_proven:
            self.committed(start)
        elif wanted.may_run and self._suspects.isolating:
            return start  # Batches that fail at the same time as a suspect's would seem guilty.
        batch = None
        if self.engine.is_due(is_last=self._is_last):
            batch = self.engine.next_batch(number)
        pending = self.engine.pending() if self._config.delete_on_commit else Pending()
        if batch is None and not self._has_changed(pending):
            return start
        offset = self._offset(number, batch, pending).to_json()
        self._partitions[offset_text(offset)] = batch.partitions if batch else []
        self._commits.handed_out(offset)
        self._restored.noted = pending.remembered
        if batch:
            self.engine.has_given(len(batch.received))
        return offset

    def _has_changed(self, pending: Pending) -> bool:
        """Return True if a new pending delete must be recorded, or that no pending delete is
        left."""
        noted = self._restored.noted
        return not pending.remembered <= noted or bool(noted and not pending.remembered)

    def _offset(self, number: int, batch: Batch | None, pending: Pending) -> QueueOffset:
        """Return the offset of a batch.

        If `batch` is None, the offset contains only the pending deletes.
        """
        config, holder = self._config, self._holder
        noted = QueueOffset(
            self._account,
            number,
            is_deleted_on_commit=config.delete_on_commit,
            findings=self._suspects.findings,
            status=self._suspects.status,
            pending=pending.deletes,
            hidden_until=pending.hidden_until,
        )
        if batch is None:
            return noted
        has_witness = self._is_last and config.delete_on_commit
        texts = holder.keep_witness(batch.leases) if has_witness else {}
        return replace(
            noted,
            leases=batch.leases,
            oldest=batch.oldest,
            blobs=batch.blobs,
            leased_s=holder.lengths.unusual_s(),
            texts=texts,
            expires=batch.last_expiry if texts else None,
        )

    def plan(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool = True
    ) -> list[bytes]:
        """Return the partitions of the batch that ends at `end`.

        A batch of an earlier run is replayed.
        """
        plan = self._commits.plan(start, end)
        if plan is PlanAction.NOTHING:
            return []
        self.engine.open()
        if is_proven:
            self.committed(start)
        if plan is PlanAction.REPLAY:
            self._restored.replay(end)
            self._has_replayed = True
            return []
        if not self._is_last:
            self.engine.prefetch()
        return self._partitions[
            offset_text(end)
        ]  # kept until the batch is committed, because Spark may ask again

    def committed(self, offset: Mapping[str, Any]) -> None:
        """Settle this offset and all earlier offsets, all of which are proven to be committed.

        The call may be repeated.
        """
        for before in self._commits.handed_out_before(batch_of(offset, account=self._account)):
            self._settle(before)
        self._settle(offset)

    def _settle(self, offset: Mapping[str, Any]) -> None:
        proof = self._commits.proven(offset)
        if proof is Proof.NOTHING:
            return
        if proof is Proof.SETTLE_OWN:
            number = batch_of(offset, account=self._account)
            self._suspects.batch_committed(number, self.engine.keys_of(number))
            self.engine.settle(number)
            self._partitions.pop(offset_text(offset), None)
        else:
            self._restored.settle(offset)
        self._commits.settled(offset)

    def give_back(self, offset: OffsetJson, timeout_s: float) -> bool:
        """Release the messages of a batch of this run, if Spark never requested the batch's rows.

        Returns only when all receipts in the offset are stale. If one receipt stayed valid, a later
        process that finds the offset committed could use it to delete a message whose row was never
        delivered. The call may be repeated. Raises ServiceError or TimeoutError.
        """
        if self._commits.proven(offset) is not Proof.SETTLE_OWN:
            return True
        leases = QueueOffset.from_json(offset, account=self._account).leases
        with self._holder.locked_ledger as ledger:
            renewed = ledger.release(batch_of(offset, account=self._account))
        worker = self._holder.worker
        worker.release([*dict.fromkeys((*leases, *renewed))], timeout_s=timeout_s)
        self._commits.replayed(offset)
        self._partitions.pop(offset_text(offset), None)
        return True

    def report(self) -> Report:
        """Return the backlog, the held messages and this run's counters.

        Most calls send no request.
        """
        return self.engine.report()

    def close(self) -> None:
        """Stop renewing leases, finish due deletes, and release undelivered messages. Takes some
        seconds.

        The leases in the offset that was returned last are not released, because its batch may be
        committed. The next run finds these leases in the checkpoint, or the leases end.
        """
        if self._has_replayed and self._config.max_dequeue_count is not None:
            log.warning("%s", _NOT_ISOLATED)
        self.engine.drain()
        self.engine.close()
