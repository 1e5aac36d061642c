"""The driver-side half of the source: what happens at each of Spark's calls, in order.

One instance lives for a whole query run; Spark calls it from one thread. Decisions are made in
`batches/commits.py` and `leases/ledger.py`; `engine.py` carries them out. Knows no pyspark:
`readers.py` translates. With a write-ahead log, `log/consumer.py` takes the place of this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import Workers

from .batches.commits import Plan, Proof
from .batches.store import BatchStore, MemoryStore
from .columns import Columns
from .engine import Engine
from .leases.holder import MakeWorkers
from .offsets import OffsetJson, QueueOffset, batch_of
from .stream_consumer import StreamConsumer


class Consumer(StreamConsumer):
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

        store: keeps the rows of batches, in memory if None. The others: see `Engine`.
        """
        engine = Engine(
            config,
            columns,
            client=client,
            renews=renews,
            make_workers=make_workers,
            clock=clock,
            sleep=sleep,
        )
        super().__init__(engine)
        self._store = store or MemoryStore()

    def open(self) -> None:
        """Check every queue, once, before anything is leased.

        Raises QueueNotFound, AccessDenied or ServiceError.
        """
        self._engine.open()

    def latest(self, start: Mapping[str, Any] | None, most: int | None) -> OffsetJson:
        """Settle what is proven committed, then lease a new batch of at most `most` messages.

        start: the committed offset, None on Spark 4.0 and 4.1, which do not tell.
        Returns the new offset, or the start itself if there is nothing new.
        """
        self.open()
        again = self._commits.repeated(start) if start else self._commits.bare_repeat()
        if again:
            return again
        proven = True
        if start is None:
            start, proven = self._commits.bare_start()
        self._engine.is_asked(most)
        number = batch_of(start, account=self._account) + 1
        if proven:
            self.committed(start)
        if not self._engine.is_due():
            return dict(start)
        batch = self._engine.next_batch(number)
        if batch is None:
            return dict(start)
        offset = QueueOffset(
            self._account,
            number,
            batch.leases,
            batch.oldest,
            batch.blobs,
            self._engine.config.delete_on_commit,
            self._engine.holder.lengths.unusual_s(),
        ).to_json()
        self._store.keep(offset, batch.partitions)
        self._commits.handed_out(start, offset)
        self._engine.has_given(len(batch.messages))
        return offset

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> list[bytes]:
        """The partitions of the batch that ends at `end`; a replay if it is not of this run."""
        plan = self._commits.plan(start, end)
        if plan is Plan.NOTHING:
            return []
        self.open()
        self.committed(start)
        if plan is Plan.REPLAY:
            self._restored.replay(end)
            return []
        self._engine.look_ahead()
        partitions = self._store.find(end)
        assert partitions is not None, "what was handed out is kept until it is committed"
        return partitions

    def committed(self, offset: Mapping[str, Any]) -> None:
        """This offset is proven committed: settle it, unless that was done. Repeatable."""
        proof = self._commits.proven(offset)
        if proof is Proof.NOTHING:
            return
        if proof is Proof.SETTLE_OWN:
            self._engine.settle(batch_of(offset, account=self._account))
            self._store.drop(offset)
        else:
            self._restored.settle(offset)
        self._commits.settled(offset)

    def close(self) -> None:
        """End renewals, finish deletes that are owed, give back what is in no batch: in seconds.

        Leases of the last returned offset are left alone: whether its batch was committed cannot be
        known here. They are found in the checkpoint by the next run, or run out.
        """
        self._engine.drain()
        self._engine.close()
