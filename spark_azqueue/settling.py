"""Carries out deletes and releases, many at once, and says when they are finished.

It decides nothing: what to delete comes from the ledger or from an offset, and every outcome is
reported back. Ring: edge.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait

from .azure_queue import AzureQueue
from .errors import Outcome, QueueNotFound, ServiceError
from .leases import Lease
from .retry import REPLAY, SETTLE, Retry
from .workers import Submits

log = logging.getLogger(__name__)

FindQueue = Callable[[str], AzureQueue]
Report = Callable[[Lease, Outcome], None]


class _Group:
    """Deletes begun together: tells once, at the end, whether any receipt was refused."""

    def __init__(self, size: int, done: Callable[[bool], None] | None) -> None:
        self._left = size
        self._refused = False
        self._done = done
        self._lock = threading.Lock()

    def ended(self, outcome: Outcome) -> None:
        with self._lock:
            self._refused |= outcome.refused
            self._left -= 1
            last = self._left == 0
        if last and self._done:
            self._done(self._refused)


class Settler:
    """Deletes and releases leased messages. `report` is called from the workers' threads."""

    def __init__(self, find_queue: FindQueue, workers: Submits, report: Report) -> None:
        self._find_queue = find_queue
        self._report = report
        self._workers = workers
        self._lock = threading.Lock()
        self._outstanding: dict[Future[None], tuple[Lease, _Group]] = {}
        self._fatal: BaseException | None = None

    def begin(self, leases: Sequence[Lease], done: Callable[[bool], None] | None = None) -> None:
        """Delete these in the background; each outcome is reported (RETRY = given up).

        done: called after the last one, with whether any receipt was refused.
        """
        group = _Group(len(leases), done)
        for lease in leases:
            self._in_background(self._delete, lease, group)

    def begin_release(self, leases: Iterable[Lease]) -> None:
        """Release these in the background, as well as it goes."""
        for lease in leases:
            self._in_background(self._release, lease, _Group(1, None))

    def _in_background(
        self, work: Callable[[Lease, _Group], None], lease: Lease, group: _Group
    ) -> None:
        future = self._workers.submit(work, lease, group)
        with self._lock:
            self._outstanding[future] = lease, group
        future.add_done_callback(self._ended)

    def wait(self, timeout_s: float) -> None:
        """Wait for all background deletes; give up those not begun when the time runs out.

        Raises the error that a delete met where no retry can help (access revoked, queue gone, a
        broken credential): the messages are processed, but will come again.
        """
        with self._lock:
            waiting = dict(self._outstanding)
        ended, late = wait(waiting, timeout=timeout_s)
        for future in late:
            if future.cancel():
                lease, group = waiting[future]
                self._report(lease, Outcome.RETRY)
                group.ended(Outcome.RETRY)
        with self._lock:
            fatal, self._fatal = self._fatal, None
        for future in ended:  # their own callbacks may come later than this
            fatal = fatal or future.exception()
        if fatal:
            raise fatal

    def delete_restored(self, leases: Iterable[Lease]) -> list[Lease]:
        """Delete with exactly these receipts and return when done; a refusal is an end, too.

        Returns those that were deleted. Raises ServiceError where the service stays away: then
        nothing may be dequeued yet.
        """
        return self._each(leases, REPLAY, _delete_or_gone)

    def release(
        self, leases: Iterable[Lease], retry: Retry = REPLAY, timeout_s: float | None = None
    ) -> int:
        """Make these visible again at once, and return when every receipt is known dead.

        Returns how many were released; the others were refused, which proves as much.
        Raises ServiceError where that could not be found out for each.
        """
        return len(
            self._each(leases, retry, lambda queue, lease: queue.update(lease, 0)[0], timeout_s)
        )

    def _each(
        self,
        leases: Iterable[Lease],
        retry: Retry,
        act: Callable[[AzureQueue, Lease], Outcome],
        timeout_s: float | None = None,
    ) -> list[Lease]:
        """Those for which the service said yes."""
        futures = [
            (lease, self._workers.submit(retry, act, self._find_queue(lease.queue), lease))
            for lease in leases
        ]
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        done: list[Lease] = []
        for lease, future in futures:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                if future.result(timeout=left) is Outcome.OK:
                    done.append(lease)
            except concurrent.futures.TimeoutError as error:  # not the builtin one before 3.11
                raise TimeoutError(f"not answered within {timeout_s} s") from error
        return done

    def _delete(self, lease: Lease, group: _Group) -> None:
        outcome = Outcome.RETRY
        try:
            outcome = SETTLE(self._find_queue(lease.queue).delete, lease)
        except ServiceError as error:
            if error.outcome is not Outcome.RETRY:
                raise  # `wait` tells
            log.warning("%s; it is remembered and deleted when it comes back", error)
        finally:
            self._report(lease, outcome)
            group.ended(outcome)

    def _release(self, lease: Lease, group: _Group) -> None:
        try:
            SETTLE(self._find_queue(lease.queue).update, lease, 0)
        except ServiceError as error:
            log.warning("a lease could not be given back: %s; it runs out by itself", error)

    def _ended(self, future: Future[None]) -> None:
        with self._lock:
            self._outstanding.pop(future, None)
            if not future.cancelled() and (error := future.exception()):
                self._fatal = error


def _delete_or_gone(queue: AzureQueue, lease: Lease) -> Outcome:
    """Delete; a queue that does not exist any more holds nothing to delete."""
    try:
        return queue.delete(lease)
    except QueueNotFound:
        return Outcome.GONE
