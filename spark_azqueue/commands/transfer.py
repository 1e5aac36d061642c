"""Moves or deletes the messages of a queue. The steps: dequeue, put the copies, delete; at the end,
release.

A message is copied before it is deleted. So after a crash, each message is in at least one of the
two queues, and at most the messages of one answer (32) are in both queues. A copy is never deleted,
because a refused delete does not prove that the original still exists.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from spark_azqueue.errors import (
    AccessDenied,
    AzQueueError,
    InvalidRow,
    Outcome,
    QueueNotFound,
    ServiceError,
)
from spark_azqueue.service.messages import MAX_PER_REQUEST, Lease, Message, Received
from spark_azqueue.service.queues.calls import Count, Delete, Dequeue, Page, Put, Release
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL, SEND, SETTLE, RetryPolicy
from spark_azqueue.service.wire.calls import Call

from .scan import LEASE_S, End, MessageCopy, Scan, ScanCounts, ScanFate, TransferPlan, copy_of

T = TypeVar("T")

_FRESH_S = LEASE_S / 2
"""Maximum age, in seconds, of leases whose messages are processed. Messages with older leases are
released. The rest of the lease is needed for the puts and deletes of one answer, which may take two
minutes.
"""

_RELEASE = RetryPolicy(10.0)
"""Retry policy for the releases at the end. The time is short because a user who presses Ctrl-C
waits for the releases.
"""


@dataclass(slots=True, eq=False)
class _Work:
    """A message that is being processed. lost: number of lost answers to puts; each lost answer may
    mean a further copy. parts: number of messages in the copy. put: number of these messages that
    were put. has_failed: True if a put failed. is_twin: True for a dead letter that gets no copy,
    because another dead letter of the same message is put back.
    """

    received: Received
    copy: MessageCopy | None = None
    lost: int = 0
    parts: int = 1
    put: int = 0
    has_failed: bool = False
    is_twin: bool = False

    def note(self, error: ServiceError) -> None:
        """Record a failed attempt. Called before the next attempt."""
        self.lost += error.may_have_taken_effect


@dataclass(frozen=True)
class TransferResult:
    """Result of a run: the counts, the reason for the end, and the error, if any."""

    tally: ScanCounts
    why: End
    error: AzQueueError | None = None


@dataclass(slots=True)
class Transfer:
    """One run of a plan.

    wait: sleeps for a number of seconds, or less if the run should end. is_stopped: returns True if
    the run should end after the messages that are being processed. watch: called with the tally
    when it has changed. clock: returns a time in seconds; it must not stop while the process or the
    machine is suspended. write: gets the selected messages; if set, these messages are kept, not
    copied and deleted.
    """

    client: QueueClient
    plan: TransferPlan
    wait: Callable[[float], object] = time.sleep
    is_stopped: Callable[[], bool] = lambda: False
    watch: Callable[[ScanCounts], object] = lambda tally: None
    clock: Callable[[], float] = time.time
    write: Callable[[Sequence[Message]], object] | None = None
    _scan: Scan = field(init=False)

    def __post_init__(self) -> None:
        self._scan = Scan(self.plan)

    def run(self) -> TransferResult:
        """Process the messages. Release the kept messages at the end, even after an error.

        An error ends the run, and is returned in the result. After a KeyboardInterrupt, the leased
        messages are released, then the KeyboardInterrupt is raised.
        """
        error: AzQueueError | None = None
        why = End.FAILED
        try:
            why = self._pages()
            self._count_unseen(why)
        except AzQueueError as raised:
            error = raised
        finally:
            self._release_kept()
        return TransferResult(self._scan.tally, why, error)

    def _pages(self) -> End:
        while True:
            if self.is_stopped():
                return End.INTERRUPTED
            begun_at = self.clock()
            page = self._dequeue()
            if self.clock() - begun_at > _FRESH_S:
                # The process was paused, so other consumers may have these messages. If they still
                # exist, a later dequeue returns them.
                self._release([each.lease for each in page.received])
                continue
            chosen = self._scan.sort(page.received, page.answered_at)
            try:
                acted = self._act(chosen, page.answered_at)
            finally:
                self.watch(self._scan.tally)
            if end := self._scan.end_after(page.received):
                return end
            if self.plan.rate and chosen:
                passed = max(0.0, self.clock() - begun_at)
                self.wait(max(0.0, acted / self.plan.rate - passed))

    def _count_unseen(self, why: End) -> None:
        """Count the messages that no dequeue returned, for example because another consumer has
        leased them.
        """
        if why not in (End.DONE, End.NEWER):
            return
        # without permission to read, the number stays unknown
        with contextlib.suppress(ServiceError):
            held = CONTROL(self.client.now, Count(self.plan.source))
            self._scan.tally.unseen = max(0, held - len(self._scan.kept))

    def _dequeue(self) -> Page:
        call = Dequeue(self.plan.source, self._scan.wanted(), LEASE_S)
        lost = 0

        def note(error: ServiceError) -> None:
            nonlocal lost
            lost += error.may_have_taken_effect

        try:
            ((_, found),) = self._each([(None, call)], lambda _: CONTROL.noting(note))
            if isinstance(found, ServiceError):
                lost += found.may_have_taken_effect
            if isinstance(found, Exception):
                raise found
            assert isinstance(found, Page)
            return found
        finally:
            self._scan.tally.maybe_hidden += lost * call.count

    # ── one answer's messages ─────────────────────────────────────────────────────────────────────

    def _act(self, chosen: Sequence[tuple[Received, ScanFate]], answered_at: int | None) -> int:
        """Copy these messages, and delete the messages that were copied; if the run exports
        messages, write them.

        Returns the number of processed messages. Each part of a split message counts as one
        message.
        """
        if self.write is not None:
            for received, _ in chosen:
                self._scan.keep(received.lease)
            self.write([received.message for received, _ in chosen])
            self._scan.tally.done += len(chosen)
            return len(chosen)
        finished = [_Work(received) for received, fate in chosen if fate is ScanFate.FINISH]
        fresh = [_Work(received) for received, fate in chosen if fate is ScanFate.ACT]
        error: Exception | None = None
        if self.plan.target is not None:
            fresh, twins = self._without_twins(fresh, answered_at)
            fresh, error = self._copy(fresh)
            finished += self._put_back(twins, has_failed=error is not None)
        self._delete([*finished, *fresh])
        if error:
            raise error
        return len(finished) + sum(work.parts for work in fresh)

    def _without_twins(
        self, works: Sequence[_Work], answered_at: int | None
    ) -> tuple[list[_Work], list[_Work]]:
        """Make the copies in memory. Returns the messages to put, and the twins.

        A twin is a dead letter whose message has another dead letter among `works`, or was already
        put back by this run. A message whose envelope cannot be opened is kept.
        """
        to_put: list[_Work] = []
        twins: list[_Work] = []
        here: set[bytes] = set()
        for work in works:
            try:
                message = work.received.message
                copy = copy_of(message, self.plan, _leased_at(message, answered_at))
            except InvalidRow:
                self._stays(work, "closed")
                continue
            work.copy = copy
            work.is_twin = copy.dead in here or self._scan.was_put_back(copy)
            (twins if work.is_twin else to_put).append(work)
            if copy.dead is not None:
                here.add(copy.dead)
        return to_put, twins

    def _put_back(self, twins: Sequence[_Work], *, has_failed: bool) -> list[_Work]:
        """Return the twins whose message was put back. The other twins are kept, because each may
        be its message's last dead letter.

        has_failed: True if a put may have been refused, or if the run ends with an error.
        """
        found = []
        for work in twins:
            assert work.copy
            if self._scan.was_put_back(work.copy):
                found.append(work)
            elif has_failed:
                self._scan.keep(work.received.lease)
            else:
                self._stays(work, "refused")
        return found

    def _texts(self, text: str) -> Sequence[str]:
        """Return the texts to put for this stored text: one text for each row of a packed message
        if `splits` is set, else the same text.
        """
        if not self.plan.splits:
            return [text]
        from spark_azqueue.rows.packing.splitting import split  # needs pyarrow

        return split(text)

    def _copy(self, works: Sequence[_Work]) -> tuple[list[_Work], Exception | None]:
        """Put the copies. Returns the messages that were copied, and the error that ends the run,
        if any."""
        tally = self._scan.tally
        calls: list[tuple[_Work, Call[Lease | None]]] = []
        for work in works:
            assert self.plan.target
            assert work.copy
            texts = self._texts(work.copy.text)
            work.parts = len(texts)
            for text in texts:
                calls.append((work, Put(self.plan.target, text, 0, work.copy.ttl_s)))
        copied: list[_Work] = []
        fatal: Exception | None = None
        for work, result in self._each(calls, lambda work: SEND.noting(work.note)):
            if not isinstance(result, Exception):
                work.put += 1
                if work.put == work.parts:
                    copied.append(work)
                    assert work.copy
                    self._scan.is_put_back(work.copy)
                    tally.maybe_twice += work.lost
                continue
            if isinstance(result, ServiceError):
                work.lost += result.may_have_taken_effect
            if work.has_failed:
                continue
            work.has_failed = True
            if not work.lost and is_of_this_message(result):
                self._stays(work, "refused")
            else:
                tally.maybe_twice += work.lost
                self._scan.keep(work.received.lease)
                fatal = fatal or result
        # If a part of a message failed, its other parts are in the target queue, and the message is
        # kept.
        tally.maybe_twice += sum(work.put for work in works if work.has_failed)
        return copied, fatal

    def _stays(self, work: _Work, count: str) -> None:
        """Add a message to this count, and keep the message."""
        self._scan.tally.add(count)
        self._scan.keep(work.received.lease)

    def _delete(self, works: Sequence[_Work]) -> None:
        """Delete the originals. Raises the first error, after all requests have ended."""
        calls = [(work, Delete(work.received.lease)) for work in works]
        fatal: Exception | None = None
        for work, result in self._each(calls, lambda _: SETTLE):
            message = work.received.message
            if isinstance(result, Exception):
                fatal = fatal or result
                self._scan.keep(work.received.lease)
            if work.is_twin and not isinstance(result, Exception) and not result.refused:
                self._scan.is_dropped(is_sure=result is Outcome.OK)
            elif not isinstance(result, Exception) and not result.refused:
                self._scan.is_done(
                    message,
                    is_sure=result is Outcome.OK,
                    was_envelope=bool(work.copy and work.copy.was_envelope),
                )
            elif self.plan.target is not None and not work.is_twin:
                # Another consumer has the message, the message has expired, or the transport sent
                # the delete again after an earlier attempt had succeeded. The copy is not deleted,
                # because two copies are better than none.
                self._scan.stands_twice(message)
            elif not isinstance(result, Exception):
                self._stays(work, "taken")
        if fatal:
            raise fatal

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    def _release_kept(self) -> None:
        self._release(list(self._scan.kept.values()))
        self._scan.kept.clear()

    def _release(self, leases: Sequence[Lease]) -> None:
        calls = [(lease, Release(lease)) for lease in leases]
        left = len(calls)
        try:
            for _, result in self._each(calls, lambda _: _RELEASE):
                left -= not isinstance(result, Exception)
        finally:
            self._scan.tally.not_released += left

    def _each(
        self, calls: Iterable[tuple[T, Call[Any]]], retry: Callable[[T], RetryPolicy]
    ) -> Iterator[tuple[T, Any]]:
        """Make these calls, up to 32 concurrently, each with the policy `retry(tag)`.

        Yields each call's result or error.
        """
        waiting = iter(calls)
        with contextlib.closing(self.client.in_flight()) as flight:
            while True:
                while len(flight) < MAX_PER_REQUEST and (following := next(waiting, None)):
                    tag, call = following
                    flight.begin(tag, call, retry(tag))
                if not len(flight):
                    return
                yield from flight.ended()


def _leased_at(message: Message, answered_at: int | None) -> int:
    """Return the time at which a message was leased, in microseconds since 1970, by the service's
    clock if it is known.
    """
    if answered_at is not None:
        return answered_at
    if message.next_visible_time:
        return message.next_visible_time - LEASE_S * 1_000_000
    return int(time.time() * 1_000_000)


def is_of_this_message(error: Exception) -> bool:
    """Return True if the error means that the service refuses this body, but may accept other
    bodies."""
    if not isinstance(error, ServiceError) or isinstance(error, (AccessDenied, QueueNotFound)):
        return False
    return error.outcome is Outcome.FATAL and error.status in (400, 413)
