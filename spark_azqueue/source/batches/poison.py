"""Which messages to deliver together, and which one to dead-letter as poison.

A dequeue count says how often a message was delivered, not how often it failed: one crash raises it
for a whole batch. So a high count only makes a suspect. Suspects are delivered in ever smaller
groups, until the poison message is alone in a batch. It is dead-lettered if its count is over the
maximum and that batch did not commit. (With a log `log/recovery.py` first gives up a batch that
fails; what was in it are suspects then.)
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Sequence

from spark_azqueue.service.messages import Lease, Message, MessageKey

log = logging.getLogger(__name__)


def group_limit(dequeue_count: int, most: int, max_dequeue_count: int) -> int:
    """How many messages may share a batch with one that was dequeued this often.

    `most` at the first delivery, one when the count is over the maximum, and geometric steps
    between: with most=1024 and a maximum of 5 it is 1024, 256, 64, 16, 4, 1.
    """
    if dequeue_count <= 1:
        return most
    if dequeue_count > max_dequeue_count:
        return 1
    share = (max_dequeue_count + 1 - dequeue_count) / max_dequeue_count
    return max(1, math.floor(math.pow(most, share) + 1e-9))


class Suspects:
    """What a run knows of failed batches, and what follows for the next ones.

    Messages are suspects only in a run that began with a batch that had failed. In other runs a
    high dequeue count means nothing: another consumer, or an availableNow run that only looked at
    a message, raises it, too. Not kept over a restart: the next run replays and learns again.

    max_dequeue_count: None if poison handling is off.
    """

    def __init__(self, max_dequeue_count: int | None) -> None:
        self._max_dequeue_count = max_dequeue_count
        self._failed_alone: set[MessageKey] = set()
        self.isolating = False
        """True if this run replayed a failed batch, so one of its messages may be poison."""

    def batch_failed(self, leases: Sequence[Lease]) -> None:
        """Note that a batch of these messages did not commit."""
        self.isolating = True
        if len(leases) == 1:
            self._failed_alone.add(leases[0].key)

    def isolate(self) -> None:
        """From now on look for a poison message, if poison handling is on."""
        self.isolating = self._max_dequeue_count is not None

    def among(self, messages: Iterable[Message]) -> bool:
        """True if one of these was chosen because it may be poison."""
        return self.isolating and any(message.dequeue_count > 1 for message in messages)

    def room(self, waiting: Collection[Message], most: int) -> int:
        """How many more messages the next batch could use (0 or less: none).

        At most `most` messages wait, which bounds the memory. Messages delivered for the first time
        count, too, although the suspects are delivered before them.
        """
        free = most - len(waiting)
        if not self.isolating:  # quick: this is asked before every dequeue
            return free
        suspects, group = self._suspects(waiting, most)
        return min(free, group - len(suspects)) if suspects else free

    def choose(self, waiting: Sequence[Message], most: int) -> list[Message]:
        """The messages of the next batch: the likeliest suspect, and others up to its group limit.

        Messages delivered for the first time are chosen if no suspect waits.
        """
        suspects, group = self._suspects(waiting, most)
        return suspects[:group] if suspects else list(waiting[:most])

    def is_poison(self, message: Message) -> bool:
        """True if this message is to be dead-lettered: it failed alone, and came too often."""
        return (
            self._max_dequeue_count is not None
            and message.dequeue_count > self._max_dequeue_count
            and message.key in self._failed_alone
        )

    def _suspects(self, waiting: Iterable[Message], most: int) -> tuple[list[Message], int]:
        """Messages that came back, the most often delivered first; how many may share a batch."""
        if not self.isolating or self._max_dequeue_count is None:
            return [], most
        came_back = [message for message in waiting if message.dequeue_count > 1]
        came_back.sort(key=lambda message: -message.dequeue_count)
        if not came_back:
            return [], most
        return came_back, group_limit(came_back[0].dequeue_count, most, self._max_dequeue_count)
