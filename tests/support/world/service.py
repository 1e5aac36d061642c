"""The account that a simulation talks to: its queues, its clock, and what becomes of requests.

What goes wrong with a request is a `Fault` that waits for the next one of its kind. It is the same
for all who ask: the package's own transport, with its retries and limits, over which `ask` stands
for libcurl (`process.Simulated`), and clients whose requests end at once (`process.AtOnceClient`).
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from spark_azqueue.service.account import Account
from spark_azqueue.service.incoming import Answer, NoAnswer
from spark_azqueue.service.queues.calls import (
    Count,
    DatedDelete,
    Delete,
    Dequeue,
    Peek,
    Put,
    Release,
    Show,
    Update,
)
from spark_azqueue.service.queues.reach import ProbeUpdate
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.service.wire.transport import failure
from spark_azqueue.testing import FakeClock, MessageView
from spark_azqueue.testing.model import ModelAccount

from .answers import answer, refusal
from .fates import Fate, Fault

SOURCE = "orders"
POISON = "orders-poison"

LIMIT_S = 40.0
"""Without a limit of its own a request ends after so long, as in `wire.py`."""

STEP_S = 5.0
"""How often a renewal thread looks, in simulated time."""

BY_HAND = float("inf")
"""When something happens that no time brings about: it waits for `land`."""

OPERATIONS: Mapping[type[Call[Any]], str] = {
    Dequeue: "dequeue",
    Delete: "delete",
    DatedDelete: "delete",
    Update: "update",
    Release: "update",
    Show: "update",
    Put: "put",
    Count: "count",
    Peek: "peek",
    ProbeUpdate: "check",
}


class Later(NamedTuple):
    """Something that happens when the clock says so, or by hand."""

    at: float
    order: int
    happens: Callable[[], object]


class Service:
    """The account, its clock, and the faults that the next requests meet.

    seen: called with each request that took effect and its answer. unsure: ids whose lease is not
    certain, since the last renewal or dequeue was not answered, or refused. met: how many requests
    met a fault, by what became of them. drivers_ahead_s: so much the clocks of our processes are
    ahead of the service's.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.clock = FakeClock(1_800_000_000.25, frozen=True)
        self.account = ModelAccount()
        self.faults: defaultdict[str, list[Fault | None]] = defaultdict(list)
        self.met: Counter[Fate] = Counter()
        self.updates = 0
        self.releases = 0
        self.unsure: set[str] = set()
        self.seen: list[Callable[[Call[Any], Answer], object]] = []
        self.drivers_ahead_s = 0.0
        self.before_dequeue: Callable[[str], object] | None = None
        """Called with a queue's name before each dequeue: what others send meanwhile."""
        self.while_time_passes: Callable[[], None] | None = None
        """Called every few seconds while somebody waits: what other threads do meanwhile."""
        self._later: list[Later] = []
        self._order = itertools.count()
        self._is_twice = False
        self._skew_s = 0.0
        for name in names:
            self.account.create(name)
        TIME.service = self

    def views(self, name: str = SOURCE) -> list[MessageView]:
        """All messages of a queue, none if there is no such queue."""
        if name not in self.account.names():
            return []
        return self.account.queue(name).messages(now=self.clock.now())

    def wall(self) -> float:
        """What the clocks of our processes say."""
        return self.clock.now() + self.drivers_ahead_s

    # ── what may happen to it ─────────────────────────────────────────────────────────────────────

    def meet(self, operation: str, *faults: Fault | Fate | None, times: int = 1) -> None:
        """The next requests of this operation, or of "any", meet these faults, one each."""
        given = [Fault(each) if isinstance(each, Fate) else each for each in faults]
        self.faults[operation] += given * times

    def skew(self, seconds: float) -> None:
        """From now on the clock that dates its refusals differs so much from that of its leases."""
        self._skew_s = seconds

    def deliver_twice(self) -> None:
        """The next messages that are dequeued stay visible to the dequeue after that, as well."""
        self._is_twice = True

    def end_faults(self) -> None:
        """From now on all is well, but for what was given up and has not arrived yet."""
        self.faults.clear()
        self.before_dequeue = None
        self.drivers_ahead_s = 0.0
        self._skew_s = 0.0
        self._is_twice = False

    # ── time ──────────────────────────────────────────────────────────────────────────────────────

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with what arrives late and what other threads do meanwhile."""
        end = self.clock.now() + seconds
        while (now := self.clock.now()) < end:
            until = end
            if self.while_time_passes:
                until = min(until, now + STEP_S)
            if self._later:
                until = min(until, max(now, self._later[0].at))
            self.clock.advance(until - now)
            while self._later and self._later[0].at <= self.clock.now():
                heapq.heappop(self._later).happens()
            if self.while_time_passes:
                self.while_time_passes()

    @property
    def is_late(self) -> bool:
        """True if something that was given up has not arrived yet."""
        return bool(self._later)

    def later(self, happens: Callable[[], object], at: float = BY_HAND) -> None:
        """This happens when the clock says so, or with `land`."""
        heapq.heappush(self._later, Later(at, next(self._order), happens))

    def land(self, which: int = 0) -> None:
        """One of the things that are late happens now."""
        if self._later:
            chosen = self._later[which % len(self._later)]
            self._later.remove(chosen)
            heapq.heapify(self._later)
            chosen.happens()

    # ── requests ──────────────────────────────────────────────────────────────────────────────────

    def ask(
        self, call: Call[Any], limit_s: float = LIMIT_S, fault: Fault | None = None
    ) -> tuple[float, Answer | NoAnswer]:
        """A request is sent now: when it ends, and how. fault: of this one, whatever waits."""
        now = self.clock.now()
        fault = fault or self._next_fault(call)
        if fault is None:
            return now, self._noted(call, self.carry_out(call, is_sure=True))
        self.met[fault.fate] += 1
        ends_at = now + limit_s if fault.hangs else now
        if fault.fate is Fate.BUSY:
            return now, self._noted(call, refusal(503, "ServerBusy", now))
        if fault.fate is Fate.REFUSED:
            return now, self._noted(call, refusal(403, "AuthorizationPermissionMismatch", now))
        if fault.fate is Fate.LATE:
            self.later(lambda: self.carry_out(call), ends_at + fault.seconds)
        elif fault.fate is not Fate.LOST_BEFORE:
            given = self.carry_out(call)
            if fault.hangs and 0 < fault.seconds < limit_s:
                return now + fault.seconds, self._noted(call, given)
        nothing = f"nothing came within {limit_s} s" if fault.hangs else "the connection was lost"
        return ends_at, self._noted(call, NoAnswer(nothing, untrusted=False))

    def result(
        self, call: Call[Any], account: Account, *, again: bool = False, fault: Fault | None = None
    ) -> Any:
        """The result of a request that is sent now, and ends at once. Raises ServiceError.

        account: as its sender sees it. again: an attempt before it had no answer.
        """
        _, given = self.ask(call, fault=fault)
        if isinstance(given, Answer) and given.status < 300:
            return call.result(given)
        error = failure(call, account, given, self.wall())
        error.unanswered = again
        if call.by_receipt and error.outcome.refused:
            return call.refused(error)
        raise error

    def _next_fault(self, call: Call[Any]) -> Fault | None:
        for operation in (operation_of(call), "any"):
            if waiting := self.faults[operation]:
                return waiting.pop(0)
        return None

    def _noted(self, call: Call[Any], given: Answer | NoAnswer) -> Answer | NoAnswer:
        if isinstance(call, Update):
            sure = isinstance(given, Answer) and given.status < 300
            (self.unsure.discard if sure else self.unsure.add)(call.lease.message_id)
        return given

    def carry_out(self, call: Call[Any], *, is_sure: bool = False) -> Answer:
        """Carry it out on the model. is_sure: its sender hears of it."""
        if isinstance(call, Dequeue) and self.before_dequeue:
            self.before_dequeue(call.queue.name)
        if isinstance(call, Update | Release):
            self.updates += 1
            self.releases += isinstance(call, Release) or call.visibility_s == 0
        is_twice = self._is_twice and isinstance(call, Dequeue)
        given = answer(self.account, call, self.clock.now(), twice=is_twice, skew_s=self._skew_s)
        if isinstance(call, Dequeue) and given.status == 200:
            ids = {message.message_id for message, _ in call.result(given).received}
            self._is_twice &= not ids
            self.unsure = self.unsure - ids if is_sure and not is_twice else self.unsure | ids
        for watch in self.seen:
            watch(call, given)
        return given


def operation_of(call: Call[Any]) -> str:
    """By what name a fault is meant for it."""
    if isinstance(call, Put) and call.ttl_s == call.delay_s and call.ttl_s:
        return "check"  # a put that is always refused: it asks what one may do
    return OPERATIONS[type(call)]


class SimulatedTime:
    """Stands in for the module `time`: the clock of the service that was made last."""

    service: Service

    def monotonic(self) -> float:
        return self.service.clock.now()

    def time(self) -> float:
        return self.service.wall()

    def sleep(self, seconds: float) -> None:
        self.service.pass_time(max(seconds, A_MOMENT_S))


A_MOMENT_S = 0.001
"""Whoever waits, if only for nothing, waits so long: time never stands still for it."""

TIME = SimulatedTime()
