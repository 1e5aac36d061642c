"""A log and queues in memory that stop before each call, so that processes interleave in any way.

The queues have the service's rules (`testing/model.py`). What becomes of a call is its fate: one of
`PUTS`, `CALLS` or `REQUESTS`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from typing import Any

from log_stores import MemoryLogStore, Put
from turns import Turns

from spark_azqueue.errors import Outcome, QueueNotFound, ServiceError, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.messages import Lease, Message, QueueRef, Received
from spark_azqueue.service.queues import calls
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.concurrency import Limits
from spark_azqueue.service.queues.http import Session
from spark_azqueue.service.queues.reach import ProbeUpdate
from spark_azqueue.testing import FakeClock, MessageView, Refusal, documents
from spark_azqueue.testing.model import ModelAccount

PUTS = {
    "no answer, took effect": Put.LOST_AFTER,
    "no answer, took no effect": Put.LOST_BEFORE,
    "no answer, lands late": Put.LATE,
    "busy": Put.BUSY,
    "first answer lost": None,  # it took effect, and its repeat is told that the object exists
}
CALLS = ("busy",)
REQUESTS = (
    "first answer lost",
    "no answer, took effect",
    "no answer, took no effect",
    "no answer, lands late",
    "busy",
)


class SteppedStore(MemoryLogStore):
    """A `LogStore`. late: takes what happens to puts that land later."""

    def __init__(
        self,
        turns: Turns,
        late: list[Callable[[], object]],
        created: Callable[[str, bytes], None],
        **more: Any,
    ) -> None:
        super().__init__(**more)
        self._turns = turns
        self._late_ones = late
        self._created = created

    def put_new(self, name: str, data: bytes) -> bool:
        fate = self._turns.stop_before(f"put {name}")
        if fate:
            self.next_puts(PUTS[fate])
        if fate == "no answer, lands late":
            self._late_ones.append(self.land)
        was_there = name in self.objects
        try:
            created = super().put_new(name, data)
        finally:
            if not was_there and name in self.objects:
                self._created(name, data)
        return created and fate != "first answer lost"

    def land(self) -> list[tuple[str, bool]]:
        landed = super().land()
        for name, created in landed:
            if created:
                self._created(name, self.objects[name])
        return landed

    def get(self, name: str, most: int) -> bytes | None:
        self._stop(f"get {name}")
        return super().get(name, most)

    def names(self, folder: str, prefix: str = "") -> list[str]:
        self._stop(f"list {folder}/{prefix}")
        return super().names(folder, prefix)

    def delete(self, name: str) -> None:
        self._stop(f"delete {name}")
        super().delete(name)
        self.calls.clear()

    def _stop(self, call: str) -> None:
        if self._turns.stop_before(call):
            raise ServiceUnavailable(f"could not {call}", status=503, outcome=Outcome.RETRY)


class Queues:
    """The account, and its clock."""

    def __init__(self, names: tuple[str, ...], deleted: Callable[[str], None]) -> None:
        self.clock = FakeClock(1_800_000_000.25, frozen=True)
        self.account = ModelAccount()
        self._skew_s = 0
        self._twice = False
        self._deleted = deleted
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

    def carried_out(self, call: calls.Call[Any], *, is_repeated: bool = False) -> Any:
        """The result of a request that takes effect now. Raises ServiceError."""
        try:
            return self._result(call)
        except Refusal as refusal:
            date = documents.http_date(self.clock.now() + self._skew_s)
            outcome = Outcome.GONE if refusal.status == 404 else Outcome.FATAL
            if refusal.code == "QueueNotFound":
                raise QueueNotFound(str(refusal), status=404, outcome=Outcome.FATAL) from None
            error = ServiceError(str(refusal), status=refusal.status, outcome=outcome, date=date)
            error.unanswered = is_repeated
            if call.by_receipt and outcome.refused:
                return call.refused(error)
            raise error from None

    def _result(self, call: calls.Call[Any]) -> Any:
        now = self.clock.now()
        if isinstance(call, ProbeUpdate):
            return datetime.fromtimestamp(int(now), timezone.utc)
        queue = self.account.queue(call.queue.name)
        at = int(now) * 1_000_000
        if isinstance(call, calls.Dequeue):
            views = queue.dequeue(
                now=now, count=call.count, visibility=call.visibility_s, twice=self._twice
            )
            self._twice &= not views
            page = tuple(
                Received(
                    _message(call.queue, view, int(view.next_visible)),
                    Lease(call.queue, view.id, view.receipt),
                )
                for view in views
            )
            return calls.Page(page, call.count, now, at, call.queue)
        if isinstance(call, calls.Peek):
            peeked = queue.peek(now=now, count=call.count)
            return calls.Peeked(tuple(_message(call.queue, view, None) for view in peeked), at)
        if isinstance(call, calls.DatedDelete):
            queue.delete(call.lease.message_id, call.lease.pop_receipt, now=now)
            self._deleted(call.lease.message_id)
            return calls.Deleted(Outcome.OK)
        if isinstance(call, calls.Release):
            lease = call.lease
            queue.update(lease.message_id, lease.pop_receipt, now=now, visibility=0)
            return Outcome.OK
        if isinstance(call, calls.Count):
            return queue.approximate_count(now=now)
        assert isinstance(call, calls.Put)
        queue.put(call.text, now=now, visibility_delay=int(call.delay_s), ttl=call.ttl_s or 604_800)
        return None


def _message(queue: QueueRef, view: MessageView, next_visible: int | None) -> Message:
    second = 1_000_000
    return Message(
        queue,
        view.id,
        view.text,
        int(view.insertion) * second,
        int(view.expiration) * second,
        view.dequeue_count,
        None if next_visible is None else next_visible * second,
    )


class SteppedClient(QueueClient):
    """The queues as one process sees them."""

    def __init__(
        self,
        account: Account,
        turns: Turns,
        queues: Queues,
        late: list[Callable[[], object]],
        leased: Callable[[Iterable[str]], object] = lambda _: None,
    ) -> None:
        """leased: is told the ids of what was dequeued."""
        super().__init__(account, Session(account, Limits()))
        self._leased = leased
        self._turns = turns
        self._queues = queues
        self._late = late

    def in_flight(self) -> Any:
        return _Flight(self._made)

    def names(self, prefix: str) -> list[str]:
        if self._turns.stop_before("list queues"):
            raise ServiceUnavailable("could not list queues", status=503, outcome=Outcome.RETRY)
        return [name for name in self._queues.account.names() if name.startswith(prefix)]

    def _made(self, call: calls.Call[Any]) -> Any:
        """The result, or the error."""
        name = f"{type(call).__name__.lower()} {call.queue.name}"
        fate = self._turns.stop_before(f"ask {name}")
        try:
            if fate in ("", "no answer, took effect"):
                result = self._queues.carried_out(call)
            if fate == "first answer lost":
                self._queues.carried_out(call)
                self._turns.stop_before(f"ask {name} again")
                result = self._queues.carried_out(call, is_repeated=True)
            if fate == "no answer, lands late":
                self._late.append(lambda: self._lands(call))
        except ServiceError as error:
            return error
        if isinstance(call, calls.Dequeue) and not fate:
            self._leased(message.message_id for message, _ in result.received)
        if fate == "busy":
            return ServiceUnavailable(f"{name}: 503", status=503, outcome=Outcome.RETRY)
        if fate.startswith("no answer"):
            return ServiceUnavailable(f"{name}: no answer", outcome=Outcome.RETRY)
        return result

    def _lands(self, call: calls.Call[Any]) -> None:
        with contextlib.suppress(ServiceError):
            self._queues.carried_out(call)


class _Flight:
    """In place of `InFlight`: requests are made when they begin, with all their repeats."""

    def __init__(self, made: Callable[[calls.Call[Any]], Any]) -> None:
        self._made = made
        self._results: list[tuple[Any, Any]] = []

    def __enter__(self) -> _Flight:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._results)

    def begin(self, tag: Any, call: calls.Call[Any], *_: Any) -> None:
        self._results.append((tag, self._made(call)))

    def try_begin(self, tag: Any, call: calls.Call[Any], *_: Any) -> bool:
        self.begin(tag, call)
        return True

    def ended(self, timeout_s: float | None = None) -> list[tuple[Any, Any]]:
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        self._results.clear()
