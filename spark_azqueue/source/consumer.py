"""The driver-side half of the source: what happens at each of Spark's calls, in order.

One instance lives for a whole query run; Spark calls it from one thread. Decisions are made in
`batches/commits.py` and `leases/ledger.py`; `batches/builder.py` and `leases/holder.py` carry them
out. Knows no pyspark: `readers.py` translates.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import AzureQueueClient, QueueClient
from spark_azqueue.service.retry import LAST_WORDS_S
from spark_azqueue.service.workers import Workers

from .backlog import Backlog
from .batches.available_now import Cutoff
from .batches.builder import BatchBuilder
from .batches.commits import CommitTracker, Plan, Proof
from .batches.look_ahead import LookAhead
from .batches.poison import Suspects
from .batches.receiver import Receiver
from .batches.store import BatchStore, MemoryStore
from .columns import Columns
from .leases.holder import LeaseHolder, MakeWorkers
from .offsets import OffsetJson, QueueOffset, batch_of
from .preflight import check_queues

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
        client: QueueClient | None = None,
        store: BatchStore | None = None,
        renews: bool = True,
        make_workers: MakeWorkers = Workers,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Store; nothing is sent before the first call.

        client: the queues, if not those of the account. store: keeps the rows of batches, in memory
        if None. renews: False leaves renewals to calls of `renew_due`. make_workers, clock, sleep:
        for tests that bring their own threads and time.
        """
        self._config = config
        self._sleep = sleep
        self._account = config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """The offset of a query that has read nothing: the same in every run."""
        self._commits = CommitTracker(self.initial)
        self._store = store or MemoryStore()
        self._opened = False
        self._renews = renews
        self._client = client or AzureQueueClient(config.account)
        self._holder = LeaseHolder(config, self._client, make_workers, clock)
        self._receiver = Receiver(
            self._client,
            config.queues,
            config.receive_parallelism,
            config.max_poll_interval,
            clock,
        )
        self._builder = BatchBuilder(
            config,
            columns,
            self._client,
            self._receiver,
            self._holder,
            Suspects(config.max_dequeue_count),
            LookAhead(int(config.dequeue_ahead), make_workers(1, "ahead"), clock),
        )
        self._most = config.max_messages
        self._backlog = Backlog(self._client, config.queues, clock)
        self._idle = False  # the last look found no message

    def open(self) -> datetime:
        """Check every queue (it exists, we may update in it) before anything is leased.

        Returns the service's time. Raises QueueNotFound, AccessDenied or ServiceError.
        """
        now = check_queues(self._config, self._client, poison_too=not self._opened)
        self._opened = True
        return now

    def only_what_is_there(self) -> None:
        """From now on read only messages inserted by now (the service's clock, whole seconds)."""
        self._builder.only_until(Cutoff(int(self.open().timestamp()) * 1_000_000))

    def latest(self, start: Mapping[str, Any] | None, most: int | None) -> OffsetJson:
        """Settle what is proven committed, then lease a new batch of at most `most` messages.

        start: the committed offset, None on Spark 4.0 and 4.1, which do not tell.
        Returns the new offset, or the start itself where there is nothing new.
        """
        if not self._opened:
            self.open()
        again = self._commits.repeated(start) if start else self._commits.bare_repeat()
        if again:
            return again
        proven = True
        if start is None:
            start, proven = self._commits.bare_start()
        number = batch_of(start, account=self._account) + 1
        if proven:
            self.committed(start)
        if not self._rested():
            return dict(start)
        limits = (self._config.max_messages, most)
        self._most = min(limit for limit in limits if limit is not None)
        if self._renews:
            self._holder.start()
        batch = self._builder.build(number, self._most)
        self._idle = batch is None
        if batch is None:
            self._holder.wait(_DELETES_AT_MOST_S)  # an idle stream leaves an empty queue
            return dict(start)
        offset = QueueOffset(
            self._account, number, batch.leases, batch.oldest, batch.blobs
        ).to_json()
        self._store.keep(offset, batch.partitions)
        self._commits.handed_out(start, offset)
        return offset

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> list[bytes]:
        """The partitions of the batch that ends at `end`; a replay where it is not of this run."""
        plan = self._commits.plan(start, end)
        if plan is Plan.NOTHING:
            return []
        if not self._opened:
            self.open()
        self.committed(start)
        if plan is Plan.REPLAY:
            self._replay(end)
            return []
        self._builder.look_ahead(self._most)
        partitions = self._store.find(end)
        assert partitions is not None, "what was handed out is kept until it is committed"
        return partitions

    def committed(self, offset: Mapping[str, Any]) -> None:
        """This offset is proven committed: settle it, unless that was done. Repeatable."""
        proof = self._commits.proven(offset)
        if proof is Proof.NOTHING:
            return
        number = batch_of(offset, account=self._account)
        if proof is Proof.SETTLE_OWN:
            self._holder.wait(_DELETES_AT_MOST_S)  # at most one batch's deletes are outstanding
            self._holder.committed(number)
            self._store.drop(offset)
        elif self._config.delete_on_commit:
            restored = QueueOffset.from_json(offset, account=self._account)
            self._holder.settle_restored(restored.leases, restored.blobs)
        self._commits.settled(offset)

    def report(self) -> Report:
        """The backlog, what is held, and what this run has counted. Sends little, seldom."""
        return self._holder.report(self._backlog.newest(idle=self._idle) if self._opened else {})

    def renew_due(self) -> int:
        """Renew the leases that are due now, as the background thread does; returns how many."""
        return self._holder.renew_due()

    def keeps(self, lease: Lease) -> bool:
        """True if this message is in hand, and its lease is renewed when that is due."""
        return self._holder.keeps(lease)

    def wait(self, timeout_s: float) -> None:
        """Wait for what goes on in the background: a look ahead, renewals, deletes.

        Raises what went wrong there.
        """
        self._builder.catch_up()
        self._holder.wait(timeout_s)

    def close(self) -> None:
        """End renewals, finish deletes that are owed, give back what is in no batch: in seconds.

        Leases of the last returned offset are left alone: whether its batch was committed cannot be
        known here. They are found in the checkpoint by the next run, or run out.
        """
        self._holder.stop()
        self._builder.leave()
        try:
            self._holder.wait(LAST_WORDS_S)
        except Exception as error:  # noqa: BLE001 (nobody is left to handle it)
            log.warning("while stopping: %s", error)
        self._holder.close()
        self._client.close()

    def _rested(self) -> bool:
        """False where the queues were empty so lately that they are not to be asked again yet."""
        if self._builder.has_work:
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
            names = sorted(queue.name for queue in missing)
            raise CheckpointMismatch(
                f"the checkpoint holds an unfinished batch with messages of {names},"
                " which option 'queue' does not name any more: add it until that batch is done"
            )
        released = self._holder.release(offset.leases)
        self._commits.replayed(end)
        self._builder.replayed(offset.leases)
        log.info("batch %d is replayed: %d messages released", offset.batch, released)
