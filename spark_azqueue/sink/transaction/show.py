"""Publishes the messages of a record with parallel updates, and writes marks of the progress."""

from __future__ import annotations

import contextlib
import heapq
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import NamedTuple

from spark_azqueue.errors import Outcome, QueueNotFound
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.transaction import VISIBLE_AT_LEAST_S
from spark_azqueue.service.messages import Lease, QueueRef, VisibleAt
from spark_azqueue.service.queues.calls import Delete, Show
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import attempt_all, results_of
from spark_azqueue.service.queues.reach import moment_of
from spark_azqueue.service.retry import REPLAY, SETTLE, RetryPolicy

from .log import TransactionLog, TransactionRecord, about
from .record import Hidden
from .refusals import expired_unseen

log = logging.getLogger(__name__)

MARK_EVERY = 10_000
"""Number of messages between two marks. If the process is killed, at most this many updates are
repeated."""

DELETES_WITHIN_S = 60.0


@dataclass(slots=True)
class Shown:
    """Counts of the messages of a record.

    shown: messages that this process published. before: messages that were published earlier, so
    that the service refused their receipts. vanished: messages that were missing before a process
    could publish them, because their queue was cleared or deleted. expired: messages that were not
    published in time. seconds: time from the first request to the last answer.
    """

    shown: int = 0
    before: int = 0
    vanished: int = 0
    expired: int = 0
    seconds: float = 0.0


class ServiceClock:
    """Clock of the queue service, computed from the Date of one answer."""

    def __init__(self, date: datetime, wall: Callable[[], float] = time.time) -> None:
        """date: Date of an answer that has just arrived. wall: clock of this machine, returns
        seconds since 1970."""
        self._wall = wall
        self._ahead = date.timestamp() - wall()

    def now(self) -> int:
        """Return the service's time in seconds since 1970.

        The result is never later than the service's time, and at most about one second earlier.
        """
        return math.floor(self._wall() + self._ahead)

    def here(self, moment: int) -> float:
        """Convert a time by the service's clock to a time by this machine's clock. The result is
        never too early."""
        return moment - self._ahead


def clock_at(client: QueueClient, queue: QueueRef, retry: RetryPolicy) -> ServiceClock:
    """Ask this queue for the service's time. Even a missing queue returns the time.

    Raises ServiceError, and AccessDenied if the credential may not update messages of the queue.
    """
    try:
        return ServiceClock(retry(client.queue(queue).check))
    except QueueNotFound as error:
        return ServiceClock(moment_of(error.date))


def show(
    client: QueueClient,
    wal: TransactionLog,
    record: TransactionRecord,
    clock: ServiceClock,
    *,
    done: int,
    is_ours: bool,
    is_strict: bool,
    most: int | None,
    found: Shown | None = None,
) -> Shown:
    """Make the messages of a record visible, and write marks of the progress.

    done: number of messages at the start of the record that need no publishing any more. is_ours:
    this process has just written the record. is_strict: failOnDataLoss. most: maximum number of
    parallel requests; None for only the limits of the queues. found: the counts are added to this
    object, even if an error or Ctrl-C ends the call. Raises ServiceError and LogDamaged. Raises
    TransactionExpired if messages were not published in time; all other messages are published
    before this error.
    """
    began = time.monotonic()
    if not is_ours:  # a program with write access to the folder may have changed it
        wal.check(record, done)
    found = found or Shown()
    return _Showing(client, wal, record, clock, is_ours, is_strict, most, found).run(done, began)


class _Showing:
    """One call of `show`. The tags of requests are positions of messages in the record."""

    def __init__(
        self,
        client: QueueClient,
        wal: TransactionLog,
        record: TransactionRecord,
        clock: ServiceClock,
        is_ours: bool,
        is_strict: bool,
        most: int | None,
        found: Shown,
    ) -> None:
        self._client = client
        self._log = wal
        self._record = record
        self._clock = clock
        self._is_ours = is_ours
        self._is_strict = is_strict
        self._most = most
        self._found = found
        self._expired: dict[str, int] = {}  # number by queue
        self._missing: QueueNotFound | None = None

    def run(self, done: int, began: float) -> Shown:
        """Publish the messages after the first `done` messages. began: start of the call, monotonic
        seconds."""
        answered: list[int] = []  # a heap: positions answered before an earlier position
        marked = done
        calls = self._calls(done)
        with closing(results_of(self._client, calls, REPLAY, most=self._most)) as results:
            for place, result in results:
                self._count(result)
                heapq.heappush(answered, place)
                while answered and answered[0] == done:
                    heapq.heappop(answered)
                    done += 1
                if (
                    done - marked >= MARK_EVERY
                    and done < self._record.head.rows
                    and not (self._is_strict and (self._missing or self._expired))
                ):  # lost messages are marked only with failOnDataLoss=false
                    self._log.mark(self._record.head, done, {})
                    marked = done
        self._check_loss()
        self._found.seconds = time.monotonic() - began
        self._log.mark(self._record.head, self._record.head.rows, asdict(self._found))
        return self._found

    def _calls(self, done: int) -> Iterator[tuple[int, Show]]:
        place = done
        for chunk in self._log.hidden(self._record, done):
            now = self._clock.now()
            for each in chunk:
                if each.expires <= now:
                    name = each.lease.queue.name
                    self._expired[name] = self._expired.get(name, 0) + 1
                yield place, Show(each.lease, self._delay(each, now))
                place += 1

    def _delay(self, hidden: Hidden, now: int) -> int | VisibleAt:
        # If clocks differ, the time that a row asks for can be after the message's expiry.
        due = min(hidden.due, hidden.expires - VISIBLE_AT_LEAST_S)
        return 0 if due <= now else VisibleAt(self._clock.here(due))

    def _count(self, result: Outcome | Exception) -> None:
        if isinstance(result, QueueNotFound):
            self._missing = self._missing or result
            self._found.vanished += 1
        elif isinstance(result, Exception):
            raise result
        elif result is Outcome.OK:
            self._found.shown += 1
        elif self._is_ours and result.refused:
            self._found.vanished += 1
        else:
            self._found.before += 1

    def _check_loss(self) -> None:
        """Raise TransactionExpired or QueueNotFound if messages are missing, or log a warning."""
        what = about(self._record.head)
        self._found.expired = expired = sum(self._expired.values())
        if self._missing:
            then = f"the messages of {what} in this queue are lost"
            tell_loss(self._missing, lose=not self._is_strict, then=then)
        if self._found.vanished:
            log.warning(
                "%s: %d of %d messages were gone before they were shown: was a queue cleared, or"
                " deleted and created again?",
                *(what, self._found.vanished, self._record.head.rows),
            )
        if expired:
            error = expired_unseen(what, expired, self._record.head.rows, _counted(self._expired))
            tell_loss(error, lose=not self._is_strict)


class DeleteCounts(NamedTuple):
    """Counts of prepared messages after they were deleted.

    deleted: deleted messages. gone: messages that were already published or had expired. left:
    messages whose delete failed.
    """

    deleted: int
    gone: int
    left: int


def delete_hidden(client: QueueClient, leases: Iterator[Lease], most: int | None) -> DeleteCounts:
    """Delete prepared messages. Never raises an Exception: a message that is not deleted stays
    invisible until it expires."""
    wanted = deleted = gone = 0

    def calls() -> Iterator[tuple[None, Delete]]:
        nonlocal wanted
        for lease in leases:
            wanted += 1
            yield None, Delete(lease)

    def failed(error: Exception) -> None:
        log.warning("a message that no record shows could not be deleted: %s", error)

    within_s = DELETES_WITHIN_S
    for _, outcome in attempt_all(client, calls(), SETTLE, failed, most=most, within_s=within_s):
        gone += outcome.refused
        deleted += not outcome.refused
    with contextlib.suppress(Exception):  # the remaining messages cannot be counted
        wanted += sum(1 for _ in leases)
    return DeleteCounts(deleted, gone, wanted - deleted - gone)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"queue '{name}' ({count:,})" for name, count in sorted(counts.items()))
