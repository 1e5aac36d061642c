"""A log and queues in memory that stop before each call, so that processes interleave in any way.

The queues have the service's rules (`testing/model.py`). What becomes of a call is its fate: one of
`PUTS`, `CALLS` or `REQUESTS`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from log_stores import MemoryLogStore, Put
from simulated_queues import Flight, Queues
from turns import Turns

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.queues import calls
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.service.wire.concurrency import Limits
from spark_azqueue.service.wire.http import Session

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
        return Flight(self._made)

    def names(self, prefix: str) -> list[str]:
        if self._turns.stop_before("list queues"):
            raise ServiceUnavailable("could not list queues", status=503, outcome=Outcome.RETRY)
        return [name for name in self._queues.account.names() if name.startswith(prefix)]

    def _made(self, call: Call[Any]) -> Any:
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

    def _lands(self, call: Call[Any]) -> None:
        with contextlib.suppress(ServiceError):
            self._queues.carried_out(call)
