"""What the service answers to a call, by the rules of `testing/model.py`, as it is on the wire.

Each simulated world asks here, so what the service does is said once; what becomes of a request on
its way is the world's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from spark_azqueue.service.account import Account
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.messages import seconds_of
from spark_azqueue.service.queues.calls import (
    Count,
    DatedDelete,
    Delete,
    Dequeue,
    Peek,
    Put,
    Release,
    Update,
)
from spark_azqueue.service.queues.reach import ProbeUpdate
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.service.wire.transport import failure
from spark_azqueue.testing import FakeClock, MessageView, Refusal, documents
from spark_azqueue.testing.model import SEVEN_DAYS, ModelAccount


class Queues:
    """An account, and its clock. What it answers is read as the package reads it."""

    def __init__(
        self, account: Account, names: Iterable[str], deleted: Callable[[str], object]
    ) -> None:
        self.clock = FakeClock(1_800_000_000.25, frozen=True)
        self.account = ModelAccount()
        self._skew_s = 0
        self._twice = False
        self._deleted = deleted
        self._as_seen = account
        for name in names:
            self.account.create(name)

    def skew(self, seconds: int) -> None:
        """From now on the clock that dates its refusals differs so much from that of its leases."""
        self._skew_s = seconds

    def deliver_twice(self) -> None:
        """The next messages that are dequeued stay visible to the dequeue after that, as well."""
        self._twice = True

    def views(self, queue: str) -> list[MessageView]:
        if queue not in self.account.names():
            return []
        return self.account.queue(queue).messages(now=self.clock.now())

    def carried_out(self, call: Call[Any], *, is_repeated: bool = False) -> Any:
        """The result of a request that takes effect now. Raises ServiceError.

        is_repeated: an attempt before it had no answer.
        """
        now = self.clock.now()
        given = answer(self.account, call, now, twice=self._twice, skew_s=self._skew_s)
        if given.status < 300:
            result = call.result(given)
            if isinstance(call, Dequeue):
                self._twice &= not result.received
            elif isinstance(call, DatedDelete):
                self._deleted(call.lease.message_id)
            return result
        error = failure(call, self._as_seen, given, now)
        error.unanswered = is_repeated
        if call.by_receipt and error.outcome.refused:
            return call.refused(error)
        raise error


def answer(
    account: ModelAccount, call: Call[Any], now: float, *, twice: bool = False, skew_s: float = 0.0
) -> Answer:
    """The answer to a request that takes effect now.

    twice: what a dequeue gives stays visible. skew_s: so much the clock that dates a refused
    request by receipt is ahead of the one of the leases.
    """
    try:
        return _carried_out(account, call, now, twice=twice)
    except Refusal as refused:
        ahead_s = 0.0 if isinstance(call, ProbeUpdate) else skew_s
        return refusal(refused.status, refused.code, now + ahead_s)


def refusal(status: int, code: str, now: float) -> Answer:
    """The answer to a request that is refused now."""
    return _dated(status, now, f"x-ms-error-code: {code}\r\n")


def _dated(status: int, now: float, head: str = "", body: bytes = b"") -> Answer:
    head += f"Date: {documents.http_date(now)}\r\n"
    return Answer(status, head.encode(), body, now)


def _carried_out(account: ModelAccount, call: Call[Any], now: float, *, twice: bool) -> Answer:
    queue = account.queue(call.queue.name, now=now)
    match call:
        case Dequeue():
            views = queue.dequeue(
                now=now, count=call.count, visibility=call.visibility_s, twice=twice
            )
            return _dated(200, now, body=documents.dequeue_reply(views))
        case Peek():
            return _dated(
                200, now, body=documents.peek_reply(queue.peek(now=now, count=call.count))
            )
        case Put():
            view = queue.put(
                call.text,
                now=now,
                visibility_delay=seconds_of(call.delay_s, now),
                ttl=SEVEN_DAYS if call.ttl_s is None else call.ttl_s,
            )
            return _dated(201, now, body=documents.put_reply(view))
        case Count():
            count = queue.approximate_count(now=now)
            return _dated(200, now, f"x-ms-approximate-messages-count: {count}\r\n")
        case ProbeUpdate():
            return refusal(404, "MessageNotFound", now)
        case Delete() | DatedDelete():
            queue.delete(call.lease.message_id, call.lease.pop_receipt, now=now)
            return _dated(204, now)
        case Update() | Release():
            delay = call.visibility_s if isinstance(call, Update) else call.delay
            view = queue.update(
                call.lease.message_id,
                call.lease.pop_receipt,
                now=now,
                visibility=seconds_of(delay, now),
                text=call.text if isinstance(call, Update) else None,
            )
            return _dated(204, now, f"x-ms-popreceipt: {view.receipt}\r\n")
    raise AssertionError(call)


class Flight:
    """In place of `InFlight`: requests are made when they begin, with all their repeats."""

    def __init__(self, made: Callable[[Call[Any]], Any]) -> None:
        self._made = made
        self._results: list[tuple[Any, Any]] = []

    def __enter__(self) -> Flight:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._results)

    def begin(self, tag: Any, call: Call[Any], *_: Any) -> None:
        self._results.append((tag, self._made(call)))

    def try_begin(self, tag: Any, call: Call[Any], *_: Any) -> bool:
        self.begin(tag, call)
        return True

    def ended(self, timeout_s: float | None = None) -> list[tuple[Any, Any]]:
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        self._results.clear()
