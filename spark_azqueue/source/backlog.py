"""The approximate number of messages in each queue, as the service counts them. Seldom refreshed.

It is informational, and nothing depends on it. If a count fails, the figure is left out; that
neither raises nor delays the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from spark_azqueue.errors import AccessDenied
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Count
from spark_azqueue.service.queues.client import InFlight, QueueClient

log = logging.getLogger(__name__)

BUSY_PAUSE_S = 10.0
"""Pause between two counts while messages arrive."""

IDLE_PAUSE_S = 300.0
"""Pause between two counts while none arrive: with its polls, below one request a second."""

_PAUSE_PER_QUEUE_S = 0.1
"""Counting takes at most 10 requests a second."""

PATIENCE_S = 1.0
"""How long to wait for the answers. Spark waits meanwhile."""


class Backlog:
    """Counts the messages in these queues. Not thread-safe."""

    def __init__(
        self, client: QueueClient, queues: Sequence[QueueRef], clock: Callable[[], float]
    ) -> None:
        """Store the arguments. Nothing is sent before the first call. clock: seconds, monotonic."""
        self._client = client
        self._queues = tuple(queues)
        self._denied: set[QueueRef] = set()
        self._clock = clock
        self._known: dict[str, int] = {}
        self._asked_at: float | None = None
        self._was_idle = False

    def count_in(self, queues: Sequence[QueueRef]) -> None:
        """From now on count the messages of these queues."""
        self._queues = tuple(queues)

    def newest(self, *, idle: bool) -> dict[str, int]:
        """Messages by queue name, from a recent count. Sends a request per queue if one is due.

        idle: no message came. Then the queues are counted once more soon, and seldom after that.
        A queue without an answer, or that the credential may not count, is left out.
        Never raises.
        """
        now = self._clock()
        pause = max(BUSY_PAUSE_S, _PAUSE_PER_QUEUE_S * len(self._queues))
        if idle and self._was_idle:
            pause = IDLE_PAUSE_S
        if self._asked_at is None or now >= self._asked_at + pause:
            self._asked_at, self._was_idle = now, idle
            try:
                self._known = self._count()
            except Exception:
                self._known = {}
                log.debug("the backlog is not known", exc_info=True)
        return dict(self._known)

    def now(self) -> dict[str, int]:
        """The same, counted now."""
        self._asked_at = None
        return self.newest(idle=False)

    def _count(self) -> dict[str, int]:
        flight: InFlight[QueueRef, int] = self._client.in_flight()
        known: dict[QueueRef, int] = {}
        deadline = self._clock() + PATIENCE_S
        try:
            for queue in self._queues:
                if queue in self._denied:
                    continue
                flight.begin(queue, Count(queue))
            while len(flight) and (left := deadline - self._clock()) > 0:
                for queue, result in flight.ended(left):
                    if isinstance(result, int):
                        known[queue] = result
                    else:
                        self._failed(queue, result)
        finally:
            flight.close()
        return {queue.name: known[queue] for queue in self._queues if queue in known}

    def _failed(self, queue: QueueRef, error: Exception) -> None:
        if isinstance(error, AccessDenied) and error.status == 403:
            self._denied.add(queue)
            log.warning(
                "the backlog of queue '%s' stays unknown in this run; the stream does not need"
                " it: %s",
                queue.name,
                error,
            )
        else:
            log.debug("the backlog of queue '%s' is not known: %s", queue.name, error)
