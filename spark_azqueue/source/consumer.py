"""The driver-side half of the source: what happens at each of Spark's calls, in order.

One instance lives for a whole query run; Spark calls it from one thread. Decisions are made in
`batches.py` and `ledger.py`; `gathering.py` and `settling.py` carry them out. Knows no pyspark:
`source.py` translates.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from spark_azqueue.errors import CheckpointMismatch, QueueNotFound
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.client import AzureQueues, QueueService
from spark_azqueue.service.queues.management import create_queue
from spark_azqueue.service.retry import CONTROL, LAST_WORDS_S
from spark_azqueue.service.workers import Workers

from .backlog import Backlog
from .batches.available_now import Cutoff
from .batches.builder import Gatherer
from .batches.commits import Batches, Plan, Proof
from .batches.receiver import Receiver
from .columns import Columns
from .leases.holder import Holding, MakeWorkers
from .offsets import OffsetJson, QueueOffset, batch_of

log = logging.getLogger(__name__)

_DELETES_AT_MOST_S = 60.0
"""How long the deletes of one batch may hold up the next one but one."""

_NAP_AT_MOST_S = 0.25
"""How long one idle `latestOffset` may last: a query with several sources waits for each."""


class Consumer:
    """Leases messages into micro-batches and settles them when Spark has committed these."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        *,
        service: QueueService | None = None,
        make_workers: MakeWorkers = Workers,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store; nothing is sent before the first call.

        service, make_workers, clock, sleep: for tests that bring their own queues, threads, time.
        """
        self._config = config
        self._sleep = sleep
        self._account = config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """The offset of a query that has read nothing: the same in every run."""
        self._batches = Batches(self.initial)
        self._partitions: list[bytes] = []
        self._opened = False
        self._service = service or AzureQueues(config.account)
        self._holding = Holding(config, self._service, make_workers, clock)
        self._receiver = Receiver(
            self._service,
            config.queues,
            config.receive_parallelism,
            config.max_poll_interval,
            clock,
        )
        self._gatherer = Gatherer(
            config,
            columns,
            self._service,
            self._receiver,
            self._holding,
            make_workers(1, "ahead"),
        )
        self._most = config.max_messages
        self._backlog = Backlog(self._service, config.queues, clock)
        self._idle = False  # the last look found no message

    def open(self) -> datetime:
        """Check every queue (it exists, we may update in it) before anything is leased.

        Returns the service's time. Raises QueueNotFound, AccessDenied or ServiceError.
        """
        times = []
        for name in self._config.queues:
            times.append(self._check(name, create=self._config.create_queue))
        if not self._opened and self._config.uses_poison_queues:
            for name in {self._config.poison_queue_for(name) for name in self._config.queues}:
                self._check(name, create=True)
                CONTROL(self._service.queue(name).check_put)
        self._opened = True
        return min(times)

    def _check(self, name: str, *, create: bool) -> datetime:
        try:
            return CONTROL(self._service.queue(name).check)
        except QueueNotFound:
            if not create:
                raise
        create_queue(self._config.account, name)
        return CONTROL(self._service.queue(name).check)

    def only_what_is_there(self) -> None:
        """From now on read only messages inserted by now (the service's clock, whole seconds)."""
        self._gatherer.only_until(Cutoff(int(self.open().timestamp()) * 1_000_000))

    def latest(self, start: Mapping[str, Any] | None, most: int | None) -> OffsetJson:
        """Settle what is proven committed, then lease a new batch of at most `most` messages.

        start: the committed offset, None on Spark 4.0 and 4.1, which do not tell.
        Returns the new offset, or the start itself where there is nothing new.
        """
        if not self._opened:
            self.open()
        again = self._batches.repeated(start) if start else self._batches.bare_repeat()
        if again:
            return again
        proven = True
        if start is None:
            start, proven = self._batches.bare_start()
        number = batch_of(start, account=self._account) + 1
        if proven:
            self.committed(start)
        if not self._rested():
            return dict(start)
        limits = (self._config.max_messages, most)
        self._most = min(limit for limit in limits if limit is not None)
        self._holding.renewer.start()
        batch = self._gatherer.gather(number, self._most)
        self._idle = batch is None
        if batch is None:
            self._holding.wait(_DELETES_AT_MOST_S)  # an idle stream leaves an empty queue
            return dict(start)
        offset = QueueOffset(
            self._account, number, batch.leases, batch.oldest, batch.blobs
        ).to_json()
        self._partitions = batch.partitions
        self._batches.handed_out(start, offset)
        return offset

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> list[bytes]:
        """The partitions of the batch that ends at `end`; a replay where it is not of this run."""
        plan = self._batches.plan(start, end)
        if plan is Plan.NOTHING:
            return []
        if not self._opened:
            self.open()
        self.committed(start)
        if plan is Plan.REPLAY:
            self._replay(end)
            return []
        self._gatherer.look_ahead(self._most)
        return self._partitions

    def committed(self, offset: Mapping[str, Any]) -> None:
        """This offset is proven committed: settle it, unless that was done. Repeatable."""
        proof = self._batches.proven(offset)
        if proof is Proof.NOTHING:
            return
        number = batch_of(offset, account=self._account)
        if proof is Proof.SETTLE_OWN:
            self._holding.wait(_DELETES_AT_MOST_S)  # at most one batch's deletes are outstanding
            self._holding.committed(number)
            self._partitions = []
        elif self._config.delete_on_commit:
            restored = QueueOffset.from_json(offset, account=self._account)
            deleted = self._holding.settler.delete_restored(restored.leases)
            blobs = [restored.blobs[lease] for lease in deleted if lease in restored.blobs]
            self._holding.also_deleted(len(deleted), blobs)
        self._batches.settled(offset)

    def report(self) -> Report:
        """The backlog, what is held, and what this run has counted. Sends little, seldom."""
        return self._holding.report(self._backlog.newest(idle=self._idle) if self._opened else {})

    def close(self) -> None:
        """End renewals, finish deletes that are owed, give back what is in no batch: in seconds.

        Leases of the last returned offset are left alone: whether its batch was committed cannot be
        known here. They are found in the checkpoint by the next run, or run out.
        """
        self._holding.renewer.stop()
        self._gatherer.leave()
        try:
            self._holding.wait(LAST_WORDS_S)
        except Exception as error:  # noqa: BLE001 (nobody is left to handle it)
            log.warning("while stopping: %s", error)
        self._holding.close()
        self._service.close()

    def _rested(self) -> bool:
        """False where the queues were empty so lately that they are not to be asked again yet."""
        if self._gatherer.cutoff or self._gatherer.anything_waiting:
            return True
        pause = self._receiver.seconds_until_due()
        if pause:
            self._sleep(min(pause, _NAP_AT_MOST_S))
        return pause <= _NAP_AT_MOST_S

    def _replay(self, end: OffsetJson) -> None:
        """Make the messages of a batch that a crash left unfinished available again.

        Returns only when every receipt in it is known dead, so that no later process which finds
        this offset committed can delete messages whose rows were never given out.
        """
        offset = QueueOffset.from_json(end, account=self._account)
        missing = {lease.queue for lease in offset.leases} - set(self._config.queues)
        if missing:
            raise CheckpointMismatch(
                f"the checkpoint holds an unfinished batch with messages of {sorted(missing)},"
                " which option 'queue' does not name any more: add it until that batch is done"
            )
        released = self._holding.settler.release(offset.leases)
        self._batches.replayed(end)
        self._gatherer.isolating = True
        if len(offset.leases) == 1:
            (alone,) = offset.leases
            self._gatherer.failed_alone.add((alone.queue, alone.message_id))
        if self._gatherer.cutoff:
            self._gatherer.cutoff.released(
                (lease.queue, lease.message_id) for lease in offset.leases
            )
        log.info("batch %d is replayed: %d messages released", offset.batch, released)
