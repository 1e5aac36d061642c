"""The service's approximate message count of each queue, and the age of its first visible message.

Metrics use recent counts, which are refreshed seldom. If the count of a queue fails, the metric of
this queue is left out. A failed count raises no error and does not delay the stream. At its end, an
availableNow run counts once more to find out whether the queues are empty.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from spark_azqueue.errors import AccessDenied, QueueNotFound, ServiceUnavailable
from spark_azqueue.metrics.report import MOST_QUEUES_REPORTED
from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.service.messages import ENDLESS_US, UNKNOWN_TIME, Message, QueueRef
from spark_azqueue.service.queues.calls import Count, Peek, Peeked
from spark_azqueue.service.queues.client import InFlight, QueueClient

log = logging.getLogger(__name__)

BUSY_PAUSE_S = 10.0
"""Seconds between two counts while messages arrive."""

IDLE_PAUSE_S = 300.0
"""Seconds between two counts while no messages arrive, so that idle queues cause few requests."""

PAUSE_PER_QUEUE_S = 0.1
"""Shortest pause between two counts, in seconds for each queue. So the counts need at most 10
requests/s."""

HEADS_PAUSE_S = 60.0
"""Seconds between two peeks at the first messages while messages arrive."""

PATIENCE_S = 1.0
"""Longest wait for the answers to a count, in seconds. Spark waits during this time."""


class Backlog:
    """Counts the messages in queues. Not thread-safe."""

    def __init__(
        self,
        client: QueueClient,
        queues: Sequence[QueueRef],
        clock: Callable[[], float],
        *,
        peeks: int = 0,
        may_lack: bool = False,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Store the arguments; nothing is sent. clock: returns monotonic time in seconds.

        peeks: number of messages to peek at in each of the first 100 queues. may_lack: True if
        queues may be missing. A missing queue is counted again after 300 s. patience_s: longest
        wait for the answers, in seconds.
        """
        self._client = client
        self._queues = tuple(queues)
        self._denied: set[QueueRef] = set()
        self._blind: set[QueueRef] = set()  # queues that the credential may not peek at
        self._may_lack = may_lack
        self._lacking: dict[QueueRef, float] = {}  # time until which a missing queue is skipped
        self._peeks = peeks
        self._patience_s = patience_s
        self._looked_at: float | None = None
        self.errors: dict[QueueRef, Exception] = {}
        """Error of each queue whose last count or peek failed."""
        self.visible: dict[str, int] = {}
        """Number of visible messages at the last peek, by queue. A queue is left out if the peek
        returned as many messages as were requested, because the queue may have more messages."""
        self.expires: dict[str, int] = {}
        """Seconds until the earliest expiry of a peeked message, by queue. A queue whose messages
        do not expire is left out."""
        self.heads: dict[str, int] = {}
        """Age of each queue's first visible message at the last peek, in seconds by the service's
        clock. A queue without visible messages is left out."""
        self.seen: set[str] = set()
        """Names of the queues whose last peek succeeded and showed the first message's age, or that
        there is no visible message."""
        self._clock = clock
        self._known: dict[str, int] = {}
        self._asked_at: float | None = None
        self._was_idle = False

    def count_in(self, queues: Sequence[QueueRef]) -> None:
        """From now on, count the messages of these queues."""
        self._queues = tuple(queues)

    def newest(self, *, idle: bool) -> dict[str, int]:
        """Return the number of messages by queue name, from a recent count. Never raises.

        If a count is due, this method sends one request per queue. A queue is left out if its
        answer does not arrive in time, or if the credential may not count its messages.

        idle: True if the last pass over the queues found no message. In this case the queues are
        counted once more soon, and every 300 s after this count.
        """
        now = self._clock()
        pause = max(BUSY_PAUSE_S, PAUSE_PER_QUEUE_S * len(self._queues))
        if idle and self._was_idle:
            pause = IDLE_PAUSE_S
        if self._asked_at is None or now >= self._asked_at + pause:
            self._asked_at, self._was_idle = now, idle
            looks = bool(self._peeks) and (
                idle or self._looked_at is None or now >= self._looked_at + HEADS_PAUSE_S
            )
            try:
                self._known = self._count(looks=looks)
            except Exception:
                self._known = {}
                log.debug("the backlog is unknown", exc_info=True)
        return dict(self._known)

    def now(self, *, heads: bool = False) -> dict[str, int]:
        """Count the messages of each queue now. heads: True to also peek at each queue now."""
        self._asked_at = None
        if heads:
            self._looked_at = None
        return self.newest(idle=False)

    def ask_again(self) -> None:
        """From now on, also send requests to queues for which the credential lacked permission."""
        self._denied.clear()
        self._blind.clear()

    def _count(self, *, looks: bool) -> dict[str, int]:
        """Count messages by queue name. looks: True to also peek at the queues."""
        flight: InFlight[tuple[QueueRef, bool], int | Peeked] = self._client.in_flight()
        known: dict[QueueRef, int] = {}
        self.errors = {}
        if looks:
            self._looked_at, self.heads = self._clock(), {}
            self.seen, self.visible, self.expires = set(), {}, {}
        deadline = self._clock() + self._patience_s
        try:
            for queue in self._queues:
                if queue in self._denied or self._lacking.get(queue, 0) > self._clock():
                    continue
                flight.begin((queue, False), Count(queue))
            for queue in self._queues[:MOST_QUEUES_REPORTED] if looks else ():
                if queue not in self._blind:
                    flight.begin((queue, True), Peek(queue, self._peeks))
            while len(flight) and (left := deadline - self._clock()) > 0:
                for (queue, is_peek), result in flight.ended(left):
                    if isinstance(result, int):
                        known[queue] = result
                    elif isinstance(result, Peeked):
                        self._see(queue, result)
                    else:
                        self._failed(queue, result, is_peek=is_peek)
        finally:
            flight.close()
        for queue in self._queues:
            if queue not in known and queue not in self._denied:
                silent = ServiceUnavailable(f"no answer within {self._patience_s:g} s")
                self.errors.setdefault(queue, silent)
        return {queue.name: known[queue] for queue in self._queues if queue in known}

    def _see(self, queue: QueueRef, peeked: Peeked) -> None:
        if len(peeked.messages) < self._peeks:
            self.visible[queue.name] = len(peeked.messages)
        if not peeked.messages:
            self.seen.add(queue.name)
        elif peeked.answered_at is not None:
            (first, *_) = peeked.messages
            expiring = min(each.expiration_time for each in peeked.messages)
            if UNKNOWN_TIME < expiring < ENDLESS_US:
                self.expires[queue.name] = (expiring - peeked.answered_at) // 1_000_000
            if first.insertion_time != UNKNOWN_TIME:
                age = (peeked.answered_at - first.insertion_time) // 1_000_000
                self.heads[queue.name] = max(0, age)
                self.seen.add(queue.name)

    def _failed(self, queue: QueueRef, error: Exception, *, is_peek: bool) -> None:
        what = "the age of the first message" if is_peek else "the backlog"
        self.errors.setdefault(queue, error)
        if self._may_lack and isinstance(error, QueueNotFound):
            self._lacking[queue] = self._clock() + IDLE_PAUSE_S
        if isinstance(error, AccessDenied) and error.status == 403:
            (self._blind if is_peek else self._denied).add(queue)
            log.warning(
                "%s of queue '%s' stays unknown in this run; the stream does not need it: %s",
                what,
                queue.name,
                error,
            )
        else:
            log.debug("%s of queue '%s' is unknown: %s", what, queue.name, error)


EXPIRED_AFTER_S = 3.0
"""Seconds after which a skipped message has surely expired: 2 s to live, plus 1 s because the
service rounds times to whole seconds."""

_A_MINUTE_S = 60.0


class Isolation:
    """Finds messages that a transaction may have abandoned, and logs the number of such messages
    that were skipped.

    Used by one thread. clock: returns the time in seconds.
    """

    def __init__(self, level: IsolationLevel, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_on = level is IsolationLevel.READ_COMMITTED
        self._clock = clock
        self._left = 0
        self._warned_at: float | None = None
        self.until = 0.0
        """Time, by `clock`, at which all skipped messages have expired."""

    def may_be_abandoned(self, message: Message, answered_at: int | None) -> bool:
        """Return True if a transaction may have abandoned the message. Such a message gets no row.

        answered_at: `Date` header of the answer that contained the message, in microseconds since
        1970. If this time or the message's expiry is unknown, the result is False.
        """
        return self._is_on and message.is_in_its_last(answered_at)

    def left(self, count: int) -> None:
        """Count messages that were skipped near their expiry. Logs a warning, at most once a
        minute."""
        if not count:
            return
        self._left += count
        now = self._clock()
        self.until = now + EXPIRED_AFTER_S
        if self._warned_at is not None and now - self._warned_at < _A_MINUTE_S:
            return
        self._warned_at = now
        log.warning(
            "isolationLevel=readCommitted: %d messages gave no row so far and are left to expire:"
            " they had two seconds or less to live, so a transaction may have abandoned them",
            self._left,
        )
