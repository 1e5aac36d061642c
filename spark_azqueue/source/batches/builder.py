"""Makes one micro-batch: leases messages, asks the ledger about each, decodes, cuts partitions.

Messages leased ahead, or held back for later batches, wait here. If anything goes wrong on the
way, everything that is in no batch yet is given back. Used by one thread at a time: looking ahead
takes a thread of its own, and whoever comes next waits for it first.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass

from spark_azqueue.errors import AzQueueError, UndecodableBody
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import NEVER_EXPIRES, UNKNOWN_TIME, Lease, Message
from spark_azqueue.service.queues.client import QueueService
from spark_azqueue.service.retry import LAST_WORDS, LAST_WORDS_S, SEND
from spark_azqueue.service.workers import Submits

from ..columns import Columns
from ..leases.holder import Holding
from ..leases.ledger import WAITING, Fate
from ..leases.timing import Term
from ..rows import Row, decoded, partitions
from . import poison
from .available_now import Cutoff
from .receiver import Receiver

log = logging.getLogger(__name__)

GIVEN_OUT_AT_MOST = 1_000_000
"""How many messages an availableNow run gives out without deleting them (about 200 MB of ids)."""

_Key = tuple[str, str]

_LAST_PAGES_S = 1.0
"""How long a process that ends waits for the pages of a look ahead that are still under way."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A gathered micro-batch.

    oldest: earliest insertion time, seconds since 1970, None if no message tells. blobs: the blob
    with a message's body, by lease, if it has one.
    """

    leases: tuple[Lease, ...]
    partitions: list[bytes]
    oldest: int | None
    blobs: Mapping[Lease, str]


class Gatherer:
    """Gathers one batch after another."""

    def __init__(
        self,
        config: SourceConfig,
        columns: Columns,
        service: QueueService,
        receiver: Receiver,
        holding: Holding,
        workers: Submits,
    ) -> None:
        self._config = config
        self._columns = columns
        self._service = service
        self._receiver = receiver
        self._holding = holding
        self._workers = workers
        self._waiting: dict[_Key, Message] = {}  # by (queue, id)
        self._unwanted: dict[_Key, Lease] = {}  # leased, and to be given back after the look
        self._backlog = False  # the last look ended because it had enough
        self._ahead: Future[None] | None = None
        self._since: float | None = None  # when the look ahead began
        self._leaving = False
        self._cutoff: Cutoff | None = None
        self._full = False  # an availableNow run gave out as many messages as it can remember
        self.failed_alone: set[_Key] = set()
        """Messages that stood alone in a batch which did not commit."""
        self.isolating = False
        """Set when this run began with a batch that had failed: somebody may be guilty of that.

        Without it a high dequeue count means nothing: another consumer, or an availableNow run
        that only looked at a message, raises it as well."""

    def only_until(self, cutoff: Cutoff) -> None:
        """From now on gather only what this availableNow run wants."""
        self._cutoff = cutoff
        self._holding.note_what_is_given_out()

    @property
    def cutoff(self) -> Cutoff | None:
        """What this run wants, if it is an availableNow run."""
        return self._cutoff

    @property
    def anything_waiting(self) -> bool:
        """True while messages wait for a later batch, or are being leased for it."""
        return self._ahead is not None or bool(self._waiting)

    @property
    def _suspect_above(self) -> int | None:
        return self._config.max_dequeue_count if self.isolating else None

    def gather(self, number: int, most: int) -> Batch | None:
        """Make batch `number` of up to `most` messages; None where there are none.

        Raises ServiceError, or UndecodableBody with onUndecodable=fail: nothing stays leased then
        (as far as the service can still be reached).
        """
        try:
            self.catch_up()
            since = self._holding.now() if self._since is None else self._since
            rows: list[Row] = []
            while not rows:
                self._lease(most)
                if not self._waiting:
                    break
                rows = self._next_rows(most)
            cut = partitions(rows, self._columns, self._config.messages_per_partition)
        except BaseException:
            self.give_back()
            raise
        self._since = None
        if not rows:
            return None
        blobs = {
            (row.message.queue, row.message.message_id): row.reference.name
            for row in rows
            if row.reference
        }
        leases = self._holding.hand_out([row.message for row in rows], number, since, blobs)
        inserted = (row.message.insertion_time for row in rows)
        known = [time // 1_000_000 for time in inserted if time != UNKNOWN_TIME]
        by_lease = {
            lease: blobs[lease.queue, lease.message_id]
            for lease in leases
            if (lease.queue, lease.message_id) in blobs
        }
        return Batch(leases, cut, min(known, default=None), by_lease)

    def look_ahead(self, most: int) -> None:
        """Begin to lease the next batch while Spark works on this one, where a backlog shows.

        No more than one batch is leased ahead. When the process is killed, its messages are in no
        offset: they come back when their leases run out.
        """
        ahead = self._config.dequeue_ahead and self._backlog and not self.isolating
        if ahead and self._ahead is None:
            self._since = self._holding.now()
            self._ahead = self._workers.submit(self._lease, most)

    def catch_up(self) -> None:
        """Wait for what was begun ahead. Raises what it met."""
        if self._ahead:
            wait([self._ahead])
            ahead, self._ahead = self._ahead, None
            ahead.result()

    def leave(self) -> None:
        """Lease no more, and give back everything that is in no batch, within seconds."""
        self._leaving = True
        if self._ahead:
            wait([self._ahead], timeout=_LAST_PAGES_S)
        self.give_back()

    def give_back(self) -> None:
        """Release everything that is in no batch, as far as a few seconds allow. Never raises."""
        leases = self._holding.release(WAITING)
        self._waiting.clear()
        leases += self._unwanted.values()
        leases += [lease_of(orphan) for orphan in self._receiver.orphans]
        self._unwanted.clear()
        self._receiver.orphans.clear()
        try:
            self._holding.settler.release(leases, LAST_WORDS, timeout_s=LAST_WORDS_S)
        except (AzQueueError, TimeoutError) as error:
            log.warning(
                "not all of %d leased messages could be given back (%s); they become visible"
                " again within %d s",
                len(leases),
                error,
                self._holding.visibility_s(),
            )

    def _lease(self, most: int) -> None:
        """Dequeue until enough messages wait. Copies are dealt with; what is not ours goes back."""
        size = sum(message.size for message in self._waiting.values())
        cutoff = self._cutoff
        if cutoff:
            cutoff.begin_look()

        def room() -> int:
            if self._leaving or self._run_is_full() or size >= self._config.max_bytes:
                return 0
            return self._room(most)

        visibility = self._holding.visibility_s()
        for page in self._receiver.look(visibility, room, read=cutoff.read if cutoff else None):
            term = Term.of(page.sent_at, visibility)
            guilty = []
            for message in page.messages:
                key = (message.queue, message.message_id)
                if cutoff and not cutoff.wants(message):
                    self._unwanted[key] = lease_of(message)
                    continue
                fate = self._holding.dequeued(message, term)
                if fate is Fate.DELETE:
                    self._holding.settler.begin([lease_of(message)])
                if fate is not Fate.ROW:
                    continue
                # An older text of this message may wait: its receipt is dead.
                if older := self._waiting.pop(key, None):
                    size -= older.size
                if cutoff and self._holding.was_given_out(lease_of(message)):
                    self._holding.drop(lease_of(message))
                    self._unwanted[key] = lease_of(message)
                elif poison.is_guilty(message, self.failed_alone, self._config.max_dequeue_count):
                    guilty.append(message)
                else:
                    self._waiting[key] = message
                    size += message.size
            # Only now that the whole page is accounted for: this may fail.
            for message in guilty:
                self._set_aside(
                    message, f"dequeued {message.dequeue_count} times, and failed when alone"
                )
        self._backlog = size >= self._config.max_bytes or self._room(most) <= 0
        if self._unwanted:
            self._holding.settler.release(list(self._unwanted.values()))
            self._unwanted.clear()

    def _run_is_full(self) -> bool:
        """True when an availableNow run can tell no longer what it gave out: it ends early."""
        if self._cutoff and not self._full and self._holding.given_out >= GIVEN_OUT_AT_MOST:
            self._full = True
            log.warning(
                "this availableNow run gave out %d messages that are not deleted, as with"
                " deleteOnCommit=false, and ends here: start it again for the rest",
                GIVEN_OUT_AT_MOST,
            )
        return self._full

    def _room(self, most: int) -> int:
        """How many more messages the next batch could use."""
        if self._suspect_above is None:
            return most - len(self._waiting)
        return poison.room(list(self._waiting.values()), most, self._suspect_above)

    def _next_rows(self, most: int) -> list[Row]:
        """Take the next batch's messages from those waiting; fewer where some are undecodable."""
        waiting = list(self._waiting.values())
        chosen = self._holding.with_usable_receipts(
            poison.choose(waiting, most, self._suspect_above)
        )
        rows = []
        for message in chosen:
            try:
                rows.append(decoded(message, self._config))
            except UndecodableBody as error:
                if self._config.on_undecodable is not OnUndecodable.POISON or not message.intact:
                    raise
                self._set_aside(message, str(error))
        for message in chosen:
            del self._waiting[message.queue, message.message_id]
        return rows

    def _set_aside(self, message: Message, reason: str) -> None:
        """Copy the message to its poison queue, unchanged; when the copy stands, delete it."""
        name = self._config.poison_queue_for(message.queue)
        SEND(self._service.queue(name).put, message.text, 0, NEVER_EXPIRES)
        log.warning(
            "message %s of queue '%s' was set aside in '%s': %s",
            message.message_id,
            message.queue,
            name,
            reason,
        )
        self._holding.set_aside(message)


def lease_of(message: Message) -> Lease:
    """The lease that came with a message."""
    return Lease(message.queue, message.message_id, message.pop_receipt or "")
