"""Groups of requests that delete or release messages, and what to do when each request ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from spark_azqueue.errors import Outcome, QueueNotFound
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Call
from spark_azqueue.service.retry import RetryPolicy

log = logging.getLogger(__name__)


class Group:
    """Requests begun together. `done` is called once, at the end: True if one was refused."""

    def __init__(self, size: int, done: Callable[[bool], None] | None = None) -> None:
        self._left = size
        self._tell = done
        self._lock = threading.Lock()
        self._refused = False
        self.done: list[Lease] = []
        """The leases whose requests succeeded."""
        self.error: Exception | None = None
        self.finished = threading.Event()
        """Set at the end, or at the first error."""
        if not size:
            self.finished.set()

    def ended(self, lease: Lease, outcome: Outcome | Exception) -> None:
        """Note that one of them ended."""
        with self._lock:
            self._left -= 1
            last = self._left == 0
            if isinstance(outcome, Exception):
                self.error = outcome
            else:
                self._refused |= outcome.refused
                if outcome is Outcome.OK:
                    self.done.append(lease)
        try:
            if last and self._tell:
                self._tell(self._refused)
        finally:
            if last or self.error:
                self.finished.set()


@dataclass(slots=True, eq=False)
class Task:
    """One request to make, and what to call when it ends."""

    call: Call[Outcome]
    lease: Lease
    retry: RetryPolicy
    group: Group
    ended: Callable[[Task, Outcome | Exception], None]


def let_go(task: Task, result: Outcome | Exception) -> None:
    """A release in the background: if it fails, the lease runs out by itself."""
    if isinstance(result, Exception):
        log.warning("a lease could not be given back: %s; it runs out by itself", result)
        result = Outcome.RETRY
    task.group.ended(task.lease, result)


def gone_or(task: Task, result: Outcome | Exception) -> None:
    """A restored delete, or a release in a queue that may go: the message went with its queue."""
    task.group.ended(task.lease, Outcome.GONE if isinstance(result, QueueNotFound) else result)


def plainly(task: Task, result: Outcome | Exception) -> None:
    """A release for which the caller waits: an error ends the wait and is raised there."""
    task.group.ended(task.lease, result)
