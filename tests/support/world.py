"""The account that the simulation talks to: model queues, their faults, and the time they take.

The package's own transport runs over it, with its retries and limits. Only libcurl and the clock
are replaced (the fixture `simulated_time`), so a request that hangs takes no real time.
"""

from __future__ import annotations

import enum
import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simulated_queues import answer, refusal

from spark_azqueue.service.account import Account
from spark_azqueue.service.incoming import Answer, NoAnswer
from spark_azqueue.service.queues.calls import (
    Count,
    Delete,
    Dequeue,
    Put,
    Release,
    Update,
)
from spark_azqueue.service.queues.client import InFlight, QueueClient
from spark_azqueue.service.queues.reach import ProbeUpdate
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.service.wire.concurrency import Limits
from spark_azqueue.service.wire.http import Session
from spark_azqueue.testing import FakeClock, MessageView
from spark_azqueue.testing.model import ModelAccount

SOURCE = "orders"

LIMIT_S = 40.0
"""Without a limit of its own a request ends after so long, as in `wire.py`."""

A_MOMENT_S = 0.001
"""Whoever waits, if only for nothing, waits so long: time never stands still for it."""

STEP_S = 5.0
"""How often a renewal thread looks, in simulated time."""

OPERATIONS: Mapping[type[Call[Any]], str] = {
    Dequeue: "dequeue",
    Delete: "delete",
    Update: "update",
    Release: "update",
    Put: "put",
    Count: "count",
    ProbeUpdate: "check",
}


class Hang(enum.Enum):
    """What becomes of a request that is not answered at once."""

    ARRIVES = "it takes effect at once, and nobody hears of it"
    NEVER = "it takes no effect"
    LATE = "it takes effect so many seconds after it was given up"
    SLOW = "it takes effect at once, and is answered so many seconds later"


class Hung(NamedTuple):
    """A request that is to hang."""

    hang: Hang
    seconds: float = 0.0


@dataclass
class Service:
    """The account, its clock, and the faults that the next requests meet."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(1_800_000_000.0, frozen=True))
    account: ModelAccount = field(default_factory=ModelAccount)
    lost_replies: Counter[str] = field(default_factory=Counter)
    lost_requests: Counter[str] = field(default_factory=Counter)
    busy: Counter[str] = field(default_factory=Counter)
    hung: defaultdict[str, list[Hung]] = field(default_factory=lambda: defaultdict(list))
    met: Counter[Hang] = field(default_factory=Counter)
    """How many requests hung, and how."""
    twice: int = 0
    updates: int = 0
    releases: int = 0
    unsure: set[str] = field(default_factory=set)
    """Ids whose lease is not certain: the last renewal or dequeue was not answered, or refused."""
    before_dequeue: Callable[[str], None] | None = None
    """Called with a queue's name before each dequeue: what others send meanwhile."""
    while_time_passes: Callable[[], None] | None = None
    """Called every few seconds while somebody waits: what other threads do meanwhile."""

    def __post_init__(self) -> None:
        self._late: list[tuple[float, int, Call[Any]]] = []
        self._order = itertools.count()
        TIME.service = self

    def views(self, name: str = SOURCE) -> list[MessageView]:
        return self.account.queue(name).messages(now=self.clock.now())

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with what arrives late and what other threads do meanwhile."""
        end = self.clock.now() + seconds
        while (now := self.clock.now()) < end:
            until = end
            if self.while_time_passes:
                until = min(until, now + STEP_S)
            if self._late:
                until = min(until, max(now, self._late[0][0]))
            self.clock.advance(until - now)
            while self._late and self._late[0][0] <= self.clock.now():
                self._take_effect(heapq.heappop(self._late)[2])
            if self.while_time_passes:
                self.while_time_passes()

    @property
    def is_late(self) -> bool:
        """True if requests that were given up have not arrived yet."""
        return bool(self._late)

    def end_faults(self) -> None:
        """From now on all is well, but for what was given up and has not arrived yet."""
        self.lost_replies.clear()
        self.lost_requests.clear()
        self.busy.clear()
        self.hung.clear()
        self.twice = 0

    def ask(self, call: Call[Any], limit_s: float) -> tuple[float, Answer | NoAnswer]:
        """A request is sent now: when it ends, and how."""
        now = self.clock.now()
        operation = _operation(call)
        waiting = self.hung[operation]
        hang, seconds = waiting.pop(0) if waiting else (None, 0.0)
        if hang is None:
            return now, self._noted(call, self._answer(call, operation))
        self.met[hang] += 1
        if hang is Hang.LATE:
            heapq.heappush(self._late, (now + limit_s + seconds, next(self._order), call))
        elif hang is not Hang.NEVER:
            given = self._take_effect(call)
            if hang is Hang.SLOW and seconds < limit_s:
                return now + seconds, self._noted(call, given)
        nothing = NoAnswer(f"nothing came within {limit_s} s", untrusted=False)
        return now + limit_s, self._noted(call, nothing)

    def _noted(self, call: Call[Any], given: Answer | NoAnswer) -> Answer | NoAnswer:
        if isinstance(call, Update):
            sure = isinstance(given, Answer) and given.status < 300
            (self.unsure.discard if sure else self.unsure.add)(call.lease.message_id)
        return given

    def _answer(self, call: Call[Any], operation: str) -> Answer | NoAnswer:
        if self._take(self.busy, operation):
            return refusal(503, "ServerBusy", self.clock.now())
        lost = NoAnswer("the connection was lost", untrusted=False)
        if self._take(self.lost_requests, operation):
            return lost
        leased: set[str] = set()
        given = self._take_effect(call, leased)
        if self._take(self.lost_replies, operation):
            return lost
        self.unsure -= leased
        return given

    def _take(self, counter: Counter[str], operation: str) -> bool:
        if counter[operation] <= 0:
            return False
        counter[operation] -= 1
        return True

    def _take_effect(self, call: Call[Any], leased: set[str] | None = None) -> Answer:
        """Carry it out on the model. leased: takes the ids of messages that are surely leased."""
        if isinstance(call, Dequeue):
            return self._dequeued(call, set() if leased is None else leased)
        if isinstance(call, Update | Release):
            self.updates += 1
            self.releases += isinstance(call, Release) or call.visibility_s == 0
        return answer(self.account, call, self.clock.now())

    def _dequeued(self, call: Dequeue, leased: set[str]) -> Answer:
        if self.before_dequeue:
            self.before_dequeue(call.queue.name)
        twice, self.twice = self.twice > 0, 0
        given = answer(self.account, call, self.clock.now(), twice=twice)
        if given.status == 200:
            ids = {message.message_id for message, _ in call.result(given).received}
            self.unsure |= ids
            leased |= set() if twice else ids
        return given


def _operation(call: Call[Any]) -> str:
    if isinstance(call, Put) and call.ttl_s == 0:
        return "check"  # a put that is always refused: it asks what one may do
    return OPERATIONS[type(call)]


class SimulatedTime:
    """Stands in for the module `time`: the clock of the service that was made last."""

    service: Service

    def monotonic(self) -> float:
        return self.service.clock.now()

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.service.pass_time(max(seconds, A_MOMENT_S))


TIME = SimulatedTime()


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
