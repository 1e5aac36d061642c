"""Leasing on the driver, with or without a log: finds queues, holds leases, and builds batches.

`leased.py` stores leases in the offsets, and `log/consumer.py` stores messages in a write-ahead
log. Both consumers call this module. This module does not import pyspark.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.metrics.latency import added
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.last_failure import found
from spark_azqueue.service.messages import Lease, MessageKey
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import LAST_WORDS_S

from ..batches.batch import Batch, BatchSize
from ..batches.builder import BatchBuilder, Prefetch
from ..batches.commits import CommitTracker
from ..batches.poison import Suspects
from ..batches.receiver import Receiver
from ..columns import Columns
from ..intake.ending import HiddenWait
from ..intake.monitor import QueueMonitor
from ..intake.polling import Cutoff
from ..leases.holder import LeaseHolder
from ..offsets import OffsetJson, QueueOffset
from ..refusals import queues_of_unfinished
from ..runtime import DEFAULT, Runtime
from ..suspects import IsolationRule

log = logging.getLogger(__name__)

_DELETES_AT_MOST_S = 60.0
"""Longest wait, in seconds, for the deletes of one batch before the deletes of the next batch
begin."""

_A_DAY_S = 86_400.0

_LAST_ANSWERS_S = 1.0
"""A process that stops waits for deletes at least this many seconds after it has released
messages."""


class Pending(NamedTuple):
    """Unconfirmed deletes of committed messages.

    hidden_until: time at which the last lease of these messages ends, in seconds since 1970 by the
    service's clock. remembered: keys of messages that probably still exist, because their delete
    was refused or failed.
    """

    deletes: tuple[PendingDelete, ...] = ()
    hidden_until: int = 0
    remembered: frozenset[MessageKey] = frozenset()


class DriverLeasing:
    """Leases messages, renews leases, builds batches, and settles batches. Used by one thread."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        runtime: Runtime = DEFAULT,
    ) -> None:
        """Store the arguments; nothing is sent before the first call."""
        self.config = config
        clock, make_workers = runtime.clock, runtime.make_workers
        self._runtime = runtime
        self.service_is_ahead = 0.0
        """Seconds by which the service's clock is ahead of the local clock; 0 before `open`."""
        self._client = runtime.client or QueueClient(config.account)
        self.holder = LeaseHolder(config, self._client, make_workers, clock)
        self._monitor = QueueMonitor(config, self._client, runtime, self._held)
        receiver = Receiver(
            self._client,
            self._monitor.queues,
            config.parallelism,
            config.max_poll_interval,
            clock,
            config.queue_priority,
            self._monitor.vanished,
        )
        self._monitor.used_by(receiver)
        self.suspects = Suspects(IsolationRule.of(config))
        """The suspects: messages of failed batches."""
        self.builder = BatchBuilder(
            config,
            columns,
            self._client,
            receiver,
            self.holder,
            self.suspects,
            Prefetch(int(config.dequeue_ahead), make_workers(1, "prefetch"), clock),
            self._monitor.isolation,
            clock,
        )
        self._size = BatchSize(config.max_messages, config.min_messages)
        self._limit: int | None = None  # Spark's limit of messages, if any
        self._built_for = self._size.most  # limit of messages of the newest batch
        self._drain = Drain(self.builder, self.holder, self._monitor, clock, runtime.sleep)
        self._is_idle = False  # True if the last pass found no message

    @property
    def is_limited(self) -> bool:
        """True if the run reads only messages and queues that existed at `freeze_cutoff`."""
        return self._monitor.is_limited

    def open(self) -> None:
        """Find the queues and check each queue, at the first call only; see `Queues.open`.

        Raises QueueNotFound, AccessDenied, ServiceError or InvalidOption.
        """
        if not self._monitor.is_open:
            self._check()

    def freeze_cutoff(self) -> None:
        """From now on, read only messages that were inserted before this call.

        The service's clock decides, in whole seconds.
        """
        self.builder.only_until(Cutoff(int(self._check().timestamp()) * 1_000_000))
        self._monitor.limit()

    def is_due(self, *, is_last: bool = False) -> bool:
        """Return True if a batch may begin: leased messages are in no batch yet, or
        `QueueMonitor.may_begin` is True.

        is_last: see `QueueMonitor.may_begin`. Raises ServiceError, as `next_batch` does.
        """
        if self.builder.has_work:
            return True
        if self._monitor.is_look_due:  # no prefetch uses the list of queues now
            self._monitor.look()
        return self._monitor.may_begin(is_last=is_last)

    def has_given(self, messages: int) -> None:
        """Record that Spark got the newest batch, which has this many messages."""
        self._monitor.minimum.given(messages)
        self._size.batch_began(messages, self._runtime.clock(), self._built_for)

    def is_asked(self, most: int | None) -> None:
        """Record that Spark requests a batch of at most this many messages. None means no limit.

        The request shows that the last batch has ended.
        """
        self._limit = most
        self._size.batch_ended(self._runtime.clock())

    def next_batch(self, number: int) -> Batch | None:
        """Lease a batch. Return None if there are no messages.

        Before it raises ServiceError or UndecodableBody, releases all messages that are in no
        batch.
        """
        self.start_renewing()
        if self._monitor.is_look_due:
            self.builder.catch_up()  # the prefetch uses the list of queues
            self._monitor.look()
        while (batch := self.builder.build(number, self._most)) is None:
            self.holder.wait(_DELETES_AT_MOST_S)  # so an idle stream leaves no undeleted message
            if not self.is_limited or self._drain.is_over(self.service_is_ahead):
                break
        self._is_idle = batch is None
        if batch:
            self._built_for = batch.most
        return batch

    def replayed(
        self, number: int, leases: Sequence[Lease], leased_s: int, error: str = ""
    ) -> None:
        """Record that a batch of an earlier run failed, and that this process has released its
        messages.

        A message whose receipt was stale could not be released, so it may still be leased.

        leased_s: longest lease or renewal of the earlier run, in seconds. error: the batch's error,
        or "" if unknown.
        """
        longest_s = max(leased_s, self.holder.lengths.longest_s())
        with self.holder.locked_ledger as ledger:
            ledger.hide_until(self._runtime.clock() + longest_s)
        self.suspects.batch_failed(number, [lease.key for lease in leases], error=error)
        self.builder.come_again(leases)

    def remember(self, pending: Sequence[PendingDelete], leased_s: int) -> None:
        """Record messages whose rows an earlier run committed, but whose delete was refused.

        leased_s: longest lease or renewal of the earlier run, in seconds.
        """
        longest_s = max(leased_s, self.holder.lengths.longest_s())
        self.holder.restore_pending(pending, self._runtime.clock() + longest_s)
        with self.holder.locked_ledger as ledger:
            ledger.counts.deletes_refused += len(pending)
        log.info(
            "the receipts of %d messages of the last batch are stale: they are deleted when they"
            " come back",
            len(pending),
        )

    def may_be_hidden(self, messages: int, until: float) -> None:
        """Record that an earlier process released messages that may be invisible until `until`."""
        self._drain.expect(messages, until)

    def prefetch(self, number: int = 0, use: Callable[[Batch], object] | None = None) -> None:
        """If there is a backlog, begin to lease the next batch while Spark works on the current
        batch.

        use: if given, batch `number` is built in the background as well, and `use` is called with
        this batch. Until `builder.wait_for_prefetch` returns, the caller must not access any state
        that `use` changes.
        """
        if not self._monitor.minimum.has_enough_left:
            return
        most = self._most

        def build() -> None:
            batch = self.builder.build_here(number, most)
            if batch and use:
                self._built_for = batch.most
                use(batch)

        self.builder.prefetch(most, build if use else None)

    def keys_of(self, number: int) -> list[MessageKey]:
        """Return the keys of the messages of an uncommitted batch."""
        with self.holder.locked_ledger as ledger:
            return ledger.keys_of(number)

    def settle(self, number: int) -> None:
        """Wait for the deletes of the previous batch, then begin to delete the messages of this
        batch."""
        self.holder.wait(_DELETES_AT_MOST_S)  # so the deletes of at most one batch are outstanding
        self.holder.committed(number)

    def forget_expired(self) -> None:
        """Evict pending deletes of messages that expired more than a day ago, by the service's
        clock."""
        with self.holder.locked_ledger as ledger:
            ledger.forget_expired(self._runtime.clock() + self.service_is_ahead - _A_DAY_S)

    def pending(self) -> Pending:
        """Return the unconfirmed deletes."""
        self.forget_expired()
        with self.holder.locked_ledger as ledger:
            deletes = tuple(PendingDelete(*each) for each in ledger.pending())
            hidden_until = ledger.hidden_until + self.service_is_ahead
            return Pending(deletes, max(0, math.ceil(hidden_until)), ledger.remembered_keys)

    def start_renewing(self) -> None:
        """Begin to renew leases in the background. Raises RuntimeError if no thread can start."""
        if self._runtime.renews:
            self.holder.worker.start()

    def report(self) -> Report:
        """Return the backlog, the held messages and this run's counters.

        Most calls send no request.
        """
        counted = self._monitor.counted(idle=self._is_idle)
        with self.holder.locked_ledger as ledger:
            held, remembered = ledger.held, ledger.remembered
            counters = replace(ledger.counts, throttled=self._client.throttled)
            delivered_by_queue = ledger.delivered_by_queue.as_dict()
        return Report(
            counted.backlog,
            held,
            remembered,
            self.holder.lengths.visibility_s(),
            counters,
            poison=counted.poison,
            expires=self.builder.expires,
            heads=counted.heads,
            delivered_by_queue=delivered_by_queue,
            requests=self._client.requests(),
            latencies=added(self._client.latencies(), self.holder.ages.latencies()),
            template=self.config.selection.template,
        )

    def wait(self, timeout_s: float) -> None:
        """Wait until the prefetch and the deletes in the background have ended.

        Raises their error, if any.
        """
        self.builder.catch_up()
        self.holder.wait(timeout_s)

    def drain(self) -> bool:
        """Stop renewing leases, finish due deletes, and release undelivered messages. Takes some
        seconds.

        Returns False if the prefetch still runs.
        """
        self.holder.worker.stop()
        began = self._runtime.clock()
        has_ended = self.builder.leave()
        try:  # deletes continued during `leave`, so its duration is subtracted
            self.holder.wait(max(LAST_WORDS_S - (self._runtime.clock() - began), _LAST_ANSWERS_S))
        except Exception as error:  # noqa: BLE001 (no caller is left to handle it)
            log.warning("while stopping: %s", error)
        return has_ended

    def close(self) -> None:
        """Close the connections."""
        self.holder.close()
        self._client.close()

    @property
    def _most(self) -> int:
        """Return the maximum number of messages in the next batch."""
        return self._size.most if self._limit is None else min(self._size.most, self._limit)

    def _held(self) -> int:
        with self.holder.locked_ledger as ledger:
            return ledger.held

    def _check(self) -> datetime:
        now = self._monitor.open()
        self.service_is_ahead = now.timestamp() - self._runtime.clock()
        self.holder.ages.service_is_ahead(self.service_is_ahead)
        return now


class RestoredBatches:
    """Handles batches of an earlier process that Spark requests again, or has committed."""

    def __init__(self, engine: DriverLeasing, commits: CommitTracker) -> None:
        self._engine, self._commits = engine, commits
        self._config, self._holder, self._suspects = engine.config, engine.holder, engine.suspects
        self._account = engine.config.account.name
        self.noted: frozenset[MessageKey] = frozenset()
        """Keys of messages with a pending delete in the newest offset."""

    def replay(self, end: OffsetJson) -> None:
        """Release the messages of an earlier run's batch, which a crash or a failure left
        unfinished.

        Returns only when all receipts in the offset are stale. If one receipt stayed valid, a later
        process that finds this offset committed could use it to delete a message whose row was
        never delivered.
        """
        offset = QueueOffset.from_json(end, account=self._account)
        names = self._config.selection.not_read(each.queue for each in offset.leases)
        if names:
            raise queues_of_unfinished(names)
        self._restore_pending(offset)
        released = self._holder.worker.release(offset.leases)
        self._commits.replayed(end)
        self._suspects.restore(offset.findings)
        self._engine.replayed(offset.batch, offset.leases, offset.leased_s, found(end))
        log.info("batch %d is replayed: %d messages released", offset.batch, released)

    def settle(self, offset: Mapping[str, Any]) -> None:
        """Delete the messages of a committed batch with only the receipts in its offset.

        If the batch was delivered with deleteOnCommit=false, the user deletes its messages. If this
        query does not read a message's queue, the message is not deleted, because the contents of a
        checkpoint must not cause requests to other queues.

        A replay makes all receipts stale. So if one delete succeeds, the batch was not replayed,
        and its rows were delivered. In this case, each message whose receipt is refused gets a
        pending delete.
        """
        restored = QueueOffset.from_json(offset, account=self._account)
        self._restore_pending(restored)
        suspects = self._suspects
        suspects.restore(restored.findings)
        if not (self._config.delete_on_commit and restored.is_deleted_on_commit):
            return
        names = self._config.selection.not_read(each.queue for each in restored.leases)
        if names:
            log.warning(
                "the last batch of the checkpoint has messages of %s, which option 'queue' does not"
                " name any more: what is left of them there is not deleted. Does this checkpoint"
                " belong to another query?",
                names,
            )
        leases = [lease for lease in restored.leases if lease.queue.name not in names]
        deleted = self._holder.settle_restored(leases, restored.blobs)
        keys = [lease.key for lease in restored.leases]
        if deleted:
            suspects.batch_committed(restored.batch, keys)
        else:  # the batch may have been replayed, so its commit proves nothing
            suspects.forget(keys)
        refused = [each for each in leases if each not in deleted and each in restored.texts]
        if deleted and refused:
            self._engine.remember(
                [
                    PendingDelete(each.key, restored.texts[each], restored.expires or 0)
                    for each in refused
                ],
                restored.leased_s,
            )

    def _restore_pending(self, offset: QueueOffset) -> None:
        """Restore the pending deletes of an offset in the checkpoint.

        The batches of these messages were committed before the offset was made. So it does not
        matter whether the batch of this offset is committed.
        """
        config = self._config
        names = config.selection.not_read(each.key.queue for each in offset.pending)
        pending = [each for each in offset.pending if each.key.queue.name not in names]
        if config.delete_on_commit and pending:
            self.noted |= {each.key for each in pending}
            until = offset.hidden_until - self._engine.service_is_ahead
            self._holder.restore_pending(pending, until)


class Drain:
    """Makes an availableNow run wait for invisible messages that the run has to deliver or
    delete."""

    def __init__(
        self,
        builder: BatchBuilder,
        holder: LeaseHolder,
        monitor: QueueMonitor,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """clock: returns the time of leases in seconds."""
        self._builder = builder
        self._holder = holder
        self._monitor = monitor
        self._wait = HiddenWait(monitor, sleep)
        self._clock = clock
        self._given_back = (0, 0.0)

    def expect(self, messages: int, until: float) -> None:
        """Record that an earlier process released messages that may be invisible until `until`."""
        self._given_back = (messages, until)
        with self._holder.locked_ledger as ledger:
            ledger.hide_until(until)

    def is_over(self, service_is_ahead: float) -> bool:
        """Return True if no message that this run needs is invisible. Otherwise wait, and return
        False.

        Each call waits for some seconds. Raises NotDrained if the run would have to wait too long.

        service_is_ahead: the service's time minus the local time, in seconds.
        """
        awaited = self._builder.awaited
        with self._holder.locked_ledger as ledger:
            until = ledger.hidden_until
            known = awaited.union(key for key, _, _ in ledger.pending())
        left = until - self._clock()
        messages, given_back_until = self._given_back
        count = len(known) + (messages if given_back_until > self._clock() else 0)
        if not count or left <= 0:
            if awaited:  # expired, deleted, or leased by another consumer
                log.warning("%d messages of a failed batch did not return", len(awaited))
            return True
        names = {key.queue.name for key in known}
        if count > len(known):
            names |= {queue.name for queue in self._monitor.queues}
        what = f"{count} messages may be hidden by leases of an earlier process"
        expires_in = self._monitor.isolation.until - self._clock()
        if self._wait.has_waited:
            expires_in = 0.0
        return self._wait.is_over(what, left, until + service_is_ahead, names, expires_in)
