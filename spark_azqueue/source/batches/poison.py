"""Which messages to give out together, and which one to set aside as poison.

A dequeue count says how often a message was delivered, not how often it failed: one crash raises it
for a whole batch. So a high count only makes a suspect. Suspects are given out in ever smaller
groups, until the guilty one stands alone; it is set aside when its count is over the maximum and
the batch in which it stood alone did not commit.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from spark_azqueue.service.messages import Message


def group_limit(dequeue_count: int, most: int, max_dequeue_count: int) -> int:
    """How many messages may share a batch with one that was dequeued so often.

    `most` at the first delivery, one when the count is over the maximum, and geometric steps
    between: with most=1024 and a maximum of 5 it is 1024, 256, 64, 16, 4, 1.
    """
    if dequeue_count <= 1:
        return most
    if dequeue_count > max_dequeue_count:
        return 1
    share = (max_dequeue_count + 1 - dequeue_count) / max_dequeue_count
    return max(1, math.floor(math.pow(most, share) + 1e-9))


def room(waiting: Sequence[Message], most: int, max_dequeue_count: int | None) -> int:
    """How many more messages the next batch could use (0 or less: none).

    Never more than there is room for in memory: `most` messages wait at most. Messages delivered
    for the first time count, too, though they come only after the suspects.
    """
    free = most - len(waiting)
    suspects = _suspects(waiting, max_dequeue_count)
    if not suspects or max_dequeue_count is None:
        return free
    group = group_limit(suspects[0].dequeue_count, most, max_dequeue_count)
    return min(free, group - len(suspects))


def choose(waiting: Sequence[Message], most: int, max_dequeue_count: int | None) -> list[Message]:
    """The messages of the next batch: the worst suspect with as many others as it may have.

    Messages delivered for the first time come when no suspect waits; a maximum of None (poison
    handling is off) suspects nobody.
    """
    suspects = _suspects(waiting, max_dequeue_count)
    if not suspects or max_dequeue_count is None:
        return list(waiting[:most])
    return suspects[: group_limit(suspects[0].dequeue_count, most, max_dequeue_count)]


def is_guilty(
    message: Message, failed_alone: Collection[tuple[str, str]], max_dequeue_count: int | None
) -> bool:
    """True for a message to set aside.

    failed_alone: (queue, id) of messages that were alone in a batch which did not commit.
    """
    return (
        max_dequeue_count is not None
        and message.dequeue_count > max_dequeue_count
        and (message.queue, message.message_id) in failed_alone
    )


def _suspects(waiting: Sequence[Message], max_dequeue_count: int | None) -> list[Message]:
    """Messages that came back, the most often delivered first."""
    if max_dequeue_count is None:
        return []
    came_back = [message for message in waiting if message.dequeue_count > 1]
    return sorted(came_back, key=lambda message: -message.dequeue_count)
