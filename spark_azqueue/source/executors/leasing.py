"""Queue requests of a task: lease messages for some seconds, and delete the stored messages.

Leases are not renewed, because a lease is long enough for the task to store and delete its
messages. A task and the driver may send the same delete. This is safe, because both use the same
receipt.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from spark_azqueue.errors import Outcome, QueueNotFound
from spark_azqueue.journal.pending import PendingDelete, fingerprint
from spark_azqueue.options.choices import QueuePriority
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import (
    UNKNOWN_TIME,
    Lease,
    Message,
    MessageKey,
    QueueRef,
    Received,
)
from spark_azqueue.service.queues.calls import DatedDelete, Deleted, Page, Release
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import attempt_all, results_of
from spark_azqueue.service.retry import LAST_WORDS, REPLAY, RetryPolicy

from ..batches.batch import fitting
from ..batches.receiver import Receiver
from ..dead_letters import DecodingRecord, dead_lettered, rows_and_reasons
from ..intake.backlog import Isolation
from ..intake.polling import Cutoff
from ..logged.undecodable import LoggedRows, Reading
from ..rows import is_to_come_again
from .objects import Counts, Looked, SeenMessages, SlotHeader, SlotReport, SlotSegment
from .plan import Learned, Plan, Slot

log = logging.getLogger(__name__)

_RELEASES_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Leased:
    """Messages that a task has leased.

    received: messages to deliver; each message appears once, with its newest receipt. copies:
    leases of known messages, which get no second row. unwanted: leases to release.
    """

    received: tuple[Received, ...]
    copies: tuple[Lease, ...]
    unwanted: tuple[Lease, ...]
    looked: dict[str, Looked]
    counts: Counts

    @property
    def leases(self) -> list[Lease]:
        """All leases."""
        return [*(lease for _, lease in self.received), *self.copies, *self.unwanted]


class Leasing:
    """Dequeues the messages of one slot. An instance is used once."""

    def __init__(
        self,
        config: SourceConfig,
        plan: Plan,
        slot: Slot,
        known: SeenMessages,
        client: QueueClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the parameters; send nothing.

        Queues that the option 'queue' does not select any more are left out. clock: returns
        seconds; the client must use the same clock for the times of its answers.
        """
        self._config = config
        self._plan = plan
        self._slot = slot
        self._known = known
        self._client = client
        self._clock = clock
        self._queues = [each for each in slot.queues if config.selection.includes(each)]
        self._isolation = Isolation(config.isolation_level, clock)
        self._cutoff = Cutoff(plan.cutoff) if plan.cutoff is not None else None
        self._received: dict[MessageKey, Received] = {}
        self._copies: dict[MessageKey, Lease] = {}
        self._unwanted: dict[MessageKey, Lease] = {}
        self._bytes = 0
        self._counts: Counter[str] = Counter()
        self._got: Counter[QueueRef] = Counter()
        self._ended: set[QueueRef] = set()

    def lease(self) -> Leased:
        """Dequeue messages. If a request fails, release leases if possible, and raise
        ServiceError."""
        began = self._clock()
        throttled = self._client.throttled
        receiver = self._receiver()
        until = began + self._plan.leasing_s

        def room() -> int:
            if self._clock() >= until:
                return 0
            return self._room()

        try:
            if self._cutoff:
                self._cutoff.begin_look()
            read = self._read if self._cutoff else None
            for page in receiver.look(self._plan.lease_s, room, read=read):
                self._take(page)
        except BaseException:
            release(self._client, [*self._all(), *receiver.take_orphans()])
            raise
        is_full = room() <= 0
        self._leave_what_does_not_fit()
        self._isolation.left(self._counts["skipped_near_expiry"])
        self._counts["throttled"] = self._client.throttled - throttled
        return Leased(
            tuple(self._received.values()),
            tuple(self._copies.values()),
            (*self._unwanted.values(), *receiver.take_orphans()),
            {queue.name: self._looked(queue, is_full=is_full) for queue in self._queues},
            Counts(**self._counts),
        )

    def _leave_what_does_not_fit(self) -> None:
        """Release messages beyond the slot's limit of bytes.

        The limit can be exceeded because pages are requested before the sizes of their messages are
        known.
        """
        messages = [message for message, _ in self._received.values()]
        for message in messages[len(fitting(messages, self._slot.bytes)) :]:
            self._unwanted[message.key] = self._received.pop(message.key).lease
            self._ended.discard(message.queue)

    def _receiver(self) -> Receiver:
        now = self._clock()
        for queue in self._queues:
            limits = self._plan.limits.get(queue.name)
            if limits:
                self._client.limits.go_on(queue, limits.under_way, limits.per_s, now)
        return Receiver(
            self._client,
            self._queues,
            self._config.parallelism,
            self._config.max_poll_interval,
            self._clock,
            self._config.queue_priority,
            self._vanished,
            RetryPolicy(self._plan.leasing_s, attempt_s=self._plan.leasing_s),
            frozenset(each for each in self._queues if each.name in self._plan.limits),
        )

    def _vanished(self, queue: QueueRef) -> bool:
        if not self._config.selection.comes_and_goes(queue):
            return False
        self._ended.add(queue)
        return True

    def _room(self) -> int:
        """Return the number of messages that the slot may still take.

        The bytes that are left are divided by the mean size of the messages that were received
        before.
        """
        messages = self._slot.messages - len(self._received)
        left = self._slot.bytes - self._bytes
        if left <= 0 or messages <= 0:
            return 0
        if not self._received:
            return messages
        fit = left * len(self._received) // max(1, self._bytes)
        return min(messages, max(fit, 1))

    def _read(self, queue: QueueRef) -> bool:
        """Return True if no message that was inserted before the run's cutoff is left in the
        queue."""
        is_over = self._cutoff is not None and self._cutoff.read(queue)
        if is_over:
            self._ended.add(queue)
        return is_over

    def _take(self, page: Page) -> None:
        queue = page.queue
        got = len(page.received)
        if queue is not None:
            ends = got == 0 or (got < page.asked and self._is_fair)
            if ends:
                self._ended.add(queue)
            else:
                self._ended.discard(queue)
        self._counts["dequeued"] += got
        for message, lease in page.received:
            self._counts["redelivered"] += message.dequeue_count > 1
            key = lease.key
            is_wanted = self._cutoff is None or self._cutoff.wants(message)
            self._got[message.queue] += is_wanted
            before = self._received.get(key)
            if self._isolation.may_be_abandoned(message, page.answered_at):
                self._counts["skipped_near_expiry"] += 1
            elif not is_wanted:
                self._unwanted[key] = lease
            elif self._known.has(key, fingerprint(message.text)):
                self._counts["duplicates_suppressed"] += 1
                self._copies[key] = lease
            elif before and message.dequeue_count < before.message.dequeue_count:
                # Pages arrive in parallel. This copy is older than the copy that arrived before, so
                # its receipt is stale.
                self._counts["duplicates_suppressed"] += 1
            elif not message.intact and (before or key in self._known):
                # A damaged text does not show whether the message was updated. So the message gets
                # no second row and is not deleted. After this lease ends, the message is dequeued
                # and checked again.
                self._counts["duplicates_suppressed"] += 1
            elif is_to_come_again(message, self._config.on_undecodable):
                self._unwanted[key] = lease
            else:  # a newer copy replaces the older copy, whose receipt is stale
                self._bytes += message.size - (before.message.size if before else 0)
                self._received[key] = Received(message, lease)

    @property
    def _is_fair(self) -> bool:
        return self._config.queue_priority is QueuePriority.FAIR and self._cutoff is None

    def _looked(self, queue: QueueRef, *, is_full: bool) -> Looked:
        found = self._client.limits.learned(queue)
        limits = Learned(*found) if found else None
        return Looked(self._got[queue], not is_full or queue in self._ended, limits)

    def _all(self) -> list[Lease]:
        received = (lease for _, lease in self._received.values())
        return [*received, *self._copies.values(), *self._unwanted.values()]


def release(client: QueueClient, leases: Iterable[Lease]) -> None:
    """Make messages visible again. Takes at most some seconds.

    Never raises: if a lease is not released, it ends by itself.
    """
    calls = [(None, Release(lease)) for lease in dict.fromkeys(leases)]

    def failed(error: Exception) -> None:
        log.debug("messages were not released, and come back when their leases end: %s", error)

    deque(attempt_all(client, calls, LAST_WORDS, failed, within_s=_RELEASES_WITHIN_S), maxlen=0)


def without_undecodable(
    config: SourceConfig,
    client: QueueClient,
    leased: Leased,
    within_s: float,
    clock: Callable[[], float],
) -> Leased:
    """Dead-letter the messages that do not decode, and return the other messages.

    Called before the segment is stored. within_s: see `dead_lettered`; the caller must release
    messages that remain after this time. Raises TooManyPoison and ServiceError; with
    onUndecodable=fail also UndecodableBody. All messages are released before an error is raised.
    """
    copied = set[MessageKey]()
    leases = {lease.key: lease for _, lease in leased.received}
    try:
        rows, reasons = rows_and_reasons(leased.received, config, DecodingRecord(config))
        for message in dead_lettered(config, client, reasons, within_s, clock, leases):
            copied.add(message.key)
    except BaseException:
        release(client, [each for each in leased.leases if each.key not in copied])
        raise
    left = [leases[each.key] for each in reasons if each.key not in copied]
    looked = dict(leased.looked)
    for lease in left:
        looked[lease.queue.name] = replace(looked[lease.queue.name], drained=False)
    return replace(
        leased,
        received=tuple(Received(row.message, leases[row.message.key]) for row in rows),
        unwanted=(*leased.unwanted, *left),
        looked=looked,
        counts=replace(leased.counts, poison=len(copied)),
    )


def slot_rows(
    segment: SlotSegment, today: Reading, read_as: Callable[[Reading], Reading] | None = None
) -> LoggedRows:
    """Return the rows of a segment. today, read_as: see `LoggedRows`."""
    header = segment.header
    return LoggedRows(segment.received, header.reading, today, header.plan.number, read_as)


MARGIN_S = 5
"""Seconds by which a lease may end early: the service rounds times to whole seconds, and the clocks
of its servers differ.
"""


def settle_slot(
    config: SourceConfig,
    client: QueueClient,
    segment: SlotSegment,
    size: int,
    copies: Sequence[Lease] = (),
) -> SlotReport:
    """Delete the messages of a stored segment, and the copies of known messages.

    size: size of the segment in bytes. A refused delete becomes a pending delete. If the lease may
    have ended before the delete, another consumer may have the message. If the lease cannot have
    ended, an earlier attempt has probably deleted the message; but the service may also have
    delivered the message to another consumer during the lease, so the message stays known for a
    day. Raises ServiceError if the service gave no final answer to a delete; after this error, no
    row may be delivered.
    """
    until = segment.header.until
    deleted = 0
    pending: list[PendingDelete] = []
    calls = [(message, DatedDelete(lease)) for message, lease in segment.received]
    answers = results_of(client, calls, REPLAY, most=config.parallelism)
    with closing(answers) as results:
        for message, result in results:
            if isinstance(result, QueueNotFound) and config.selection.comes_and_goes(message.queue):
                deleted += 1  # the message was deleted with its queue
                continue
            if isinstance(result, Exception):
                raise result
            is_gone = _is_gone(result, until)
            deleted += is_gone
            if result.outcome is not Outcome.OK:
                pending.append(pending_of(message, result.at if is_gone else None))
    gone = tuple(lease.key for lease in delete_all(config, client, copies))
    return replace(
        without_deletes(segment, size),
        deleted=deleted,
        pending=tuple(pending),
        gone=gone,
        looked=_learned(client, segment.header),
    )


def without_deletes(segment: SlotSegment, size: int) -> SlotReport:
    """Return the report of a slot that has nothing to delete. size: bytes of the segment."""
    given = sum(message.size for message, _ in segment.received)
    return replace(SlotReport.of(segment.header, size), given_bytes=given)


def _learned(client: QueueClient, header: SlotHeader) -> dict[str, Looked]:
    """Return the state of each queue from the header, with the limits that the client learned
    during the deletes.
    """
    looked = dict(header.looked)
    for queue in header.queues:
        found, before = client.limits.learned(queue), looked.get(queue.name)
        if found and before:
            looked[queue.name] = replace(before, limits=Learned(*found))
    return looked


def delete_all(config: SourceConfig, client: QueueClient, leases: Sequence[Lease]) -> list[Lease]:
    """Delete known messages, or messages of another segment. Returns the leases of the deleted
    messages.

    If a delete fails, no error is raised: the message is dequeued again after its lease ends, and
    is still known.
    """
    calls = [(lease, DatedDelete(lease)) for lease in leases]

    def failed(error: Exception) -> None:
        log.warning("a copy of a message was not deleted, and will come again: %s", error)

    answers = attempt_all(client, calls, REPLAY, failed, most=config.parallelism)
    return [lease for lease, result in answers if result.outcome is Outcome.OK]


def _is_gone(result: Deleted, until: int) -> bool:
    if result.outcome is Outcome.OK:
        return True
    return result.at is not None and 0 < result.at < until - MARGIN_S


def pending_of(message: Message, gone_at: int | None) -> PendingDelete:
    """Return the pending delete of a message.

    gone_at: if the message is probably deleted, the time at which this was found, which replaces
    the message's expiry; None if the message may still exist.
    """
    expires = 0 if message.expiration_time == UNKNOWN_TIME else message.expiration_time // 1_000_000
    if gone_at is not None:
        expires = min(expires, gone_at) if expires else gone_at
    return PendingDelete(message.key, fingerprint(message.text), expires)
