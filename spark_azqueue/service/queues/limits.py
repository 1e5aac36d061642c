"""Rate limits and adaptive concurrency of one process, for the queues of an account.

For each queue there is a limit on requests under way (`concurrency.py`) and, after an answer 503 or
429, a rate limit (`rate.py`). One more limit on requests under way is for the
process. Time is an argument; it comes from one monotonic clock, in seconds.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable

from ..messages import QueueRef
from .concurrency import Concurrency
from .rate import Rate

MOST_OF_A_QUEUE = 256
MOST_OF_A_PROCESS = 256
"""Each request under way has a connection, and libcurl looks at all of them each time."""

_MOST_QUEUES = 4_096
"""When there are so many, queues without a request under way are forgotten: queues come and go."""

_LOOK_AGAIN_S = 0.01
"""The retry interval while a limit is full: another thread may free it."""


class Heard(enum.Enum):
    """The outcome of a request for the limiter."""

    DONE = "the service carried it out, or refused it for good"
    BUSY = "the service is too busy: 503 or 429"
    NOTHING = "no answer"


class Turn(enum.Enum):
    """How a request waits for the limits."""

    IN_TURN = "for rate and concurrency"
    AHEAD = "for the rate only, before the others: dequeues bypass concurrency"


class QueueLimits:
    """The concurrency and the rate of one queue."""

    __slots__ = ("concurrency", "rate")

    def __init__(self) -> None:
        self.concurrency = Concurrency(MOST_OF_A_QUEUE)
        self.rate = Rate()


class Limits:
    """The limits of one process for one account. Thread-safe."""

    def __init__(self, of_queue: Callable[[QueueRef], QueueLimits] | None = None) -> None:
        """of_queue: makes the limits of a queue when the first request to it is asked for."""
        self._lock = threading.Lock()
        self._process = Concurrency(MOST_OF_A_PROCESS)
        self._make = of_queue or (lambda _: QueueLimits())
        self._queues: dict[QueueRef, QueueLimits] = {}

    def admit(self, queue: QueueRef, turn: Turn, now: float) -> float:
        """Ask to begin a request. 0: it is admitted, and counts until `ended`.

        Otherwise: after how many seconds to ask again.
        """
        with self._lock:
            of_queue = self._queues.get(queue)
            if of_queue is None:
                self._make_room()
                of_queue = self._queues[queue] = self._make(queue)
            rate = of_queue.rate
            if turn is Turn.AHEAD:
                wait_s = rate.wait_s(now, ahead=True)
                if not wait_s:
                    rate.taken()
                return wait_s
            wait_s = rate.wait_s(now)
            if wait_s:
                return wait_s
            if not (of_queue.concurrency.has_room() and self._process.has_room()):
                rate.wanted(now)
                return _LOOK_AGAIN_S
            rate.taken()
            of_queue.concurrency.begun()
            self._process.begun()
            return 0.0

    def answered(
        self, queue: QueueRef, turn: Turn, heard: Heard, now: float, sent_at: float
    ) -> None:
        """Note the answer to one attempt of an admitted request."""
        with self._lock:
            of_queue = self._queues.get(queue)
            if of_queue is None:  # forgotten since
                return
            if heard is Heard.DONE:
                of_queue.rate.accepted(now, sent_at)
                if turn is Turn.IN_TURN:
                    of_queue.concurrency.answered(now, sent_at)
                    self._process.answered(now, sent_at)
                return
            of_queue.concurrency.disturbed()
            if heard is Heard.BUSY:
                of_queue.rate.refused(now, sent_at)

    def sent_again(self, queue: QueueRef) -> None:
        """Note that an admitted request is sent once more."""
        with self._lock:
            if of_queue := self._queues.get(queue):
                of_queue.rate.taken()

    def ended(self, queue: QueueRef, turn: Turn) -> None:
        """Note that an admitted request ended: no further attempt follows."""
        if turn is Turn.IN_TURN:
            with self._lock:
                self._queues[queue].concurrency.ended()
                self._process.ended()

    def learned(self, queue: QueueRef) -> tuple[int, int | None] | None:
        """What was learned of a queue: requests under way at once, and a second (None: no limit).

        The rate is the mean of this process, since the newest one may be much higher: a limit of
        the account leaves more to a queue when others are done. None if no request was admitted.
        """
        with self._lock:
            of_queue = self._queues.get(queue)
            if of_queue is None:
                return None
            per_s = of_queue.rate.mean_per_s
            return max(1, int(of_queue.concurrency.size)), None if per_s is None else int(per_s)

    def go_on(self, queue: QueueRef, under_way: int, per_s: int | None, now: float) -> None:
        """Begin with what another process has learned of a queue, in place of what this one has."""
        with self._lock:
            self._make_room()
            of_queue = self._queues[queue] = self._make(queue)
            of_queue.concurrency.go_on(under_way)
            if per_s is not None:
                of_queue.rate.go_on(per_s, now)

    def _make_room(self) -> None:
        if len(self._queues) >= _MOST_QUEUES:
            self._queues = {
                q: each for q, each in self._queues.items() if each.concurrency.under_way
            }
