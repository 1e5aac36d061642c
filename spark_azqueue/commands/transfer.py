"""Moves or deletes the messages of a queue: dequeue, put the copies, delete, release at the end.

Each message is copied before it is deleted. So after any crash, each message is in one of the two
queues, and at most the messages of one answer (32) are in both. A copy is never deleted again: a
refused delete does not prove that the original still exists.
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
"""Seconds after which a new lease is released again. The puts and deletes of one answer may take
two minutes, and need the rest of the lease.
"""

_RELEASE = RetryPolicy(10.0)
"""Releases at the end: a user who presses Ctrl-C waits for them."""


@dataclass(slots=True, eq=False)
class _Work:
    """One message under way. lost: the number of lost answers to its puts; each may be a copy.

    parts: number of messages of its copy. put: number of messages that are put. has_failed: a put
    failed.
    is_twin: a dead letter about a message of which another dead letter is put back, so it gets no
    copy.
    """

    received: Received
    copy: MessageCopy | None = None
    lost: int = 0
    parts: int = 1
    put: int = 0
    has_failed: bool = False
    is_twin: bool = False

    def note(self, error: ServiceError) -> None:
        """Note a failed attempt, before the next attempt."""
        self.lost += error.may_have_taken_effect


@dataclass(frozen=True)
class TransferResult:
    """The counts of a run, why it ended, and its error, if any."""

    tally: ScanCounts
    why: End
    error: AzQueueError | None = None


@dataclass(slots=True)
class Transfer:
    """One run of a plan.

    wait: sleeps this many seconds, or less if the run is to end. is_stopped: returns True if the
    run is to end after the messages under way. watch: called with the tally when it has changed.
    clock: seconds; it continues while the process or the machine is suspended. write: gets the
    selected messages in place of a copy and a delete; they are released at the end like all kept
    messages.
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
        """Do the run, and release the kept messages, whatever happens.

        An error ends the run and is in the result. A KeyboardInterrupt is raised again after the
        leased messages were released.
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
                # The process was paused, so other consumers may have these messages. They will come
                # again.
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
        """Count the messages that were not seen, such as messages that a consumer has leased."""
        if why not in (End.DONE, End.NEWER):
            return
        with contextlib.suppress(ServiceError):  # without the permission to read it stays unknown
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
        """Copy these messages, then delete the copied ones; or write them.

        Returns the number of messages, in which each part of a split message counts as one.
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
        """Make the copies. Returns the messages to put, and the twins.

        A twin is a dead letter about the same message as another one here, or as one that this run
        has put back. An envelope that cannot be opened stays.
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
        """Return the twins whose message was put back. The other twins stay: each may be the last
        one.

        has_failed: the puts may have been refused, or the run ends with an error.
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
        """Return the texts to put in place of one: the rows of a packed message, if the plan
        splits.
        """
        if not self.plan.splits:
            return [text]
        from spark_azqueue.rows.packing.splitting import split  # needs pyarrow

        return split(text)

    def _copy(self, works: Sequence[_Work]) -> tuple[list[_Work], Exception | None]:
        """Put the copies. Returns the copied messages, and an error that ends the run."""
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
        # The other parts of a failed message exist, beside the message, which stays.
        tally.maybe_twice += sum(work.put for work in works if work.has_failed)
        return copied, fatal

    def _stays(self, work: _Work, count: str) -> None:
        """Count a message that stays, and do nothing else with it."""
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
                # Another consumer has the message, or it has expired, or a repeat of this delete by
                # the transport has deleted it. So the copy stays: two copies are better than none.
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
        """Run these calls, 32 at once, each with the policy `retry(tag)`.

        Yields result or error.
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
    """Return the time of the lease in microseconds since 1970, by the service's clock if known."""
    if answered_at is not None:
        return answered_at
    if message.next_visible_time:
        return message.next_visible_time - LEASE_S * 1_000_000
    return int(time.time() * 1_000_000)


def is_of_this_message(error: Exception) -> bool:
    """True if the service refuses this body, but may accept others."""
    if not isinstance(error, ServiceError) or isinstance(error, (AccessDenied, QueueNotFound)):
        return False
    return error.outcome is Outcome.FATAL and error.status in (400, 413)
