"""What leases on the driver, with a log or without: the queues, what is leased, the next batch.

`leased.py` keeps leases in the offsets; `log/consumer.py` keeps messages in a write-ahead log.
Both drive this. Knows no pyspark.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import LAST_WORDS_S

from .backlog import Backlog, Isolation
from .batches.batch import Batch, BatchSize
from .batches.builder import BatchBuilder, Prefetch
from .batches.commits import CommitTracker
from .batches.poison import Suspects
from .batches.polling import Cutoff
from .batches.receiver import Receiver
from .columns import Columns
from .gathering import Drain, MinimumBatch
from .leases.holder import LeaseHolder
from .offsets import OffsetJson, QueueOffset
from .queues import Queues
from .runtime import DEFAULT, Runtime

log = logging.getLogger(__name__)

_DELETES_AT_MOST_S = 60.0
"""How long the deletes of one batch may hold up the next one but one."""

_CHECKS = 8
"""Most queues that are checked at once."""

_A_DAY_S = 86_400.0

_LAST_ANSWERS_S = 1.0
"""How long a process that ends waits for deletes, if releasing what was in no batch took long."""

_NAP_AT_MOST_S = 0.25
"""How long one idle `latestOffset` may last: a query with several sources waits for each."""


class DriverLeasing:
    """Leases messages, builds batches of them, and holds and settles them. Used by one thread."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        runtime: Runtime = DEFAULT,
        *,
        fingerprint: Callable[[str], int] = hash,
        suspects: Suspects | None = None,
    ) -> None:
        """Store; nothing is sent before the first call.

        fingerprint: tells a message's text from an updated one; `hash` does within one process.
        suspects: which messages may be poison, if the option `maxDequeueCount` alone does not say.
        """
        self.config = config
        clock, make_workers = runtime.clock, runtime.make_workers
        self._runtime = runtime
        self.service_is_ahead = 0.0
        """The service's clock, minus ours, in seconds; known after `open`."""
        self._is_open = False
        self._client = runtime.client or QueueClient(config.account)
        self.holder = LeaseHolder(config, self._client, make_workers, clock, fingerprint)
        self._queues = Queues(config, self._client, make_workers(_CHECKS, "check").submit, clock)
        self._receiver = Receiver(
            self._client,
            self._queues.now,
            config.receive_parallelism,
            config.max_poll_interval,
            clock,
            config.queue_priority,
            self._queues.vanished,
        )
        isolation = Isolation(config.isolation_level, clock)
        self.builder = BatchBuilder(
            config,
            columns,
            self._client,
            self._receiver,
            self.holder,
            suspects or Suspects(config.max_dequeue_count),
            Prefetch(int(config.dequeue_ahead), make_workers(1, "prefetch"), clock),
            isolation,
        )
        self._gathering = MinimumBatch(
            config, self._client, self._queues.vanished, self._held, isolation, clock
        )
        self._size = BatchSize(config.max_messages, config.min_messages)
        self._limit: int | None = None  # Spark's own
        self._built_for = self._size.most  # how many messages the newest batch might have had
        self._backlog = Backlog(self._client, config.queues, clock, with_heads=True)
        self._poison = Backlog(self._client, config.poison_queues_of(config.queues), clock)
        self._drain = Drain(
            self.builder, self.holder, self._backlog, isolation, clock, runtime.sleep
        )
        self._is_idle = False  # the last look found no message
        self.is_limited = False
        """True if this run reads what was there at a time, in the queues of then."""

    def open(self) -> None:
        """Find the queues and check each, once, before anything is leased; see `Queues.open`.

        Raises QueueNotFound, AccessDenied, ServiceError or InvalidOption.
        """
        if not self._is_open:
            self._check()

    def only_what_is_there(self) -> None:
        """From now on read only messages inserted by now (the service's clock, whole seconds)."""
        self.builder.only_until(Cutoff(int(self._check().timestamp()) * 1_000_000))
        self.is_limited = True
        self._gathering.stop()

    def is_due(self) -> bool:
        """False if the queues were empty so lately that it is too early to ask them again.

        Or too few messages wait, see `MinimumBatch`. Raises ServiceError then, as `next_batch`
        does.
        """
        if self.builder.has_work:
            return True
        if self._queues_are_due:  # no prefetch reads from those of before
            self._look_for_queues()
        pause = max(self._receiver.seconds_until_due(), self._gathering.seconds_until_due())
        if pause:
            self._runtime.sleep(min(pause, _NAP_AT_MOST_S))
        return pause <= _NAP_AT_MOST_S and self._gathering.has_enough(self._queues.now)

    def has_given(self, messages: int) -> None:
        """Spark has got the newest batch, of so many messages."""
        self._gathering.given(messages)
        self._size.batch_began(messages, self._runtime.clock(), self._built_for)

    def is_asked(self, most: int | None) -> None:
        """Spark asks for the next batch of at most `most` messages, so the last one has ended."""
        self._limit = most
        self._size.batch_ended(self._runtime.clock())

    def next_batch(self, number: int) -> Batch | None:
        """Lease a batch; None if there are no messages now.

        Raises ServiceError or UndecodableBody; nothing stays leased then.
        """
        self.start_renewing()
        if self._queues_are_due:
            self.builder.catch_up()  # it reads from the queues of before
            self._look_for_queues()
        while (batch := self.builder.build(number, self._most)) is None:
            self.holder.wait(_DELETES_AT_MOST_S)  # an idle stream leaves an empty queue
            if not self.is_limited or self._drain.is_over(self._queues.now, self.service_is_ahead):
                break
        self._is_idle = batch is None
        if batch:
            self._built_for = batch.most
        return batch

    def replayed(self, leases: Sequence[Lease], leased_s: int) -> None:
        """A batch of an earlier run did not commit: these were released, if their receipts held.

        leased_s: for how long that run has leased or renewed them at most.
        """
        longest_s = max(leased_s, self.holder.lengths.longest_s())
        with self.holder.ledger as ledger:
            ledger.hide_until(self._runtime.clock() + longest_s)
        self.builder.replayed(leases)

    def may_be_hidden(self, messages: int, until: float) -> None:
        """So many messages, which an earlier process gave back, may be hidden until then."""
        self._drain.expect(messages, until)

    def prefetch(self, number: int = 0, use: Callable[[Batch], object] | None = None) -> None:
        """Begin to lease the next batch while Spark works on this one, if there is a backlog.

        use: batch `number` is built then, too, and `use` gets it in the background. Until
        `builder.wait_for_prefetch` returns, this thread leaves alone what `use` touches.
        """
        if not self._gathering.has_enough_left:
            return
        most = self._most

        def build() -> None:
            batch = self.builder.build_here(number, most)
            if batch and use:
                self._built_for = batch.most
                use(batch)

        self.builder.prefetch(most, build if use else None)

    def settle(self, number: int) -> None:
        """Begin the deletes of this batch, when those of the one before have ended."""
        self.holder.wait(_DELETES_AT_MOST_S)  # at most one batch's deletes are outstanding
        self.holder.committed(number)

    def forget_expired(self) -> None:
        """Forget owed deletes of messages that expired a day ago, by the service's clock."""
        with self.holder.ledger as ledger:
            ledger.forget_expired(self._runtime.clock() + self.service_is_ahead - _A_DAY_S)

    def start_renewing(self) -> None:
        """Renew in the background from now on. Raises RuntimeError if no thread can be started."""
        if self._runtime.renews:
            self.holder.worker.start()

    def report(self) -> Report:
        """The backlog, what is held, and what this run has counted. Sends little, seldom."""
        backlog, poison = {}, {}
        if self._is_open:
            backlog = self._backlog.newest(idle=self._is_idle)
            poison = self._poison.newest(idle=self._is_idle)
        with self.holder.ledger as ledger:
            held, remembered = ledger.held, ledger.remembered
            counters = replace(ledger.counts, throttled=self._client.throttled)
            delivered_in = ledger.delivered_in.as_dict()
        return Report(
            backlog,
            held,
            remembered,
            self.holder.lengths.visibility_s(),
            counters,
            poison=poison,
            expires=self.builder.expires,
            heads=dict(self._backlog.heads),
            delivered_in=delivered_in,
            requests=self._client.requests(),
        )

    def wait(self, timeout_s: float) -> None:
        """Wait for what goes on in the background: a prefetch, renewals, deletes.

        Raises what went wrong there.
        """
        self.builder.catch_up()
        self.holder.wait(timeout_s)

    def drain(self) -> bool:
        """End renewals, finish deletes that are due, release what is in no batch: in seconds.

        Returns False if a batch is still being built ahead.
        """
        self.holder.worker.stop()
        began = self._runtime.clock()
        has_ended = self.builder.leave()
        try:  # the deletes went on meanwhile
            self.holder.wait(max(LAST_WORDS_S - (self._runtime.clock() - began), _LAST_ANSWERS_S))
        except Exception as error:  # noqa: BLE001 (nobody is left to handle it)
            log.warning("while stopping: %s", error)
        return has_ended

    def close(self) -> None:
        """Close the connections."""
        self.holder.close()
        self._client.close()

    @property
    def _most(self) -> int:
        """The most messages in the next batch."""
        return self._size.most if self._limit is None else min(self._size.most, self._limit)

    @property
    def _queues_are_due(self) -> bool:
        return self._queues.seconds_until_due() == 0 and not self.is_limited

    def _held(self) -> int:
        with self.holder.ledger as ledger:
            return ledger.held

    def _look_for_queues(self) -> None:
        if self._queues.look_again():
            self._use_queues()

    def _use_queues(self) -> None:
        self._receiver.read_from(self._queues.now)
        self._backlog.count_in(self._queues.now)
        self._poison.count_in(self.config.poison_queues_of(self._queues.now))

    def _check(self) -> datetime:
        now = self._queues.open(poison_too=not self._is_open)
        self._use_queues()
        self.service_is_ahead = now.timestamp() - self._runtime.clock()
        self._is_open = True
        return now


class RestoredBatches:
    """What a new process does with such a batch when Spark asks for it, or has committed it."""

    def __init__(self, engine: DriverLeasing, commits: CommitTracker) -> None:
        self._engine = engine
        self._commits = commits
        self._account = engine.config.account.name

    def replay(self, end: OffsetJson) -> None:
        """Make the messages of a batch that a crash left unfinished available again.

        Returns only when every receipt in it is known dead, so that no later process which finds
        this offset committed can delete messages whose rows were never handed out.
        """
        offset = QueueOffset.from_json(end, account=self._account)
        names = self._engine.config.selection.not_read(each.queue for each in offset.leases)
        if names:
            raise CheckpointMismatch(
                f"the checkpoint holds an unfinished batch with messages of {names},"
                " which option 'queue' does not name any more: add it until that batch is done"
            )
        released = self._engine.holder.worker.release(offset.leases)
        self._commits.replayed(end)
        self._engine.replayed(offset.leases, offset.leased_s)
        log.info("batch %d is replayed: %d messages released", offset.batch, released)

    def settle(self, offset: Mapping[str, Any]) -> None:
        """This batch is committed: delete its messages with exactly the receipts in the offset.

        Not if it was handed out with deleteOnCommit=false: then they are the user's. And not in a
        queue that this query does not read: what a checkpoint says steers no request elsewhere.
        """
        restored = QueueOffset.from_json(offset, account=self._account)
        if not (self._engine.config.delete_on_commit and restored.is_deleted_on_commit):
            return
        names = self._engine.config.selection.not_read(each.queue for each in restored.leases)
        if names:
            log.warning(
                "the last batch of the checkpoint has messages of %s, which option 'queue' does not"
                " name any more: what is left of them there is not deleted. Does this checkpoint"
                " belong to another query?",
                names,
            )
        leases = [lease for lease in restored.leases if lease.queue.name not in names]
        self._engine.holder.settle_restored(leases, restored.blobs)
