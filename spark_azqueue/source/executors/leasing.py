"""What a task dequeues for its slot: for some seconds, until that is full or its queues are empty.

Nothing is renewed: the lease lasts until the task has stored and deleted what it has leased.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spark_azqueue.options.choices import OnUndecodable, QueuePriority
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease, MessageKey, QueueRef, Received
from spark_azqueue.service.queues.calls import Page, Release
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import results_of
from spark_azqueue.service.retry import LAST_WORDS, RetryPolicy

from ..batches.available_now import Cutoff
from ..batches.batch import fitting
from ..batches.receiver import Receiver
from ..isolation import Isolation
from ..log.progress import fingerprint
from ..rows import decoded
from .plan import Learned, Plan, Slot
from .segment import Counts, Looked
from .settled import SeenMessages

log = logging.getLogger(__name__)

_RELEASES_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Leased:
    """What a task has leased. received: to give out, one for each message, with its newest receipt.

    copies: of known messages, which give no second row. unwanted: to be released.
    """

    received: tuple[Received, ...]
    copies: tuple[Lease, ...]
    unwanted: tuple[Lease, ...]
    looked: dict[str, Looked]
    counts: Counts

    @property
    def leases(self) -> list[Lease]:
        """All of them."""
        return [*(lease for _, lease in self.received), *self.copies, *self.unwanted]


class Leasing:
    """Leases for one slot, once."""

    def __init__(
        self,
        config: SourceConfig,
        plan: Plan,
        slot: Slot,
        known: SeenMessages,
        client: QueueClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store; nothing is sent. Queues that option 'queue' does not name any more are left out.

        clock: in seconds, the one by which pages say when they were asked.
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
        """Dequeue. Raises ServiceError, and UndecodableBody for a message that no answer holds
        whole, but not with onUndecodable=permissive; then all was released, as far as that went.
        """
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
        self._isolation.left(self._counts["left_to_expire"])
        self._counts["throttled"] = self._client.throttled - throttled
        return Leased(
            tuple(self._received.values()),
            tuple(self._copies.values()),
            (*self._unwanted.values(), *receiver.take_orphans()),
            {queue.name: self._looked(queue, is_full=is_full) for queue in self._queues},
            Counts(**self._counts),
        )

    def _leave_what_does_not_fit(self) -> None:
        """Large messages in pages that were asked for when all were small: they go back."""
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
            self._config.receive_parallelism,
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
        """How many more messages the slot can use; pages under way count with their usual size."""
        messages = self._slot.messages - len(self._received)
        left = self._slot.bytes - self._bytes
        if left <= 0 or messages <= 0:
            return 0
        if not self._received:
            return messages
        fit = left * len(self._received) // max(1, self._bytes)
        return min(messages, max(fit, 1))

    def _read(self, queue: QueueRef) -> bool:
        """True if the cutoff says that a queue holds nothing more for this run."""
        is_over = self._cutoff is not None and self._cutoff.read(queue)
        if is_over:
            self._ended.add(queue)
        return is_over

    def _take(self, page: Page) -> None:
        """Raises UndecodableBody for a message that the answer does not hold whole."""
        damaged: list[Received] = []
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
                self._counts["left_to_expire"] += 1
            elif not is_wanted:
                self._unwanted[key] = lease
            elif self._known.has(key, fingerprint(message.text)):
                self._counts["copies"] += 1
                self._copies[key] = lease
            elif before and message.dequeue_count < before.message.dequeue_count:
                # Pages come in parallel: an older one came later, and its receipt is dead.
                self._counts["copies"] += 1
            elif not message.intact and (before or key in self._known):
                # Whether its text was updated is unknown. So it gives no second row and is not
                # deleted; it comes back when this lease ends, and is judged then.
                self._counts["copies"] += 1
            elif not message.intact and not self._is_permissive:
                self._unwanted[key] = lease
                damaged.append(Received(message, lease))
            else:  # if it came a second time, its first lease has ended, and that receipt is dead
                self._bytes += message.size - (before.message.size if before else 0)
                self._received[key] = Received(message, lease)
        for each in damaged:  # after the whole page was noted
            decoded(each.message, self._config, each.lease)

    @property
    def _is_permissive(self) -> bool:
        return self._config.on_undecodable is OnUndecodable.PERMISSIVE

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
    """Make messages visible again, for some seconds at most. Never raises: leases end anyway."""
    calls = [(None, Release(lease)) for lease in dict.fromkeys(leases)]
    if not calls:
        return
    try:
        for _, result in results_of(client, calls, LAST_WORDS, within_s=_RELEASES_WITHIN_S):
            if isinstance(result, Exception):
                log.debug("a message was not released: %s", result)
    except Exception as error:  # noqa: BLE001 (nothing depends on it)
        log.warning("messages were not released, and come back when their leases end: %s", error)
