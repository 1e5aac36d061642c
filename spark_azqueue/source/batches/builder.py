"""Building of a micro-batch: lease messages, decide about each, decode them, cut partitions.

Messages that are leased ahead, or kept for later batches, wait here. The rows of the next batch may
be made ahead, too. If a batch cannot be built, every message that is in no batch yet is released.
Not thread-safe: a prefetch runs in a background thread, and the other methods wait for its end.
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
    """Prefetch of up to `batches` batches; at most one is under way. Used by one thread.

    clock: the clock of leases, in seconds.
    """

    def __init__(self, batches: int, workers: Submits, clock: Callable[[], float]) -> None:
        self._batches = batches
        self._workers = workers
        self._clock = clock
        self._future: Future[None] | None = None
        self._since: float | None = None

    @property
    def under_way(self) -> bool:
        """True from `begin` until `catch_up` has waited for the prefetch."""
        return self._future is not None

    def begin(self, lease: Callable[[int], None], most: int) -> None:
        """Run lease(n) in the background. n: the messages of all batches, at `most` per batch."""
        if self._batches and self._future is None:
            self._since = self._clock()
            self._future = self._workers.submit(lease, self._batches * most)

    def catch_up(self) -> None:
        """Wait for the prefetch under way. Raises the prefetch's error, if any."""
        if self._future:
            wait([self._future])
            future, self._future = self._future, None
            future.result()

    def began(self) -> float:
        """Return when leasing the next batch began: once, the last prefetch's start; else now."""
        since, self._since = self._since, None
        return self._clock() if since is None else since

    def has_ended(self, timeout_s: float | None = None) -> bool:
        """Wait at most `timeout_s` seconds for the prefetch. Return False if it still runs.

        `catch_up` raises the prefetch's error, if any.
        """
        return not self._future or not wait([self._future], timeout=timeout_s).not_done


_LAST_PAGES_S = 1.0
"""Longest wait of an ending process for the pages of a prefetch under way."""


class BatchBuilder:
    """Builds one batch after another."""

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
        """clock: the clock of leases, in seconds."""
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
        self._ahead: BatchRows | None = None  # rows of the next batch; not in `_waiting`
        self._unwanted: dict[MessageKey, Lease] = {}  # to be released after the look
        self._backlog = False  # the last look ended because it had enough
        self._leaving = False
        self._cutoff: Cutoff | None = None
        self._decoding = DecodingRecord(config)
        self.expires: int | None = None
        """Earliest expiry in the newest batch, seconds since 1970; None if nothing expires."""

    def only_until(self, cutoff: Cutoff) -> None:
        """Put only messages into batches that this availableNow run wants, from now on."""
        self._cutoff = cutoff
        with self._holder.locked_ledger as ledger:
            ledger.track_handed_out()

    @property
    def has_work(self) -> bool:
        """True if the next batch need not wait for a due queue: messages wait, or the run ends."""
        waits = self._ahead is not None or bool(self._waiting)
        return self._cutoff is not None or self._prefetch.under_way or waits

    @property
    def suspects(self) -> Suspects:
        """The suspects among the messages."""
        return self._suspects

    @property
    def awaited(self) -> frozenset[MessageKey]:
        """Messages that this availableNow run has released and not received again."""
        return self._cutoff.awaited if self._cutoff else frozenset()

    def come_again(self, leases: Sequence[Lease]) -> None:
        """Note that these messages were released: an availableNow run waits for them."""
        if self._cutoff:
            self._cutoff.released(lease.key for lease in leases)

    def build(self, number: int, most: int) -> Batch | None:
        """Build batch `number` of up to `most` messages. Return None if there are no messages.

        Raises ServiceError, or UndecodableBody with onUndecodable=fail. Then all waiting messages
        are released, as far as the service can be reached.
        """
        self.catch_up()
        return self.build_here(number, most)

    def build_here(self, number: int, most: int) -> Batch | None:
        """Build a batch in the thread of the prefetch. See `build`."""
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
        """If there is a backlog, begin to lease the next batch while Spark works on this one.

        then: called afterwards in the same thread. The default makes the rows of the next batch, if
        it is full. With deleteOnCommit=false rows show receipts, so they are not made ahead.
        """

        def fetch(messages: int) -> None:
            self._lease(messages)
            if then:
                then()
            elif self._backlog and self._config.delete_on_commit:
                self._ahead = self._make_rows(most)

        # After a crash, nothing releases what was leased ahead: with long leases, do not prefetch.
        is_short = (
            self._config.delete_on_commit or self._holder.lengths.visibility_s() <= SHORTEST_S
        )
        is_needed = self._backlog and self._ahead is None
        if is_needed and is_short and not self._suspects.isolating:
            self._prefetch.begin(fetch, most)

    def catch_up(self) -> None:
        """Wait for the prefetch under way. If it failed, release waiting messages and raise."""
        try:
            self._prefetch.catch_up()
        except BaseException:
            self.release_waiting()
            raise

    def wait_for_prefetch(self) -> None:
        """Wait for the prefetch under way. `catch_up` raises the prefetch's error, if any."""
        self._prefetch.has_ended()

    def leave(self) -> bool:
        """Stop leasing, and release all messages of no batch, within seconds.

        Returns False if the prefetch still runs.
        """
        self._leaving = True
        has_ended = self._prefetch.has_ended(_LAST_PAGES_S)
        self.release_waiting()
        return has_ended

    def release_waiting(self) -> None:
        """Release all messages of no batch, within a few seconds. Never raises."""
        self._waiting.clear()
        self._ahead = None
        leases = [*self._unwanted.values()]
        leases += self._receiver.take_orphans()
        self._unwanted.clear()
        self._holder.release_waiting(leases)

    def _made_ahead(self, most: int) -> BatchRows | None:
        """Return the rows that were made ahead, or None if they are too many for a batch now."""
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
        """Dequeue until enough messages wait. Unwanted messages are released.

        Returns True if some unwanted messages are to come again, see `is_to_come_again`.
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
                # The message may already wait here with an older text, whose receipt is dead.
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
        """Dead-letter the waiting poison messages. Return False if there are none."""
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
        """Let this message expire under its lease. Return False if the ledger already has it."""
        with self._holder.locked_ledger as ledger:
            return ledger.left_to_expire(key)

    def _came_again(self, lease: Lease) -> bool:
        """True if this run has delivered the message before: then the ledger drops it."""
        with self._holder.locked_ledger as ledger:
            was_handed_out = ledger.was_handed_out(lease)
            if was_handed_out:
                ledger.drop(lease)
        return was_handed_out

    def _is_full(self, cutoff: Cutoff) -> bool:
        with self._holder.locked_ledger as ledger:
            return cutoff.is_full(ledger.handed_out)

    def _room(self, most: int) -> int:
        """Number of further messages that the next batch could use."""
        return self._suspects.room(self._waiting.values(), most)

    def _next_rows(self, most: int) -> list[Row]:
        """Take the waiting messages for the next batch, without the undecodable ones."""
        waiting = list(self._waiting.values())
        chosen: Sequence[Message] = self._suspects.choose(waiting, most)
        if self._config.write_ahead_log:  # a segment is limited; else a page may exceed max_bytes
            chosen = fitting(chosen, self._config.max_bytes)
        with self._holder.locked_ledger as ledger:
            leases = ledger.leases(chosen)
        received = map(Received, chosen, leases)
        rows, reasons = rows_and_reasons(received, self._config, self._decoding)
        # Leases are renewed meanwhile. Messages not dead-lettered in time wait for the next batch.
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
