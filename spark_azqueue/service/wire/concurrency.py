"""Adaptive concurrency: learns the limit on concurrent requests from the latency of requests.

More concurrent requests increase throughput until requests wait in the service, or in this process,
which uses one core. Beyond this point, only the latency grows. This module reads no clock:
functions get the time as an argument.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable

from ..messages import QueueRef
from .rate import Rate

MOST_OF_A_QUEUE = 256
MOST_OF_A_PROCESS = 256
"""Maximum number of concurrent requests of this process. Each request has a connection, and libcurl
checks all connections each time that one is ready.
"""

_MOST_QUEUES = 4_096
"""If more queues than this have limits, the limits of queues without a request in flight are
forgotten."""

_LOOK_AGAIN_S = 0.01
"""If a limit is reached, a waiting call asks again after this many seconds, because a request of
another thread may have ended.
"""


class Response(enum.Enum):
    """Outcome of a request, for the limits."""

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
        """of_queue: makes the limits of a queue; called before the first request to the queue."""
        self._lock = threading.Lock()
        self._process = Concurrency(MOST_OF_A_PROCESS)
        self._make = of_queue or (lambda _: QueueLimits())
        self._queues: dict[QueueRef, QueueLimits] = {}

    def admit(self, queue: QueueRef, turn: Turn, now: float) -> float:
        """Ask for permission to begin a request.

        Returns 0 if the request may begin. The request then counts in the limits until `ended` is
        called.

        Otherwise returns the seconds after which to ask again.
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
                rate.wanted(now, is_limit=False)
                return _LOOK_AGAIN_S
            rate.taken()
            of_queue.concurrency.begun()
            self._process.begun()
            return 0.0

    def answered(
        self, queue: QueueRef, turn: Turn, response: Response, now: float, sent_at: float
    ) -> None:
        """Record the answer to one attempt of a request that was admitted."""
        with self._lock:
            of_queue = self._queues.get(queue)
            if of_queue is None:  # the queue's limits were forgotten in the meantime
                return
            if response is Response.DONE:
                of_queue.rate.accepted(now, sent_at)
                if turn is Turn.IN_TURN:
                    of_queue.concurrency.answered(now, sent_at)
                    self._process.answered(now, sent_at)
                return
            of_queue.concurrency.disturbed()
            if response is Response.BUSY:
                of_queue.rate.refused(now, sent_at)

    def sent_again(self, queue: QueueRef) -> None:
        """Record that an admitted request is sent once more."""
        with self._lock:
            if of_queue := self._queues.get(queue):
                of_queue.rate.taken()

    def ended(self, queue: QueueRef, turn: Turn) -> None:
        """Record that an admitted request has ended: no further attempt follows."""
        if turn is Turn.IN_TURN:
            with self._lock:
                self._queues[queue].concurrency.ended()
                self._process.ended()

    def learned(self, queue: QueueRef) -> tuple[int, int | None] | None:
        """Return a queue's learned limits: concurrent requests, and requests per second or None.

        None in place of requests per second means no limit. The rate is the mean since the start of
        this process. The current rate may be much higher: if the account is the limit, a queue can
        use more requests while other queues are idle. Returns None if no request to the queue was
        admitted.
        """
        with self._lock:
            of_queue = self._queues.get(queue)
            if of_queue is None:
                return None
            per_s = of_queue.rate.mean_per_s
            under_way = max(1, int(of_queue.concurrency.size))
            return under_way, None if per_s is None else max(1, int(per_s))

    def go_on(self, queue: QueueRef, under_way: int, per_s: int | None, now: float) -> None:
        """Begin with limits of a queue that another process has learned."""
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


_FIRST = 8.0
_LEAST = 4.0
_START_FACTOR = 2.0
_FACTOR = 1.25

_WAITS = 2.0
"""The limit stops growing if the latency is above this multiple of the base latency."""
_WAITS_LONG = 3.0
"""The limit shrinks if the latency is above this multiple of the base latency."""

_SHRINK = 0.75
_HELPS = 0.9
"""A smaller limit has helped if the latency falls to 0.9 times the latency before. If it has not
helped, the service has become slower, and the base latency is measured again.
"""
_AGAIN_S = 5.0
"""Seconds for which the limit stays unchanged before a smaller limit is tried again."""

_RELEARNS = 1.5
"""If a smaller limit did not help for the first time, the base latency is raised at most by this
factor, because one failure may be chance.

If a smaller limit does not help a second time in a row, the base latency becomes the measured
latency.
"""

_FEWEST = 16
_SHORTEST_WINDOW_S = 0.02
_CALM_WINDOW_S = 0.2
"""Minimum length of a measuring window after the first steps, in seconds. The window is so long
that a short pause of this process does not shrink the limit.
"""
_LONGEST_WINDOW_S = 2.0


class Concurrency:
    """Limit on the number of requests in flight, for one queue or for one process."""

    def __init__(self, most: int) -> None:
        """most: maximum of the limit."""
        self._most = float(most)
        self.size = min(_FIRST, self._most)
        """Maximum number of requests in flight. Rounded down when it is applied."""
        self.under_way = 0
        """Number of requests that have begun but not ended."""
        # base latency in seconds: the smallest mean latency of any window
        self._base = float("inf")
        self._starting = True
        self._before_shrink: float | None = None  # set while a shrink is being judged
        self._failed_shrinks = 0  # how often in a row a smaller limit did not help
        self._shrunk_at = float("-inf")
        self._begin_window(float("-inf"))

    def go_on(self, size: int) -> None:
        """Begin with a limit that another process has learned, and grow by small steps."""
        self.size = min(max(float(size), _LEAST), self._most)
        self._starting = False

    def has_room(self) -> bool:
        """Return True if one more request may begin.

        If the result is False, also records that the limit is fully used, so that the limit may
        grow.
        """
        if self.under_way < int(self.size):
            return True
        self._was_full = True
        return False

    def begun(self) -> None:
        """Record that a request began."""
        self.under_way += 1

    def ended(self) -> None:
        """Record that a request ended, with any result."""
        self.under_way -= 1

    def answered(self, now: float, sent_at: float) -> None:
        """Record that the service carried out a request. sent_at: time at which the request was
        sent."""
        if sent_at < self._since:  # the request was sent while another limit applied
            return
        self._answers += 1
        self._latencies += now - sent_at
        passed = now - self._since
        shortest = _SHORTEST_WINDOW_S if self._starting else _CALM_WINDOW_S
        if self._answers >= max(_FEWEST, self.size) and passed >= shortest:
            self._judge(now, self._latencies / self._answers)
            self._begin_window(now)
        elif passed > _LONGEST_WINDOW_S:
            self._begin_window(now)

    def disturbed(self) -> None:
        """Record that a request was refused or got no answer.

        From now on the limit grows by small steps.
        """
        self._starting = False
        self._was_full = False

    def _begin_window(self, now: float) -> None:
        self._since = now
        self._answers = 0
        self._latencies = 0.0
        self._was_full = False

    def _judge(self, now: float, latency: float) -> None:
        """Adjust the limit at the end of a measuring window. latency: mean latency in the
        window."""
        was_shrunk = self._before_shrink is not None
        if self._before_shrink is not None:
            self._learn(self._before_shrink, latency)
            self._before_shrink = None
        if latency < self._base:
            self._base = latency
        if latency < self._base * _WAITS:
            if self._was_full:
                factor = _START_FACTOR if self._starting else _FACTOR
                self.size = min(self._most, self.size * factor)
            return
        self._starting = False
        too_long = latency > self._base * _WAITS_LONG
        if not was_shrunk and (too_long or now - self._shrunk_at > _AGAIN_S):
            self._shrunk_at = now
            self._before_shrink = latency
            self.size = max(_LEAST, self.size * _SHRINK)

    def _learn(self, before: float, latency: float) -> None:
        """Decide whether a smaller limit has helped. before: latency before the limit shrank.
        latency: latency now."""
        if latency <= before * _HELPS:
            self._failed_shrinks = 0
            return
        self._failed_shrinks += 1
        self._base = latency if self._failed_shrinks > 1 else min(latency, self._base * _RELEARNS)
        self.size = min(self._most, self.size / _SHRINK)
