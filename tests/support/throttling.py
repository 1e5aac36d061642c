"""A model of a throttled account and of clients that empty its queues through `Limits`.

The service answers each queue so many requests a second, and the account so many, with a short
allowance above; what is beyond gets 503. A client is one thread: each request costs it time. It
deletes as fast as its limits allow, and dequeues in bursts. All time is simulated. `run` is one
client that never ends; `run_plans`: an executor a slot, plan after plan (leaseOn=executors).
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from observed import ObservedLimits

from spark_azqueue.service.messages import MOST_IN_A_PLAN, QueueRef
from spark_azqueue.service.wire.concurrency import Response, Turn
from spark_azqueue.source.batches.batch import TARGET_ALONE_S, BatchSize
from spark_azqueue.source.executors.plan import Learned
from spark_azqueue.source.executors.planning import slots_of

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
    refuses: float = 0.0
    """The part of all requests that gets 503 at any rate."""
    stall_s: float = 0.02
    """At times the client's thread rests so long: others of its process need the core."""
    stalls_per_s: float = 1.0
    seed: int = 1
    limits: ObservedLimits = field(default_factory=ObservedLimits)
    most_under_way: int = 0
    """The most deletes that were under way at once, over all queues."""

    def run(self, seconds: float) -> list[list[Sample]]:
        """Let the client work for so long. Returns the course of each queue."""
        client = _Client(self, range(self.queues), _Service(self), self.limits, self.seed)
        while client.now < seconds:
            client.step()
        return [client.samples[number] for number in range(self.queues)]

    def run_plans(self, executors: int, plans: int, batch: Batch) -> list[PlanRun]:
        """Let so many executors work on so many plans, each on its share of the queues.

        A task dequeues what its slot may have, stores it, deletes it; the next plan begins `gap_s`
        after the last task has ended, and tells each task what the last one of its queue learned.
        """
        service, now, done = _Service(self), 0.0, []
        learned: dict[QueueRef, tuple[int, int | None]] = {}
        sizes = BatchSize(None, target_s=TARGET_ALONE_S)
        refs = [_ref(number) for number in range(self.queues)]
        for number in range(plans):
            tasks = []
            for place, slot in enumerate(
                slots_of(
                    refs,
                    executors,
                    most=MOST_IN_A_PLAN,
                    most_of_slot=sizes.most,
                    most_bytes=None,
                    bytes_of_slot=2**25,
                    learned={ref.name: Learned(*each) for ref, each in learned.items()},
                )
            ):
                limits = ObservedLimits()
                for ref in slot.queues:
                    if ref in learned:
                        limits.go_on(ref, *learned[ref], now)
                seed = self.seed * 1000 + number * executors + place
                mine = [refs.index(ref) for ref in slot.queues]
                task = _Client(self, mine, service, limits, seed, now)
                task.begin_task(slot.messages // len(mine), batch.store_s)
                tasks.append(task)
            working = list(tasks)
            while working:
                task = min(working, key=lambda each: each.now)
                task.step()
                if task.is_done:
                    working.remove(task)
            for task in tasks:
                learned |= {ref: found for ref in task.refs if (found := task.limits.learned(ref))}
            end = max(each.now for each in tasks)
            courses = [course for each in tasks for course in each.samples.values()]
            messages = sum(each.messages for each in tasks)
            done.append(PlanRun(now, end + batch.gap_s, messages, courses))
            sizes.batch_began(sizes.most, now)
            sizes.batch_ended(now := end + batch.gap_s)
        return done


@dataclass(frozen=True)
class Batch:
    """What a plan costs besides requests: to store a segment, and between two plans."""

    store_s: float = 0.05
    gap_s: float = 0.2


@dataclass(frozen=True)
class PlanRun:
    """What became of one plan. end_s: when the next one begins."""

    begin_s: float
    end_s: float
    messages: int
    courses: Sequence[Sequence[Sample]]


@dataclass
class _Request:
    queue: int
    turn: Turn
    sent_at: float = 0.0
    tries: int = 0


class _Service:
    """What the service still carries out of each queue, and of the account."""

    def __init__(self, world: ThrottledAccount) -> None:
        self._others = world.others
        self._queues = [Allowance(world.cap, world.burst_s) for _ in range(world.queues)]
        self._account = Allowance(world.account_cap, world.burst_s)

    def carries_out(self, queue: int, now: float) -> bool:
        return self._account.take(now) and self._queues[queue].take(now, self._others(now))


class _Client:
    def __init__(
        self,
        world: ThrottledAccount,
        queues: Sequence[int],
        service: _Service,
        limits: ObservedLimits,
        seed: int,
        now: float = 0.0,
    ) -> None:
        self.now = now
        self.limits = limits
        self.samples: dict[int, list[Sample]] = {number: [] for number in queues}
        self.messages = 0
        self._began = now
        self._world = world
        self._service = service
        self._chance = random.Random(seed)
        self._refs = {number: _ref(number) for number in queues}
        self._order = itertools.count()
        self._arriving: list[tuple[float, int, _Request, Response]] = []
        self._paused: list[tuple[float, int, _Request]] = []
        self._to_delete = dict.fromkeys(queues, BATCH)
        self._dequeues = dict.fromkeys(queues, 0)
        self._dequeuing = 0
        self._deleting = 0
        self._stall_at = now + 1.0
        self._is_task = False
        self._store_s: float | None = None

    @property
    def refs(self) -> Iterable[QueueRef]:
        return self._refs.values()

    @property
    def is_done(self) -> bool:
        """True if a task has deleted everything."""
        return self._is_task and self._store_s is None and not self._has_work

    @property
    def _has_work(self) -> bool:
        left = any(self._to_delete.values()) or any(self._dequeues.values())
        return left or self._dequeuing > 0 or self._deleting > 0

    def begin_task(self, of_queue: int, store_s: float) -> None:
        """Work on so many messages of each queue, once: dequeue all, store them, delete them."""
        self._is_task = True
        self._store_s = store_s
        self._dequeues = dict.fromkeys(self._refs, math.ceil(of_queue / PAGE))
        self._to_delete = dict.fromkeys(self._refs, 0)
        self.messages = PAGE * sum(self._dequeues.values())

    def step(self) -> None:
        """Do what can be done now, and go on to when there is more."""
        world = self._world
        cost_s = 1 / world.client_per_s
        if self.now > self._stall_at:
            self.now += world.stall_s * self._chance.uniform(0.5, 1.5)
            self._stall_at = self.now + self._chance.expovariate(world.stalls_per_s)
        while self._arriving and self._arriving[0][0] <= self.now:
            self._hear(*heapq.heappop(self._arriving)[2:])
            self.now += cost_s / 2
        while self._paused and self._paused[0][0] <= self.now:
            request = heapq.heappop(self._paused)[2]
            self.limits.sent_again(self._refs[request.queue])
            self._send(request)
        if self._store_s is not None and not self._has_work:  # all is dequeued
            self.now += self._store_s
            self._store_s = None
            each = self.messages // len(self._refs)
            self._to_delete = dict.fromkeys(self._refs, each)
        again_at = self._begin(cost_s / 2)
        nexts = [again_at, *(heap[0][0] for heap in (self._arriving, self._paused) if heap)]
        following = min(nexts)
        self.now = max(self.now + 1e-5, following if following < math.inf else self.now)

    def _begin(self, cost_s: float) -> float:
        """Begin what the limits allow, a queue after the other. Returns when to ask again."""
        again_at = math.inf
        full: set[int] = set()
        while len(full) < len(self._refs):
            for number, ref in self._refs.items():
                if number in full:
                    continue
                wants_page = self._dequeues[number] and self._dequeuing < DEQUEUES_AT_ONCE
                if not wants_page and not self._to_delete[number]:
                    full.add(number)
                    continue
                turn = Turn.AHEAD if wants_page else Turn.IN_TURN
                wait_s = self.limits.admit(ref, turn, self.now)
                if wait_s:
                    full.add(number)
                    again_at = min(again_at, self.now + wait_s)
                    continue
                if wants_page:
                    self._dequeues[number] -= 1
                    self._dequeuing += 1
                else:
                    self._to_delete[number] -= 1
                    self._deleting += 1
                    self._world.most_under_way = max(self._world.most_under_way, self._deleting)
                    if not self._to_delete[number] and not self._is_task:
                        self._dequeues[number] += BATCH // PAGE  # the next batch
                        self._to_delete[number] = BATCH
                self._send(_Request(number, turn))
                self.now += cost_s
        return again_at

    def _send(self, request: _Request) -> None:
        world, now = self._world, self.now
        request.sent_at = now
        request.tries += 1
        mean = world.latency_s(now)
        latency = mean * self._chance.lognormvariate(0.0, world.jitter)
        is_done = self._chance.random() >= world.refuses and self._service.carries_out(
            request.queue, now + latency / 2
        )
        response = Response.DONE if is_done else Response.BUSY
        heapq.heappush(self._arriving, (now + latency, next(self._order), request, response))

    def _hear(self, request: _Request, response: Response) -> None:
        ref, now, limits = self._refs[request.queue], self.now, self.limits
        limits.answered(ref, request.turn, response, now, request.sent_at)
        sample = self._sample(request.queue)
        if response is Response.DONE:
            sample.done += 1
            limits.ended(ref, request.turn)
            self._dequeuing -= request.turn is Turn.AHEAD
            self._deleting -= request.turn is Turn.IN_TURN
            return
        sample.busy += 1
        pause_s = self._chance.uniform(0.0, min(5.0, 0.05 * 2 ** (request.tries - 1)))
        heapq.heappush(self._paused, (now + pause_s, next(self._order), request))

    def _sample(self, number: int) -> Sample:
        course = self.samples[number]
        while self._began + len(course) * STEP_S <= self.now:
            course.append(Sample(self._began + len(course) * STEP_S))
        allowed = self.limits.allowed(self._refs[number])
        assert allowed
        course[-1].at_once, course[-1].per_s = allowed
        return course[-1]


def _ref(number: int) -> QueueRef:
    return QueueRef("account", f"queue-{number}")


def done_per_s(course: Sequence[Sample], begin_s: float, end_s: float) -> float:
    """How many requests a second were carried out from `begin_s` to `end_s`."""
    return sum(each.done for each in course if begin_s <= each.at_s < end_s) / (end_s - begin_s)


def share_busy(course: Sequence[Sample], begin_s: float = 0.0, end_s: float = math.inf) -> float:
    """The part of all answers that were 503."""
    within = [each for each in course if begin_s <= each.at_s < end_s]
    busy = sum(each.busy for each in within)
    return busy / max(1, busy + sum(each.done for each in within))
