"""Makes one micro-batch: leases messages, asks the ledger about each, decodes, cuts partitions.

Messages held back for later batches wait here, leased. If anything goes wrong on the way,
everything that is in no batch yet is given back. Ring: edge.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from . import arrow, poison
from .arrow import Row
from .columns import Columns
from .config import SourceConfig
from .cutoff import Cutoff
from .errors import AzQueueError, UndecodableBody
from .holding import Holding
from .leases import Lease, Term
from .ledger import WAITING, Fate
from .messages import Message, decode
from .options import NEVER_EXPIRES, OnUndecodable
from .receiving import Receiver
from .references import read_reference
from .retry import LAST_WORDS, LAST_WORDS_S, SEND

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """A gathered micro-batch.

    oldest: earliest insertion time, seconds since 1970. blobs: the blob with a message's body, by
    lease, where one has it.
    """

    leases: tuple[Lease, ...]
    partitions: list[bytes]
    oldest: int
    blobs: Mapping[Lease, str]


class Gatherer:
    """Gathers one batch after another."""

    def __init__(
        self, config: SourceConfig, columns: Columns, receiver: Receiver, holding: Holding
    ) -> None:
        self._config = config
        self._columns = columns
        self._receiver = receiver
        self._holding = holding
        self._waiting: dict[tuple[str, str], Message] = {}  # by (queue, id)
        self.cutoff: Cutoff | None = None
        """Set for an availableNow run."""
        self.failed_alone: set[tuple[str, str]] = set()
        """Messages that stood alone in a batch which did not commit."""
        self.isolating = False
        """Set when this run began with a batch that had failed: somebody may be guilty of that.

        Without it a high dequeue count means nothing: another consumer, or an availableNow run
        that only looked at a message, raises it as well."""

    @property
    def anything_waiting(self) -> bool:
        """True while messages are held back for a later batch."""
        return bool(self._waiting)

    @property
    def _suspect_above(self) -> int | None:
        return self._config.max_dequeue_count if self.isolating else None

    def gather(self, number: int, most: int) -> Batch | None:
        """Make batch `number` of up to `most` messages; None where there are none.

        Raises ServiceError, or UndecodableBody with onUndecodable=fail: nothing stays leased then
        (as far as the service can still be reached).
        """
        unwanted: list[Lease] = []
        since = self._holding.now()
        try:
            rows: list[Row] = []
            while not rows:
                self._lease(most, unwanted)
                if not self._waiting:
                    break
                rows = self._next_rows(most)
            partitions = arrow.partitions(rows, self._columns, self._config.messages_per_partition)
        except BaseException:
            self.give_back(unwanted)
            raise
        if unwanted:
            self._holding.settler.release(unwanted)
        if not rows:
            return None
        blobs = {
            (row.message.queue, row.message.message_id): row.reference.name
            for row in rows
            if row.reference
        }
        leases = self._holding.hand_out([row.message for row in rows], number, since, blobs)
        if self.cutoff:
            self.cutoff.gave_out(lease.message_id for lease in leases)
        oldest = min(row.message.insertion_time for row in rows) // 1_000_000
        by_lease = {
            lease: blobs[lease.queue, lease.message_id]
            for lease in leases
            if (lease.queue, lease.message_id) in blobs
        }
        return Batch(leases, partitions, oldest, by_lease)

    def give_back(self, unwanted: list[Lease]) -> None:
        """Release everything that is in no batch, as far as a few seconds allow. Never raises."""
        leases = self._holding.release(WAITING)
        self._waiting.clear()
        leases += unwanted + [lease_of(orphan) for orphan in self._receiver.orphans]
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

    def _lease(self, most: int, unwanted: list[Lease]) -> None:
        """Dequeue until enough messages wait. Copies are dealt with, `unwanted` are not ours."""
        size = sum(message.size for message in self._waiting.values())
        cutoff = self.cutoff
        if cutoff:
            cutoff.begin_look()

        def room() -> int:
            if size >= self._config.max_bytes or (cutoff is not None and cutoff.reached):
                return 0
            waiting = list(self._waiting.values())
            return poison.room(waiting, most, self._suspect_above)

        visibility = self._holding.visibility_s()
        for page in self._receiver.look(visibility, room, until_empty=cutoff is not None):
            term = Term.of(page.sent_at, visibility)
            guilty = []
            for message in page.messages:
                if cutoff and not cutoff.wants(message):
                    unwanted.append(lease_of(message))
                    continue
                fate = self._holding.dequeued(message, term)
                if fate is Fate.DELETE:
                    self._holding.settler.begin([lease_of(message)])
                if fate is not Fate.ROW:
                    continue
                if cutoff and cutoff.was_given_out(message):
                    self._holding.drop(lease_of(message))
                    unwanted.append(lease_of(message))
                elif poison.is_guilty(message, self.failed_alone, self._config.max_dequeue_count):
                    guilty.append(message)
                else:
                    # In place of an older text of the same message that has not been given out.
                    self._waiting[message.queue, message.message_id] = message
                    size += message.size
            # Only now that the whole page is accounted for: this may fail.
            for message in guilty:
                self._set_aside(
                    message, f"dequeued {message.dequeue_count} times, and failed when alone"
                )

    def _next_rows(self, most: int) -> list[Row]:
        """Take the next batch's messages from those waiting; fewer where some are undecodable."""
        waiting = list(self._waiting.values())
        chosen = poison.choose(waiting, most, self._suspect_above)
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
        SEND(self._holding.find_queue(name).put, message.text, 0, NEVER_EXPIRES)
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


def decoded(message: Message, config: SourceConfig, *, leased: bool = True) -> Row:
    """The row of a message. Raises UndecodableBody unless onUndecodable=permissive."""
    try:
        if not message.intact:
            raise UndecodableBody("the service's answer was damaged within this message")
        body = decode(message.text, config.encoding, config.body_type)
        reference = None
        if config.claim_check:
            reference = read_reference(body, config.claim_check.container)
        return Row(message, body, reference=reference)
    except UndecodableBody as error:
        if config.on_undecodable is OnUndecodable.PERMISSIVE:
            return Row(message, None, corrupt=message.text)
        if config.on_undecodable is OnUndecodable.POISON and not leased:
            return Row(message, None)  # a peek shows that it is there, and moves nothing
        back = " It is back in the queue, as is all that was leased with it." if leased else ""
        raise UndecodableBody(
            f"message {message.message_id} in queue '{message.queue}' cannot be decoded:"
            f" {error}.{back} Set messageEncoding to what the sender uses (now"
            f" {config.encoding.value}), or onUndecodable=permissive to get such messages as rows"
            " with _corrupt_record"
        ) from error
