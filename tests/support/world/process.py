"""How one process sees the service and the folder of its log, and where it is stopped or killed.

A process whose requests take time runs over `Simulated`: the package's own transport, with a model
in place of libcurl. One of many that take turns (`turns.py`), or that is to be killed before one of
its calls, has requests that end at once: `AtOnceClient` and `SteppedStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from log_stores import MemoryLogStore

from spark_azqueue.errors import Outcome, ServiceError, ServiceUnavailable
from spark_azqueue.service.account import Account
from spark_azqueue.service.incoming import Answer, NoAnswer
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.service.wire.concurrency import Limits
from spark_azqueue.service.wire.http import Session

from .fates import Fate, Fault
from .service import A_MOMENT_S, BY_HAND, LIMIT_S, Service

Stops = Callable[[str], str]
"""Called before each call of a process, with its name. Returns its fate, "" for none; raises what
ends the process."""

# ── requests that take time ───────────────────────────────────────────────────────────────────────


class SimulatedSession(Session):
    def keep(self, wire: Any) -> None:
        pass


class Simulated(QueueClient):
    """The queues as one process sees them. When that was killed it sends and hears nothing."""

    def __init__(self, account: Account, service: Service) -> None:
        super().__init__(account, SimulatedSession(account, Limits()))
        self.service = service
        self.alive = True

    def names(self, prefix: str) -> list[str]:
        return [each for each in self.service.account.names() if each.startswith(prefix)]

    def in_flight(self) -> InFlight[Any, Any]:
        return InFlight(self._session, SimulatedWire(self))  # type: ignore[arg-type]

    def kill(self) -> None:
        self.alive = False


class SimulatedWire:
    """In place of libcurl: requests under way, each with its end.

    Their tags are those of `InFlight`: each has its `call`.
    """

    def __init__(self, client: Simulated) -> None:
        self._client = client
        self._service = client.service
        self._under_way: list[tuple[float, Any, Answer | NoAnswer]] = []

    def __len__(self) -> int:
        return len(self._under_way) if self._client.alive else 0

    def begin(
        self,
        tag: Any,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        limit_s: float | None = None,
        most: int | None = None,
    ) -> None:
        if self._client.alive:
            limit_s = LIMIT_S if limit_s is None else max(A_MOMENT_S, min(limit_s, LIMIT_S))
            ends_at, given = self._service.ask(tag.call, limit_s)
            self._under_way.append((ends_at, tag, given))

    def ended(self, timeout_s: float) -> list[tuple[Any, Answer | NoAnswer]]:
        if not len(self):
            return []
        clock = self._service.clock
        soonest = min(ends_at for ends_at, _, _ in self._under_way)
        if soonest > clock.now():
            self._service.pass_time(min(max(timeout_s, A_MOMENT_S), soonest - clock.now()))
        if not len(self):  # it was killed meanwhile
            return []
        now = clock.now()
        ended = [(tag, given) for ends_at, tag, given in self._under_way if ends_at <= now]
        self._under_way = [each for each in self._under_way if each[0] > now]
        return ended

    def abandon(self) -> None:
        self._under_way.clear()

    def close(self) -> None:
        self.abandon()


# ── requests that end at once ─────────────────────────────────────────────────────────────────────

FIRST_LOST = "first answer lost"
"""It took effect, and is repeated."""

PUTS = {
    "no answer, took effect": Fate.LOST_AFTER,
    "no answer, took no effect": Fate.LOST_BEFORE,
    "no answer, lands late": Fate.LATE,
    "busy": Fate.BUSY,
    FIRST_LOST: None,  # the repeat is told that the object exists
}
CALLS = ("busy",)
REQUESTS = {
    FIRST_LOST: Fate.LOST_AFTER,
    "no answer, took effect": Fate.LOST_AFTER,
    "no answer, took no effect": Fate.LOST_BEFORE,
    "no answer, lands late": Fate.LATE,
    "busy": Fate.BUSY,
}


class AtOnceClient(QueueClient):
    """The queues as one process sees them. Each request is made when it begins, with one repeat."""

    def __init__(
        self,
        account: Account,
        service: Service,
        stop: Stops,
        leased: Callable[[Iterable[str]], object] = lambda _: None,
    ) -> None:
        """leased: is told the ids of what was dequeued."""
        super().__init__(account, Session(account, Limits()))
        self._stop = stop
        self._service = service
        self._leased = leased

    def in_flight(self) -> Any:
        return Flight(self.made)

    def names(self, prefix: str) -> list[str]:
        if self._stop("list queues"):
            raise ServiceUnavailable("could not list queues", status=503, outcome=Outcome.RETRY)
        return [name for name in self._service.account.names() if name.startswith(prefix)]

    def made(self, call: Call[Any]) -> Any:
        """Make a request. Returns its result, or the error."""
        name = f"ask {type(call).__name__.lower()} {call.queue.name}"
        fate = self._stop(name)
        result = self._sent(call, Fault(REQUESTS[fate], seconds=BY_HAND) if fate else None)
        if fate in ("", FIRST_LOST) and _has_no_answer(result):
            self._stop(f"{name} again")
            result = self._sent(call, again=True)
        if isinstance(call, Dequeue) and not isinstance(result, ServiceError):
            self._leased(message.message_id for message, _ in result.received)
        return result

    def _sent(self, call: Call[Any], fault: Fault | None = None, *, again: bool = False) -> Any:
        try:
            return self._service.result(call, self._session.account, again=again, fault=fault)
        except ServiceError as error:
            return error


def _has_no_answer(result: object) -> bool:
    return isinstance(result, ServiceError) and result.status is None


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


class SteppedStore(MemoryLogStore):
    """The folder of a log as one process sees it, which stops before each call."""

    def __init__(
        self,
        service: Service,
        stop: Stops,
        created: Callable[[str, bytes], object] = lambda *_: None,
        **more: Any,
    ) -> None:
        """created: is told each object that is new, and what it holds."""
        super().__init__(**more)
        self._service = service
        self._stop = stop
        self._created = created

    def put_new(self, name: str, data: bytes) -> bool:
        fate = self._stop(f"put {name}")
        if fate:
            self.faults.insert(0, PUTS[fate])
        if self.faults and self.faults[0] is Fate.LATE:
            self._service.later(self.land)
        was_there = name in self.objects
        try:
            created = super().put_new(name, data)
        finally:
            if not was_there and name in self.objects:
                self._created(name, data)
        return created and fate != FIRST_LOST

    def land(self) -> list[tuple[str, bool]]:
        landed = super().land()
        for name, created in landed:
            if created:
                self._created(name, self.objects[name])
        return landed

    def get(self, name: str, most: int) -> bytes | None:
        self._stops(f"get {name}")
        return super().get(name, most)

    def names(self, folder: str, prefix: str = "") -> list[str]:
        self._stops(f"list {folder}/{prefix}")
        return super().names(folder, prefix)

    def delete(self, name: str) -> None:
        self._stops(f"delete {name}")
        super().delete(name)
        self.calls.clear()

    def _stops(self, call: str) -> None:
        if self._stop(call):
            raise ServiceUnavailable(f"could not {call}", status=503, outcome=Outcome.RETRY)
