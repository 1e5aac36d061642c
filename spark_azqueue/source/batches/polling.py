"""How often a queue is asked, and which queue is asked next.

A queue with a backlog gets many requests at once, an empty one gets few. Queues with a backlog get
equal shares. Time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spark_azqueue.service.messages import QueueRef

FIRST_PAUSE_S = 0.1
"""Pause after the first look that found nothing; it doubles up to `maxPollInterval`."""

# 0.1 s doubled 16 times is two hours: beyond any maxPollInterval, and no float overflows.
_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class Pace:
    """How one queue is polled: `width` requests at once, the next not before `not_before`."""

    width: int = 1
    empty_looks: int = 0
    not_before: float = 0.0

    def page(self, *, asked: int, got: int, widest: int) -> Pace:
        """After one page: twice as wide if it was full, otherwise one request at a time."""
        if got >= asked > 0:
            return Pace(min(self.width * 2, widest), 0, self.not_before)
        return Pace(1, 0 if got else self.empty_looks, self.not_before)

    def rest(self, *, found: bool, now: float, longest_s: float) -> Pace:
        """After a whole look at the queue: ask at once, or after a longer pause if it was empty."""
        if found:
            return Pace(self.width, 0, now)
        looks = self.empty_looks + 1
        pause = min(FIRST_PAUSE_S * 2 ** min(looks - 1, _DOUBLINGS), longest_s)
        return Pace(1, looks, now + pause)


class Turns:
    """Which queue is asked next, so that queues with a backlog get equal numbers of messages.

    Each queue has a mark: how many messages it was asked for. The queue with the lowest mark is
    next. A queue that ran short starts again level with the others, so that idle time earns no
    credit. (This is start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996.) Not kept over a
    restart.

    most_credit: how many messages a queue may lag behind and still make up for it.
    """

    def __init__(self, queues: Sequence[QueueRef], most_credit: int) -> None:
        self._marks = dict.fromkeys(queues, 0)  # the one asked longest ago comes first
        self._short: set[QueueRef] = set()
        self._most_credit = most_credit
        self._level = 0  # the highest mark at which a request has begun

    def next(self, queues: Iterable[QueueRef]) -> QueueRef:
        """Which of these queues (at least one) to ask now; of equals, the one asked longest ago."""
        wanted = set(queues)
        return min((queue for queue in self._marks if queue in wanted), key=self._mark)

    def asked(self, queue: QueueRef, count: int) -> None:
        """Note that a request for `count` messages of this queue begins."""
        mark = self._mark(queue)
        del self._marks[queue]
        self._marks[queue] = mark + count
        self._level = max(self._level, mark)
        self._short.discard(queue)

    def answered(self, queue: QueueRef, *, asked: int, got: int) -> None:
        """Note that a request for `asked` messages of this queue brought `got`."""
        self._marks[queue] -= asked - got
        if got < asked:
            self._short.add(queue)

    def _mark(self, queue: QueueRef) -> int:
        credit = 0 if queue in self._short else self._most_credit
        return max(self._marks[queue], self._level - credit)
