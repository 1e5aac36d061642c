"""A model of a throttled account and of one client that empties its queues through `Limits`.

The service answers each queue so many requests a second, and the account so many, with a short
allowance above; what is beyond gets 503. The client is one thread: each request costs it time. It
deletes as fast as its limits allow, and dequeues in bursts. All time is simulated.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from observed import ObservedLimits

from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.limits import Heard, Turn

BATCH = 2048
PAGE = 32
DEQUEUES_AT_ONCE = 16
STEP_S = 0.1
"""The length of one sample of the course."""


@dataclass
class Allowance:
    """Requests that the service carries out: `per_s`, and `burst_s` of it at once."""

    per_s: float
    burst_s: float
    level: float = 0.0
    filled_at: float = 0.0

    def take(self, now: float, others_per_s: float = 0.0) -> bool:
        """Use one request, if there is one. others_per_s: what another client uses meanwhile."""
        most = self.per_s * self.burst_s
        filled = (now - self.filled_at) * (self.per_s - others_per_s)
        self.level = min(most, self.level + filled)
        self.filled_at = now
        if self.level < 1.0:
            return False
        self.level -= 1.0
        return True


@dataclass
class Sample:
    """What happened in STEP_S of one queue, and the limits at its end."""

    at_s: float
    done: int = 0
    busy: int = 0
    at_once: int = 0
    per_s: float | None = None


@dataclass
class ThrottledAccount:
    """The service and the client. Rates are in requests per second; times in seconds."""

    latency_s: Callable[[float], float]
    """The mean latency at a time."""
    queues: int = 1
    cap: float = 2_000.0
    account_cap: float = 20_000.0
    burst_s: float = 0.1
    jitter: float = 0.15
    others: Callable[[float], float] = lambda now: 0.0
    """What another client takes of each queue's cap at a time."""
    client_per_s: float = 6_000.0
    """What one core drives."""
    stall_s: float = 0.02
    """At times the client's thread rests so long: others of its process need the core."""
    stalls_per_s: float = 1.0
    seed: int = 1
    limits: ObservedLimits = field(default_factory=ObservedLimits)
    most_under_way: int = 0
    """The most deletes that were under way at once, over all queues."""

    def run(self, seconds: float) -> list[list[Sample]]:
        """Let the client work for so long. Returns the course of each queue."""
        return _Run(self).until(seconds)


@dataclass
class _Request:
    queue: int
    turn: Turn
    sent_at: float = 0.0
    tries: int = 0


class _Run:
    def __init__(self, world: ThrottledAccount) -> None:
        self._world = world
        self._chance = random.Random(world.seed)
        self._refs = [QueueRef("account", f"queue-{number}") for number in range(world.queues)]
        self._allowances = [Allowance(world.cap, world.burst_s) for _ in self._refs]
        self._account = Allowance(world.account_cap, world.burst_s)
        self._order = itertools.count()
        self._arriving: list[tuple[float, int, _Request, Heard]] = []
        self._paused: list[tuple[float, int, _Request]] = []
        self._samples: list[list[Sample]] = [[] for _ in self._refs]
        self._to_delete = [BATCH] * world.queues
        self._dequeues = [deque[None]() for _ in self._refs]
        self._dequeuing = 0
        self._deleting = 0
        self._now = 0.0
        self._stall_at = 1.0

    def until(self, seconds: float) -> list[list[Sample]]:
        world = self._world
        cost_s = 1 / world.client_per_s
        while self._now < seconds:
            if self._now > self._stall_at:
                self._now += world.stall_s * self._chance.uniform(0.5, 1.5)
                self._stall_at = self._now + self._chance.expovariate(world.stalls_per_s)
            while self._arriving and self._arriving[0][0] <= self._now:
                self._hear(*heapq.heappop(self._arriving)[2:])
                self._now += cost_s / 2
            while self._paused and self._paused[0][0] <= self._now:
                request = heapq.heappop(self._paused)[2]
                world.limits.sent_again(self._refs[request.queue])
                self._send(request)
            again_at = self._begin(cost_s / 2)
            nexts = [again_at, *(heap[0][0] for heap in (self._arriving, self._paused) if heap)]
            self._now = max(self._now + 1e-5, min(nexts))
        return self._samples

    def _begin(self, cost_s: float) -> float:
        """Begin what the limits allow, a queue after the other. Returns when to ask again."""
        again_at = math.inf
        full: set[int] = set()
        while len(full) < len(self._refs):
            for number, ref in enumerate(self._refs):
                if number in full:
                    continue
                wants_page = self._dequeues[number] and self._dequeuing < DEQUEUES_AT_ONCE
                if not wants_page and not self._to_delete[number]:
                    full.add(number)
                    continue
                turn = Turn.AHEAD if wants_page else Turn.IN_TURN
                wait_s = self._world.limits.admit(ref, turn, self._now)
                if wait_s:
                    full.add(number)
                    again_at = min(again_at, self._now + wait_s)
                    continue
                if wants_page:
                    self._dequeues[number].popleft()
                    self._dequeuing += 1
                else:
                    self._to_delete[number] -= 1
                    self._deleting += 1
                    self._world.most_under_way = max(self._world.most_under_way, self._deleting)
                    if not self._to_delete[number]:  # the next batch: its pages, then its deletes
                        self._dequeues[number].extend([None] * (BATCH // PAGE))
                        self._to_delete[number] = BATCH
                self._send(_Request(number, turn))
                self._now += cost_s
        return again_at

    def _send(self, request: _Request) -> None:
        world, now = self._world, self._now
        request.sent_at = now
        request.tries += 1
        mean = world.latency_s(now)
        latency = mean * self._chance.lognormvariate(0.0, world.jitter)
        there = now + latency / 2
        allowance = self._allowances[request.queue]
        ok = self._account.take(there) and allowance.take(there, world.others(there))
        heard = Heard.DONE if ok else Heard.BUSY
        heapq.heappush(self._arriving, (now + latency, next(self._order), request, heard))

    def _hear(self, request: _Request, heard: Heard) -> None:
        ref, now = self._refs[request.queue], self._now
        limits = self._world.limits
        limits.answered(ref, request.turn, heard, now, request.sent_at)
        sample = self._sample(request.queue)
        if heard is Heard.DONE:
            sample.done += 1
            limits.ended(ref, request.turn)
            self._dequeuing -= request.turn is Turn.AHEAD
            self._deleting -= request.turn is Turn.IN_TURN
            return
        sample.busy += 1
        pause_s = self._chance.uniform(0.0, min(5.0, 0.05 * 2 ** (request.tries - 1)))
        heapq.heappush(self._paused, (now + pause_s, next(self._order), request))

    def _sample(self, number: int) -> Sample:
        course = self._samples[number]
        while len(course) * STEP_S <= self._now:
            course.append(Sample(len(course) * STEP_S))
        allowed = self._world.limits.allowed(self._refs[number])
        assert allowed
        course[-1].at_once, course[-1].per_s = allowed
        return course[-1]


def done_per_s(course: Sequence[Sample], begin_s: float, end_s: float) -> float:
    """How many requests a second were carried out from `begin_s` to `end_s`."""
    return sum(each.done for each in course if begin_s <= each.at_s < end_s) / (end_s - begin_s)


def share_busy(course: Sequence[Sample], begin_s: float = 0.0, end_s: float = math.inf) -> float:
    """The part of all answers that were 503."""
    within = [each for each in course if begin_s <= each.at_s < end_s]
    busy = sum(each.busy for each in within)
    return busy / max(1, busy + sum(each.done for each in within))
