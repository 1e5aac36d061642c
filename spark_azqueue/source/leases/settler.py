"""Carries out deletes and releases, many at once, and says when they are finished.

It decides nothing: what to delete comes from the ledger or from an offset, and every outcome is
reported back.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceError
from spark_azqueue.service.lanes import Lanes
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.calls import Delete, Release
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.retry import REPLAY, SETTLE, RetryPolicy
from spark_azqueue.service.workers import Submits

from .groups import Group, Task, gone_or, let_go, plainly

log = logging.getLogger(__name__)

Report = Callable[[Lease, Outcome], None]

_GLANCE_S = 0.05
"""How long the thread waits for answers before it looks whether more is to be done."""

_RELEASES_AT_ONCE = 64
"""With parallelism None."""


class Settler:
    """Deletes and releases leased messages, many at once, in one thread.

    parallelism: how many requests at once. None: as many deletes as the limits of each queue allow;
    a queue at its limit holds up no other, and releases do not wait for the limits.
    `report` is called from that thread. Whatever goes wrong there, each request ends: done,
    refused, or with an error. The next `wait` raises an unexpected error.
    """

    def __init__(
        self,
        client: QueueClient,
        workers: Submits,
        parallelism: int | None,
        report: Report,
        may_vanish: Callable[[QueueRef], bool] = lambda queue: False,
    ) -> None:
        """may_vanish: true for a queue that may be removed while it is read."""
        self._may_vanish = may_vanish
        self._client = client
        self._workers = workers
        self._parallelism = parallelism
        self._report = report
        self._changed = threading.Condition()
        self._due: Lanes[QueueRef | None, Task] = Lanes()
        self._releasing = 0  # releases under way
        self._left = 0  # due or under way
        self._running = False
        self._fatal: Exception | None = None

    def begin(self, leases: Sequence[Lease], done: Callable[[bool], None] | None = None) -> None:
        """Delete these in the background; each outcome is reported (RETRY = given up).

        done: called after the last one, with whether any receipt was refused.
        """
        group = Group(len(leases), done)
        self._add_in_background(
            [Task(Delete(each), each, SETTLE, group, self._deleted) for each in leases]
        )

    def begin_release(self, leases: Sequence[Lease]) -> None:
        """Release these in the background (best effort)."""
        group = Group(len(leases))
        self._add_in_background(
            [Task(Release(each), each, SETTLE, group, let_go) for each in leases]
        )

    def wait(self, timeout_s: float) -> None:
        """Wait for all requests; give up deletes that are not sent when `timeout_s` is over.

        Raises the error of a delete if no retry can help (access revoked, queue gone, a broken
        credential): the messages are processed, but will come again. Also raises what went wrong
        in the thread, and RuntimeError if it cannot be started: try again then.
        """
        self._keep_running()
        with self._changed:
            in_time = self._changed.wait_for(lambda: not self._left, timeout_s)
        if not in_time:
            for task in self._take_out(lambda task: task.ended == self._deleted):
                self._end(task, Outcome.RETRY)
        fatal, self._fatal = self._fatal, None
        if fatal:
            raise fatal

    def delete_restored(self, leases: Sequence[Lease]) -> list[Lease]:
        """Delete with exactly these receipts and return when done; a refusal is final.

        Returns those that were deleted. Raises ServiceError if the service does not answer: then
        nothing may be dequeued yet.
        """
        group = Group(len(leases))
        return self._each(
            [Task(Delete(each), each, REPLAY, group, gone_or) for each in leases], group
        )

    def release(
        self, leases: Sequence[Lease], retry: RetryPolicy = REPLAY, timeout_s: float | None = None
    ) -> int:
        """Make these visible again at once, and return when every receipt is known dead.

        Returns how many were released; the others were refused, so their receipts are dead, too.
        Raises ServiceError if that is unknown for one, TimeoutError after `timeout_s` seconds.
        """
        group = Group(len(leases))
        tasks = [
            Task(Release(each), each, retry, group, gone_or if self._may_go(each) else plainly)
            for each in leases
        ]
        return len(self._each(tasks, group, timeout_s))

    def _each(
        self, tasks: Sequence[Task], group: Group, timeout_s: float | None = None
    ) -> list[Lease]:
        try:
            self._add(tasks)
        except RuntimeError:
            self._take_out(lambda task: task.group is group)
            raise
        in_time = group.finished.wait(timeout_s)
        if not in_time or group.error:
            self._take_out(lambda task: task.group is group)
        if group.error:
            raise group.error
        if not in_time:
            raise TimeoutError(f"not answered within {timeout_s} s")
        return group.done

    # ── the thread ────────────────────────────────────────────────────────────────────────────────

    def _add(self, tasks: Sequence[Task]) -> None:
        with self._changed:
            for task in tasks:
                self._due.add(self._lane(task), task)
            self._left += len(tasks)
        self._keep_running()

    def _add_in_background(self, tasks: Sequence[Task]) -> None:
        try:
            self._add(tasks)
        except RuntimeError as error:
            log.warning("deletes and releases wait, since no thread can be started: %s", error)

    def _keep_running(self) -> None:
        """Start the thread if something is due. Raises RuntimeError if none can be started."""
        with self._changed:
            if self._running or not self._due:
                return
            self._running = True
        try:
            self._workers.submit(self._run)
        except RuntimeError:
            self._running = False
            raise

    def _take_out(self, which: Callable[[Task], bool]) -> list[Task]:
        """Remove these requests, if they were not sent yet, and return them."""
        with self._changed:
            taken = self._due.take(which)
            self._ended(len(taken))
        return taken

    def _run(self) -> None:
        under_way: set[Task] = set()
        try:
            with contextlib.closing(self._client.in_flight()) as flight:
                while self._next(flight, under_way):
                    results = flight.ended(_GLANCE_S)
                    for task, outcome in results:
                        under_way.discard(task)
                        self._releasing -= isinstance(task.call, Release)
                        self._end(task, outcome)
                    with self._changed:
                        self._ended(len(results))
        except Exception as error:
            log.exception("deletes and releases were broken off")
            self._break_off(under_way, error)

    def _break_off(self, under_way: Iterable[Task], error: Exception) -> None:
        """End all requests with this error: those due, and those under way (outcome unknown)."""
        with self._changed:
            tasks = [*under_way, *self._due.take()]
            self._releasing = 0
            self._running = False
        self._fatal = error  # `wait` raises it
        for task in tasks:
            self._end(task, error)
        with self._changed:
            self._ended(len(tasks))

    def _end(self, task: Task, result: Outcome | Exception) -> None:
        try:
            task.ended(task, result)
        except Exception as error:
            log.exception("what came of message %s could not be noted", task.lease.message_id)
            self._fatal = error  # `wait` raises it

    def _ended(self, count: int) -> None:
        """Note that `count` fewer are due or under way. Callers must hold the lock."""
        self._left -= count
        if not self._left:
            self._changed.notify_all()

    def _next(self, flight: InFlight[Task, Outcome], under_way: set[Task]) -> bool:
        """Begin as many as may be under way. False if nothing is left to do."""
        full: set[QueueRef | None] = set()
        while self._parallelism is None or len(flight) < self._parallelism:
            with self._changed:
                found = self._due.next(full)
                if found is None:
                    self._running = bool(len(flight) or self._due)
                    return self._running
                lane, task = found
                under_way.add(task)
            if not self._begin(flight, task):
                full.add(lane)
                with self._changed:
                    under_way.discard(task)
                    self._due.put_back(lane, task)
        return True

    def _begin(self, flight: InFlight[Task, Outcome], task: Task) -> bool:
        """Begin this one, unless it has to wait for the limits."""
        is_release = isinstance(task.call, Release)
        if self._parallelism is None:
            if not is_release:
                return flight.try_begin(task, task.call, task.retry)
            if self._releasing >= _RELEASES_AT_ONCE:
                return False
        self._releasing += is_release
        flight.begin(task, task.call, task.retry)
        return True

    def _may_go(self, lease: Lease) -> bool:
        return self._may_vanish(lease.queue)

    def _lane(self, task: Task) -> QueueRef | None:
        """The lane in which it waits: with a fixed parallelism there is one for all."""
        if self._parallelism is not None or isinstance(task.call, Release):
            return None
        return task.lease.queue

    # ── what becomes of each ──────────────────────────────────────────────────────────────────────

    def _deleted(self, task: Task, result: Outcome | Exception) -> None:
        """A background delete of a committed message ended: report it."""
        if isinstance(result, QueueNotFound) and self._may_go(task.lease):
            result = Outcome.OK  # the message went with its queue
        outcome = result if isinstance(result, Outcome) else Outcome.RETRY
        if isinstance(result, ServiceError) and result.outcome is Outcome.RETRY:
            log.warning("%s; it is remembered and deleted when it comes back", result)
        elif isinstance(result, Exception):
            self._fatal = result  # `wait` raises it
        try:
            self._report(task.lease, outcome)
        finally:
            task.group.ended(task.lease, outcome)
