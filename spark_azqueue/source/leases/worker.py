"""The thread that renews, deletes and releases leased messages.

A lock guards the ledger and the thread's state. The thread sends requests in parallel. Renewals are
sent first, because another consumer gets a message whose lease ends. After the renewals, the queues
take turns with their deletes and releases. The ledger or an offset decides which requests are sent,
and the ledger records each result. Every request gets a result, even after a failure: done,
refused, or an error.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceError
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.calls import Delete, Release, Update
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.queues.flow import FairQueue
from spark_azqueue.service.retry import RENEW, REPLAY, SETTLE, RetryPolicy
from spark_azqueue.service.workers import Submits

from .ledger import Ledger
from .tasks import Group, Renewal, Task
from .timing import LeaseLengths, Term

log = logging.getLogger(__name__)

_LOST_BY_NAME = 10
"""Maximum number of lost leases that are logged one by one in a round of renewals. Further lost
leases are only counted.
"""

_GLANCE_S = 0.05
"""Longest time, in seconds, that the thread waits for answers before it checks for further requests
to send.
"""

_LOOK_AT_LEAST_EVERY_S = 1.0
"""Longest sleep of the thread, in seconds. A new lease does not wake the thread, so leases of 1 s
may be renewed late.
"""

_HANGS_AFTER_S = 1.0
"""A renewal that takes more than this many seconds does not count toward the parallelism, so that
it does not delay other renewals.
"""

_RENEWALS = 64
"""Maximum number of renewals in flight with parallelism None. The limits of queues do not apply to
renewals."""

_MOST_RENEWALS = 256
"""Maximum number of renewals in flight, including renewals that take more than `_HANGS_AFTER_S`."""

_RELEASES = 64
"""Maximum number of releases in flight with parallelism None. The limits of queues do not apply to
releases."""


_Flight = InFlight[Any, Any]


class LeaseWorker:
    """Owner of the ledger and of the thread. `with worker as ledger` locks the ledger.

    The thread runs while deletes or releases are due. After `start`, the thread always runs. A
    renewal that hangs, or a queue at its limit, does not block other requests.
    """

    def __init__(
        self,
        ledger: Ledger,
        client: QueueClient,
        workers: Submits,
        lengths: LeaseLengths,
        clock: Callable[[], float],
        *,
        parallelism: int | None = None,
        may_vanish: Callable[[QueueRef], bool] = lambda queue: False,
        on_deleted: Callable[[str], None] = lambda blob: None,
    ) -> None:
        """Store the arguments; nothing is sent.

        parallelism: maximum number of requests in flight, for deletes and releases together, and
        again for renewals. With None, only the limit of each queue limits the deletes. may_vanish:
        returns True if a queue may be removed while the query reads the queue. on_deleted: called
        with the name of the blob when a message whose body is in a blob is deleted.
        """
        self._ledger = ledger
        self._client = client
        self._workers = workers
        self._lengths = lengths
        self._clock = clock
        self._parallelism = parallelism
        self._may_vanish = may_vanish
        self._on_deleted = on_deleted
        self._lock = threading.Lock()  # guards the ledger and the fields below
        self._changed = threading.Condition(self._lock)
        self._due: FairQueue[QueueRef | None, Task] = FairQueue()
        self._left = 0  # deletes and releases that are due or in flight
        self._releasing = 0  # releases in flight
        self._gone_before = 0  # number of lost leases of earlier runs that are not logged yet
        self._lost = 0  # number of other leases lost in this round
        self._renewals: dict[Lease, Renewal] = {}  # in flight
        self._renews = False
        self._is_stopped = False
        self._is_running = False
        self._runs_in: int | None = None  # id of the thread; in simulations, of the caller's thread
        self._fatal: Exception | None = None

    def __enter__(self) -> Ledger:
        self._lock.acquire()
        return self._ledger

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def start(self) -> None:
        """Begin to renew leases in the background. Raises RuntimeError if no thread can start."""
        self._renews = True
        self._keep_running()

    def stop(self) -> None:
        """Begin no further renewal. Renewals in flight are not interrupted."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    @property
    def is_stopped(self) -> bool:
        """True if `stop` was called."""
        return self._is_stopped

    def renew_due(self) -> int:
        """Send the due requests from the caller's thread. Return the number of renewals.

        Returns when no request is in flight. If this method raises an error, renewals in flight
        count as renewals without an answer.
        """
        with self._lock:
            if self._pause_s() > 0:
                return 0
        before = self._runs_in, self._is_running
        self._runs_in, self._is_running = threading.get_ident(), True
        try:
            return self._work(renews=True)
        finally:
            self._runs_in, self._is_running = before
            self._keep_running()

    def delete(self, leases: Sequence[Lease], tell: Callable[[bool], None] | None = None) -> None:
        """Delete messages in the background. The ledger records each result.

        tell: called when all deletes have ended; its argument is True if a receipt was refused.
        """
        group = Group(len(leases), tell)
        self._add_in_background([Task(Delete(each), SETTLE, group) for each in leases])

    def release_later(self, leases: Sequence[Lease]) -> None:
        """Release messages in the background. Failures are ignored."""
        group = Group(len(leases))
        self._add_in_background([Task(Release(each), SETTLE, group) for each in leases])

    def delete_restored(self, leases: Sequence[Lease], deleted: list[Lease]) -> None:
        """Delete messages that are not in the ledger with these receipts, and wait for all results.

        deleted: the deleted leases are added to this list, even if another delete fails.

        Raises ServiceError if the service does not answer. The caller must not dequeue until a
        later call succeeds.
        """
        self._each(list(map(Delete, leases)), Group(len(leases), done=deleted), REPLAY)

    def release(
        self, leases: Sequence[Lease], retry: RetryPolicy = REPLAY, timeout_s: float | None = None
    ) -> int:
        """Make messages visible at once, and wait for all results.

        Return the number of released messages.

        After the return, all receipts are stale: the service has released the message, or refused
        the receipt. Raises ServiceError if the result of a release is unknown, and TimeoutError
        after `timeout_s` seconds.
        """
        group = Group(len(leases))
        self._each(list(map(Release, leases)), group, retry, timeout_s)
        return len(group.done)

    def wait(self, timeout_s: float) -> None:
        """Wait until no delete or release is due or in flight.

        Drop deletes that are not sent within `timeout_s` seconds.

        Also waits for renewals that delay a delete or a release.

        Raises the error of a delete if no retry can help (access revoked, queue removed, a broken
        credential). The message of such a delete is processed, but will be dequeued again. Raises
        the thread's error if the thread failed. Raises RuntimeError if the thread cannot be
        started; in this case, call this method again.
        """
        self._keep_running()
        if self._runs_in == threading.get_ident():
            timeout_s = 0.0  # the thread must not wait for itself
        with self._changed:
            in_time = self._changed.wait_for(self._is_done, timeout_s)
        if not in_time:
            for task in self._take_out(lambda task: task.is_delete_of_ledger):
                self._record(task, Outcome.RETRY)
        fatal, self._fatal = self._fatal, None
        if fatal:
            raise fatal

    # ── what is due ───────────────────────────────────────────────────────────────────────────────

    def _is_done(self) -> bool:
        return not self._left and not any(map(self._ledger.puts_off, self._renewals))

    def _each(
        self,
        calls: Sequence[Delete | Release],
        group: Group,
        retry: RetryPolicy,
        timeout_s: float | None = None,
    ) -> None:
        if not calls:
            return
        try:
            self._add([Task(call, retry, group, is_awaited=True) for call in calls])
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

    def _add(self, tasks: Iterable[Task]) -> None:
        with self._changed:
            for task in tasks:
                self._put(task)
            self._changed.notify_all()
        self._keep_running()

    def _add_in_background(self, tasks: Sequence[Task]) -> None:
        try:
            self._add(tasks)
        except RuntimeError as error:
            log.warning(
                "deletes and releases are delayed, because no thread can be started: %s", error
            )

    def _put(self, task: Task) -> None:
        self._due.add(self._lane(task), task)
        self._left += 1

    def _take_out(self, which: Callable[[Task], bool]) -> list[Task]:
        """Remove and return the tasks that were not sent yet and for which `which` returns True."""
        with self._changed:
            taken = self._due.take(which)
            self._left -= len(taken)
            self._changed.notify_all()
        return taken

    def _lane(self, task: Task) -> QueueRef | None:
        """Return the group within which tasks keep their order; the groups take turns.

        The group is the queue of a delete. All releases, and all tasks if the parallelism is fixed,
        share the group None.
        """
        if self._parallelism is not None or isinstance(task.call, Release):
            return None
        return task.call.lease.queue

    # ── the thread ────────────────────────────────────────────────────────────────────────────────

    def _keep_running(self) -> None:
        """Start the thread if deletes or releases are due. Raises RuntimeError if no thread can be
        started.
        """
        with self._lock:
            is_here = self._runs_in == threading.get_ident()
            has_work = self._due or (self._is_renewing and not is_here)
            if not has_work or (self._is_running and not is_here):
                return
            was_running, self._is_running = self._is_running, True
        try:
            self._workers.submit(self._run)
        except RuntimeError:
            self._is_running = was_running
            raise

    @property
    def _is_renewing(self) -> bool:
        return self._renews and not self._is_stopped

    def _run(self) -> None:
        before, self._runs_in = self._runs_in, threading.get_ident()
        while True:
            pause_s = 0.0
            try:
                self._work()
            except Exception:  # noqa: BLE001 (it is logged, and `wait` raises it)
                pause_s = _LOOK_AT_LEAST_EVERY_S
            with self._changed:
                if not (self._due or self._is_renewing):
                    self._runs_in, self._is_running = before, before is not None
                    return
                if not self._due:
                    self._changed.wait(pause_s or self._pause_s())

    def _work(self, *, renews: bool = False) -> int:
        """Send due requests until no request is due or in flight. Return the number of renewals."""
        begun = 0
        under_way: set[Task] = set()
        try:
            with contextlib.closing(self._client.in_flight()) as flight:
                while True:
                    if (renews or self._renews) and not self._is_stopped:
                        begun += self._begin_renewals(flight)
                    waits = self._begin_tasks(flight, under_way)
                    if not (waits or len(flight)):
                        self._report_lost()
                        return begun
                    self._note(flight.ended(_GLANCE_S), under_way)
        except Exception as error:
            self._break_off(under_way, error)
            raise

    def _note(self, results: Iterable[tuple[Any, Any]], under_way: set[Task]) -> None:
        ended = 0
        for tag, result in results:
            if isinstance(tag, Renewal):
                self._renewed(tag, result)
                continue
            under_way.discard(tag)
            self._releasing -= isinstance(tag.call, Release)
            self._record(tag, result)
            ended += 1
        self._have_ended(ended)

    def _have_ended(self, count: int) -> None:
        """Record that `count` deletes and releases have ended."""
        with self._changed:
            self._left -= count
            if not self._left:
                self._changed.notify_all()

    def _break_off(self, under_way: Iterable[Task], error: Exception) -> None:
        """Set this error as the result of all requests that are due or in flight.

        Their outcome is unknown.
        """
        log.error("renewals, deletes and releases were interrupted", exc_info=error)
        with self._lock:
            tasks = [*under_way, *self._due.take()]
            renewals = list(self._renewals.values())
            self._releasing = 0
        if tasks or not renewals:
            self._fatal = error  # `wait` raises it
        for task in tasks:
            self._record(task, error)
        for renewal in renewals:
            self._renewed(renewal, ServiceError("it was interrupted", outcome=Outcome.RETRY))
        self._have_ended(len(tasks))

    # ── renewals ──────────────────────────────────────────────────────────────────────────────────

    def _pause_s(self) -> float:
        """Return the seconds until the next renewal, at most 1. The caller holds the lock."""
        due = self._ledger.next_due()
        longest = min(_LOOK_AT_LEAST_EVERY_S, self._lengths.visibility_s() / 4)
        return longest if due is None else min(max(0.0, due - self._clock()), longest)

    def _begin_renewals(self, flight: _Flight) -> int:
        now = self._clock()
        with self._lock:
            due = self._ledger.due(now, self._room(now))
            terms = [self._ledger.term(lease) for lease in due]
            renewals = [
                Renewal(lease, self._lengths.renewal_s(term, waits=self._ledger.waits(lease)), now)
                for lease, term in zip(due, terms, strict=True)
            ]
            self._renewals.update(zip(due, renewals, strict=True))
        for renewal, term in zip(renewals, terms, strict=True):
            renewal.sent_at = self._clock()
            call = Update(renewal.lease, renewal.visibility_s)
            flight.begin(renewal, call, RENEW, term.patience_s(now))
        return len(renewals)

    def _room(self, now: float) -> int:
        """Return the number of renewals that may begin now."""
        fresh = sum(now - each.sent_at < _HANGS_AFTER_S for each in self._renewals.values())
        at_most = self._parallelism or _RENEWALS
        return min(at_most - fresh, _MOST_RENEWALS - len(self._renewals))

    def _renewed(self, renewal: Renewal, result: tuple[Outcome, Lease | None] | Exception) -> None:
        """Record the result of a renewal. Never raises, so that other renewals continue."""
        lease, newest = renewal.lease, None
        if isinstance(result, Exception):
            # Other errors than the service's, for example of a credential: a retry may work.
            outcome = result.outcome if isinstance(result, ServiceError) else Outcome.RETRY
            log.warning("the lease of message %s was not renewed: %s", lease.message_id, result)
        else:
            outcome, newest = result
        # If the request was retried, the term counts from the first try. So the term may be too
        # short, but never too long.
        term = Term.of(renewal.sent_at, renewal.visibility_s)
        try:
            with self._changed:
                self._renewals.pop(lease, None)
                self._changed.notify_all()
                renewed = self._ledger.renewed(lease, outcome, newest, term, self._clock())
                if renewed.waited:
                    self._put(Task(renewed.waited(renewed.lease), SETTLE, Group(1)))
        except Exception:
            log.exception("the result of renewing message %s was not recorded", lease.message_id)
            return
        if renewed.is_lost and renewed.of_earlier_run:
            self._gone_before += 1
        elif renewed.is_lost:
            self._lost += 1
            if self._lost <= _LOST_BY_NAME:
                log.warning(
                    "the lease of message %s in queue '%s' was lost: it may be delivered elsewhere"
                    " too",
                    lease.message_id,
                    lease.queue.name,
                )

    def _report_lost(self) -> None:
        """Log the number of lost leases that were not logged one by one, and of lost leases of
        earlier runs.
        """
        more, self._lost = self._lost - _LOST_BY_NAME, 0
        if more > 0:
            log.warning("the leases of %d further messages were lost at the same time", more)
        count, self._gone_before = self._gone_before, 0
        if count:
            log.warning(
                "%d messages of logged batches were no longer leased at this start: an earlier run"
                " had deleted them, or their leases had ended. This query loses and repeats"
                " nothing, since their rows come from the log: no action is needed. Only if"
                " another consumer reads the queue, it may process them, too",
                count,
            )

    # ── deletes and releases ──────────────────────────────────────────────────────────────────────

    def _begin_tasks(self, flight: _Flight, under_way: set[Task]) -> bool:
        """Send all tasks that the limits allow. Return False if no task is left to send."""
        full: set[QueueRef | None] = set()
        while self._parallelism is None or len(under_way) < self._parallelism:
            with self._lock:
                found = self._due.next(full)
                if found is None:
                    return bool(self._due)
            lane, task = found
            under_way.add(task)
            if not self._begin(flight, task):
                full.add(lane)
                under_way.discard(task)
                with self._lock:
                    self._due.put_back(lane, task)
        return True

    def _begin(self, flight: _Flight, task: Task) -> bool:
        """Send a task. Return False if the limits do not allow the task now."""
        is_release = isinstance(task.call, Release)
        if self._parallelism is None:
            if not is_release:
                return flight.try_begin(task, task.call, task.retry)
            if self._releasing >= _RELEASES:
                return False
        self._releasing += is_release
        flight.begin(task, task.call, task.retry)
        return True

    def _record(self, task: Task, result: Outcome | Exception) -> None:
        """Record the result of a delete or release. Never raises, so that other tasks continue."""
        lease, group = task.call.lease, task.group
        outcome = self._outcome(task, result)
        blob, is_last = None, False
        try:
            try:
                with self._lock:
                    try:
                        if task.is_delete_of_ledger and isinstance(outcome, Outcome):
                            blob = self._ledger.settled(lease, outcome)
                    finally:
                        is_last = group.note(lease, outcome)
                if blob:
                    self._on_deleted(blob)
            finally:
                if is_last and group.tell:
                    group.tell(group.refused)
        except Exception as error:
            log.exception("the result of message %s was not recorded", lease.message_id)
            self._fatal = error  # `wait` raises it
        if is_last or group.error:
            group.finished.set()

    def _outcome(self, task: Task, result: Outcome | Exception) -> Outcome | Exception:
        """Return the outcome to record for a result.

        An error is returned only if a caller waits for the request.
        """
        is_delete = isinstance(task.call, Delete)
        if isinstance(result, QueueNotFound):  # the queue was removed with its messages
            if task.is_awaited and (is_delete or self._may_vanish(task.call.lease.queue)):
                return Outcome.GONE
            if not task.is_awaited and self._may_vanish(task.call.lease.queue):
                return Outcome.OK
        if task.is_awaited or isinstance(result, Outcome):
            return result
        if not is_delete:
            log.warning("a lease could not be released: %s; it expires by itself", result)
        elif isinstance(result, ServiceError) and result.outcome is Outcome.RETRY:
            log.warning("%s; it is remembered and deleted when it comes back", result)
        else:
            self._fatal = result  # `wait` raises it
        return Outcome.RETRY
