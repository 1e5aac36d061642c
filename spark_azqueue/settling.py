"""Carries out deletes and releases, many at once, and says when they are finished.

It decides nothing: what to delete comes from the ledger or from an offset, and every outcome is
reported back. Ring: edge.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .azure_queue import AzureQueue
from .errors import Outcome, QueueNotFound, ServiceError
from .leases import Lease
from .retry import REPLAY, SETTLE, Retry
from .workers import Lanes

log = logging.getLogger(__name__)

FindQueue = Callable[[str], AzureQueue]
Report = Callable[[Lease, Outcome], None]


class _Group:
    """Requests begun together: what came of them, told once, at the end."""

    def __init__(self, size: int, done: Callable[[bool], None] | None = None) -> None:
        self._left = size
        self._done = done
        self._lock = threading.Lock()
        self._refused = False
        self.ok = 0
        self.error: Exception | None = None
        self.finished = threading.Event()
        """Set at the end, or at the first error."""
        if not size:
            self.finished.set()

    def ended(self, outcome: Outcome | Exception) -> None:
        with self._lock:
            self._left -= 1
            last = self._left == 0
            if isinstance(outcome, Exception):
                self.error = outcome
            else:
                self.ok += outcome is Outcome.OK
                self._refused |= outcome.refused
        if last and self._done:
            self._done(self._refused)
        if last or self.error:
            self.finished.set()


@dataclass(slots=True)
class _Task:
    """One request to make. It keeps its error, and tells its group."""

    act: Callable[[Lease], Outcome]
    lease: Lease
    group: _Group

    def __call__(self) -> None:
        try:
            outcome: Outcome | Exception = self.act(self.lease)
        except Exception as error:  # noqa: BLE001 (it is not lost: the group has it)
            outcome = error
        self.group.ended(outcome)


class Settler:
    """Deletes and releases leased messages. `report` is called from the workers' threads."""

    def __init__(self, find_queue: FindQueue, lanes: Lanes, report: Report) -> None:
        self._find_queue = find_queue
        self._report = report
        self._lanes = lanes
        self._fatal: Exception | None = None

    def begin(self, leases: Sequence[Lease], done: Callable[[bool], None] | None = None) -> None:
        """Delete these in the background; each outcome is reported (RETRY = given up).

        done: called after the last one, with whether any receipt was refused.
        """
        group = _Group(len(leases), done)
        self._lanes.add([_Task(self._delete, lease, group) for lease in leases])

    def begin_release(self, leases: Sequence[Lease]) -> None:
        """Release these in the background, as well as it goes."""
        group = _Group(len(leases))
        self._lanes.add([_Task(self._release, lease, group) for lease in leases])

    def wait(self, timeout_s: float) -> None:
        """Wait for all that was begun; give up what has not begun when the time runs out.

        Raises the error that a delete met where no retry can help (access revoked, queue gone, a
        broken credential): the messages are processed, but will come again.
        """
        for task in self._lanes.wait(timeout_s):
            assert isinstance(task, _Task)
            self._report(task.lease, Outcome.RETRY)
            task.group.ended(Outcome.RETRY)
        fatal, self._fatal = self._fatal, None
        if fatal:
            raise fatal

    def delete_restored(self, leases: Sequence[Lease]) -> None:
        """Delete with exactly these receipts and return when done; a refusal is an end, too.

        Raises ServiceError where the service stays away: then nothing may be dequeued yet.
        """
        self._each(leases, REPLAY, _delete_or_gone)

    def release(
        self, leases: Sequence[Lease], retry: Retry = REPLAY, timeout_s: float | None = None
    ) -> int:
        """Make these visible again at once, and return when every receipt is known dead.

        Returns how many were released; the others were refused, which proves as much.
        Raises ServiceError where that could not be found out for each.
        """
        return self._each(leases, retry, lambda queue, lease: queue.update(lease, 0)[0], timeout_s)

    def _each(
        self,
        leases: Sequence[Lease],
        retry: Retry,
        act: Callable[[AzureQueue, Lease], Outcome],
        timeout_s: float | None = None,
    ) -> int:
        group = _Group(len(leases))

        def tried(lease: Lease) -> Outcome:
            return retry(act, self._find_queue(lease.queue), lease)

        tasks = [_Task(tried, lease, group) for lease in leases]
        self._lanes.add(tasks)
        in_time = group.finished.wait(timeout_s)
        if not in_time or group.error:
            self._lanes.take_out(lambda task: isinstance(task, _Task) and task.group is group)
        if group.error:
            raise group.error
        if not in_time:
            raise TimeoutError(f"not answered within {timeout_s} s")
        return group.ok

    def _delete(self, lease: Lease) -> Outcome:
        outcome = Outcome.RETRY
        try:
            outcome = SETTLE(self._find_queue(lease.queue).delete, lease)
        except ServiceError as error:
            if error.outcome is not Outcome.RETRY:
                self._fatal = error  # `wait` tells
            else:
                log.warning("%s; it is remembered and deleted when it comes back", error)
        except Exception as error:  # noqa: BLE001 (a credential of the user's own, say)
            self._fatal = error
        self._report(lease, outcome)
        return outcome

    def _release(self, lease: Lease) -> Outcome:
        try:
            return SETTLE(self._find_queue(lease.queue).update, lease, 0)[0]
        except ServiceError as error:
            log.warning("a lease could not be given back: %s; it runs out by itself", error)
            return Outcome.RETRY


def _delete_or_gone(queue: AzureQueue, lease: Lease) -> Outcome:
    """Delete; a queue that does not exist any more holds nothing to delete."""
    try:
        return queue.delete(lease)
    except QueueNotFound:
        return Outcome.GONE
