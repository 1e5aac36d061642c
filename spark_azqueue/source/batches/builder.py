"""Builds a micro-batch: leases messages, chooses and decodes the batch's messages, and cuts
partitions.

The builder keeps *waiting messages*: messages that are leased, but are in no batch yet. The rows of
the next batch may be made in advance. If a batch cannot be built, all waiting messages are
released.

This module is not thread-safe. A prefetch runs in a background thread, and the other methods wait
until the prefetch has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease, Message, MessageKey, Received
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import Submits

from ..columns import Columns
from ..dead_letters import (
    DecodingRecord,
    copy_to_poison_queue,
    dead_lettered,
    rows_and_reasons,
    was_moved,
)
from ..intake.backlog import Isolation
from ..intake.polling import Cutoff
from ..leases.holder import LeaseHolder
from ..leases.timing import SHORTEST_S, Term
from ..rows import Row, is_to_come_again
from .batch import Batch, BatchRows, fitting
from .poison import Suspects
from .receiver import Receiver


class Prefetch:
    """Dequeues messages for the next `batches` batches in the background. Used by one thread.

    At most one prefetch runs at a time. clock: returns the time of leases in seconds.
    """

    def __init__(self, batches: int, workers: Submits, clock: Callable[[], float]) -> None:
        self._batches = batches
        self._workers = workers
        self._clock = clock
        self._future: Future[None] | None = None
        self._since: float | None = None

    @property
    def under_way(self) -> bool:
        """True after `begin`, until `catch_up` returns."""
        return self._future is not None

    def begin(self, lease: Callable[[int], None], most: int) -> None:
        """Call `lease` in the background with the number of messages to dequeue.

        This number is `most` for each batch of the prefetch.
        """
        if self._batches and self._future is None:
            self._since = self._clock()
            self._future = self._workers.submit(lease, self._batches * most)

    def catch_up(self) -> None:
        """Wait until the running prefetch has ended. Raises the prefetch's error, if any."""
        if self._future:
            wait([self._future])
            future, self._future = self._future, None
            future.result()

    def began(self) -> float:
        """Return the time at which leasing of the next batch began.

        The first call after a prefetch returns the start of the prefetch. Other calls return the
        current time.
        """
        since, self._since = self._since, None
        return self._clock() if since is None else since

    def has_ended(self, timeout_s: float | None = None) -> bool:
        """Wait at most `timeout_s` seconds until the prefetch has ended.

        Return False if the prefetch still runs.

        `catch_up` raises the prefetch's error, if any.
        """
        return not self._future or not wait([self._future], timeout=timeout_s).not_done


_LAST_PAGES_S = 1.0
"""Longest wait, in seconds, of a stopping process for the pages of a running prefetch."""


class BatchBuilder:
    """Builds the micro-batches of one query."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        client: QueueClient,
        receiver: Receiver,
        holder: LeaseHolder,
        suspects: Suspects,
        prefetch: Prefetch,
        isolation: Isolation,
        clock: Callable[[], float],
    ) -> None:
        """clock: returns the time of leases in seconds."""
        self._config = config
        self._columns = columns
        self._client = client
        self._receiver = receiver
        self._holder = holder
        self._suspects = suspects
        self._prefetch = prefetch
        self._isolation = isolation
        self._clock = clock
        self._waiting: dict[MessageKey, Message] = {}
        self._ahead: BatchRows | None = None  # next batch, made early; not in `_waiting`
        self._unwanted: dict[MessageKey, Lease] = {}  # to release after this pass over the queues
        self._backlog = False  # True if the last pass ended because enough messages were leased
        self._leaving = False
        self._cutoff: Cutoff | None = None
        self._decoding = DecodingRecord(config)
        self.expires: int | None = None
        """Earliest expiry of a message in the newest batch, in seconds since 1970. None if no
        message expires."""

    def only_until(self, cutoff: Cutoff) -> None:
        """From now on, deliver only messages that this availableNow run has to deliver."""
        self._cutoff = cutoff
        with self._holder.locked_ledger as ledger:
            ledger.track_handed_out()

    @property
    def has_work(self) -> bool:
        """Return True if the next batch may begin even if no queue is due.

        This is the case if there are waiting messages, if a prefetch runs, and in an availableNow
        run.
        """
        waits = self._ahead is not None or bool(self._waiting)
        return self._cutoff is not None or self._prefetch.under_way or waits

    @property
    def suspects(self) -> Suspects:
        """The suspects of this query."""
        return self._suspects

    @property
    def awaited(self) -> frozenset[MessageKey]:
        """Keys of messages that this availableNow run has released and has not received again
        yet."""
        return self._cutoff.awaited if self._cutoff else frozenset()

    def come_again(self, leases: Sequence[Lease]) -> None:
        """Record that these messages were released. An availableNow run waits for them."""
        if self._cutoff:
            self._cutoff.released(lease.key for lease in leases)

    def build(self, number: int, most: int) -> Batch | None:
        """Build batch `number` of up to `most` messages. Return None if there are no messages.

        Raises ServiceError, or UndecodableBody with onUndecodable=fail. Before an error is raised,
        all waiting messages are released, if the service can be reached.
        """
        self.catch_up()
        return self.build_here(number, most)

    def build_here(self, number: int, most: int) -> Batch | None:
        """Build a batch like `build`, but in the prefetch's thread."""
        self._receiver.begin(number, most)
        try:
            since = self._prefetch.began()
            rows = self._made_ahead(most) or self._make_rows(most)
        except BaseException:
            self.release_waiting()
            raise
        if rows is None:
            return None
        leases = self._holder.hand_out(rows.received, number, since, rows.blobs)
        is_suspect = self._suspects.are_compared(message for message, _ in rows.received)
        batch = rows.batch(leases, suspect=is_suspect)
        self.expires = batch.expires
        return batch

    def prefetch(self, most: int, then: Callable[[], None] | None = None) -> None:
        """If there is a backlog, begin to lease the next batch while Spark processes the current
        batch.

        then: called in the prefetch's thread after the messages are leased. By default, the rows of
        the next batch are made in advance if the batch is full. With deleteOnCommit=false, rows
        contain receipts, which may become stale, so rows are not made in advance.
        """

        def fetch(messages: int) -> None:
            self._lease(messages)
            if then:
                then()
            elif self._backlog and self._config.delete_on_commit:
                self._ahead = self._make_rows(most)

        # After a crash, no process releases the messages that were leased in advance. So with long
        # leases, do not prefetch.
        is_short = (
            self._config.delete_on_commit or self._holder.lengths.visibility_s() <= SHORTEST_S
        )
        is_needed = self._backlog and self._ahead is None
        if is_needed and is_short and not self._suspects.isolating:
            self._prefetch.begin(fetch, most)

    def catch_up(self) -> None:
        """Wait until the running prefetch has ended.

        If the prefetch failed, release waiting messages, and raise the prefetch's error.
        """
        try:
            self._prefetch.catch_up()
        except BaseException:
            self.release_waiting()
            raise

    def wait_for_prefetch(self) -> None:
        """Wait until the running prefetch has ended. Does not raise the prefetch's error;
        `catch_up` does."""
        self._prefetch.has_ended()

    def leave(self) -> bool:
        """Stop leasing, and release all waiting messages. Takes some seconds.

        Returns False if the prefetch still runs.
        """
        self._leaving = True
        has_ended = self._prefetch.has_ended(_LAST_PAGES_S)
        self.release_waiting()
        return has_ended

    def release_waiting(self) -> None:
        """Release all waiting messages. Takes a few seconds. Never raises."""
        self._waiting.clear()
        self._ahead = None
        leases = [*self._unwanted.values()]
        leases += self._receiver.take_orphans()
        self._unwanted.clear()
        self._holder.release_waiting(leases)

    def _made_ahead(self, most: int) -> BatchRows | None:
        """Return the rows that were made in advance, or None if the next batch cannot use these
        rows."""
        rows, self._ahead = self._ahead, None
        if rows is None or (len(rows.received) <= most and not self._suspects.isolating):
            return rows
        self._waiting = {message.key: message for message, _ in rows.received} | self._waiting
        return None

    def _make_rows(self, most: int) -> BatchRows | None:
        """Lease messages and make the rows of one batch. Return None if there are no messages."""
        rows: list[Row] = []
        while not rows:
            comes_again = self._lease(most)
            if self._suspects.isolating and not self._leaving and self._set_poison_aside():
                continue
            if self._leaving or not (self._waiting or comes_again):
                return None
            rows = self._next_rows(most)
        return BatchRows.of(
            rows,
            self._columns,
            most,
            self._config.messages_per_partition,
            deleted_by_user=not self._config.delete_on_commit,
            is_logged=self._config.write_ahead_log is not None,
        )

    def _lease(self, most: int) -> bool:
        """Dequeue until there are enough waiting messages.

        Messages that no batch of this run may contain are released.

        Returns True if a damaged message was released and must be dequeued again; see
        `is_to_come_again`.
        """
        size = sum(message.size for message in self._waiting.values())
        cutoff = self._cutoff
        comes_again = False
        if cutoff:
            cutoff.begin_look()

        def room() -> int:
            is_full = cutoff and self._is_full(cutoff)
            if self._leaving or is_full or size >= self._config.max_bytes:
                return 0
            return self._room(most)

        visibility = self._holder.lengths.visibility_s()
        for page in self._receiver.look(visibility, room, read=cutoff.read if cutoff else None):
            term = Term.of(page.sent_at, visibility)
            left = 0
            for message, lease in page.received:
                key = lease.key
                is_wanted = not cutoff or cutoff.wants(message)
                if self._isolation.may_be_abandoned(message, page.answered_at) and self._leave(key):
                    left += 1
                    continue
                if is_wanted and is_to_come_again(message, self._config.on_undecodable):
                    self.come_again([lease])
                    is_wanted, comes_again = False, True
                if not is_wanted:
                    self._unwanted[key] = lease
                    continue
                if not self._holder.dequeued(message, lease, term):
                    continue
                # The message may already be in `_waiting`, with an older text and a stale receipt.
                if older := self._waiting.pop(key, None):
                    size -= older.size
                if cutoff and self._came_again(lease):
                    self._unwanted[key] = lease
                else:
                    self._waiting[key] = message
                    size += message.size
            self._isolation.left(left)
        self._backlog = size >= self._config.max_bytes or self._room(most) <= 0
        if self._unwanted:
            self._holder.worker.release(list(self._unwanted.values()))
            self._unwanted.clear()
        return comes_again

    def _set_poison_aside(self) -> bool:
        """Dead-letter the poison messages among the waiting messages. Return False if there are
        none."""
        found = [each for each in self._waiting.values() if self._suspects.is_poison(each.key)]
        for message in found:
            copy_to_poison_queue(
                self._config, self._client, message, self._suspects.why(message.key)
            )
            self._holder.set_aside(message)
            self._suspects.moved(message.key)
            del self._waiting[message.key]
        return bool(found)

    def _leave(self, key: MessageKey) -> bool:
        """Leave this message leased until it expires. Return False, and do nothing, if the ledger
        has it."""
        with self._holder.locked_ledger as ledger:
            return ledger.left_to_expire(key)

    def _came_again(self, lease: Lease) -> bool:
        """If this run has already delivered the message, remove it from the ledger and return
        True."""
        with self._holder.locked_ledger as ledger:
            was_handed_out = ledger.was_handed_out(lease)
            if was_handed_out:
                ledger.drop(lease)
        return was_handed_out

    def _is_full(self, cutoff: Cutoff) -> bool:
        with self._holder.locked_ledger as ledger:
            return cutoff.is_full(ledger.handed_out)

    def _room(self, most: int) -> int:
        """Return the number of further messages that the next batch could use."""
        return self._suspects.room(self._waiting.values(), most)

    def _next_rows(self, most: int) -> list[Row]:
        """Take waiting messages for the next batch. Undecodable messages are dead-lettered."""
        waiting = list(self._waiting.values())
        chosen: Sequence[Message] = self._suspects.choose(waiting, most)
        if self._config.write_ahead_log:  # the size of a segment is limited
            chosen = fitting(chosen, self._config.max_bytes)
        with self._holder.locked_ledger as ledger:
            leases = ledger.leases(chosen)
        received = map(Received, chosen, leases)
        rows, reasons = rows_and_reasons(received, self._config, self._decoding)
        # Leases are renewed during this call. Messages that cannot be dead-lettered in time stay
        # waiting messages.
        within_s = max(self._holder.lengths.visibility_s(), SHORTEST_S) / 2
        for message in dead_lettered(self._config, self._client, reasons, within_s, self._clock):
            self._holder.set_aside(message)
            self._decoding.add(undecodable=1)
            del self._waiting[message.key]
        for row in rows:
            del self._waiting[row.message.key]
        return rows

    def was_moved(self, message: Message, reason: str) -> bool:
        """Copy a message to its poison queue; see `dead_letters.was_moved`."""
        return was_moved(self._config, self._client, message, reason)
