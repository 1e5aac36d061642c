"""Queues that all have a backlog get equal shares, whatever the size of a batch is.

The receiver runs over queues that are never short; some of them come and go. Only the requests
count here, so one thread and no clock are enough. Plans of leaseOn=executors likewise, over a model
of what their tasks do.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from budget import EXAMPLES
from doubles import OneByOne, page_of
from hypothesis import given, settings
from hypothesis import strategies as st
from refs import ref

from spark_azqueue.options.choices import IsolationLevel, QueuePriority
from spark_azqueue.service.messages import MAX_PER_REQUEST
from spark_azqueue.service.queues.calls import Page
from spark_azqueue.source.batches.receiver import Receiver
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import Looked
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.source.executors.planning import ReadyQueues, chosen_queues, slots_of
from spark_azqueue.source.intake.backlog import Isolation
from spark_azqueue.source.intake.polling import FairTurns


class Endless:
    """A queue that is never short, or always empty."""

    def __init__(self, name: str) -> None:
        self.ref = ref(name)
        self.empty = False
        self.requests = 0
        self.given = 0

    def dequeue(self, count: int, visibility_s: int) -> Page:
        self.requests += 1
        count_given = 0 if self.empty else count
        first, self.given = self.given, self.given + count_given
        return page_of(self.ref, range(first, self.given), count)


def batch(receiver: Receiver, most: int) -> Counter[str]:
    """One batch of up to so many messages: how many came from which queue."""
    came: Counter[str] = Counter()
    for page in receiver.look(60, lambda: most - sum(came.values())):
        came.update(message.queue.name for message, _ in page.received)
    return came


def a_receiver(queues: list[Endless], parallelism: int, clock: Any = None) -> Receiver:
    by_ref = {queue.ref: queue for queue in queues}
    return Receiver(
        OneByOne(by_ref.__getitem__), list(by_ref), parallelism, 1.0, clock or (lambda: 0.0)
    )


@given(
    queues=st.integers(2, 12),
    parallelism=st.integers(1, 16),
    batches=st.lists(st.integers(1, 400), min_size=1, max_size=60),
)
@settings(max_examples=10 * EXAMPLES)
def test_over_any_batches_each_queue_gets_an_equal_share(
    queues: int, parallelism: int, batches: list[int]
) -> None:
    stocks = [Endless(f"queue-{n}") for n in range(queues)]
    receiver = a_receiver(stocks, parallelism)
    shares: list[Counter[str]] = [Counter()]
    for most in batches:
        came = batch(receiver, most)
        assert sum(came.values()) == most
        shares.append(shares[-1] + came)

    # Over every run of batches, not only from the start. Two queues differ by a page each, and by
    # what one more request at once brings while the other is still asked for one.
    bound = MAX_PER_REQUEST * (2 + max(1, parallelism // queues))
    for begin in range(len(shares)):
        for end in range(begin + 1, len(shares)):
            counts = [shares[end][q.ref.name] - shares[begin][q.ref.name] for q in stocks]
            assert max(counts) - min(counts) <= bound


@given(most=st.integers(1, 200), queues=st.integers(1, 9))
def test_an_idle_queue_costs_one_request_when_it_is_due(most: int, queues: int) -> None:
    now = [0.0]
    stocks = [Endless(f"queue-{n}") for n in range(queues)]
    for stock in stocks[1:]:
        stock.empty = True
    receiver = a_receiver(stocks, 8, lambda: now[0])

    for _ in range(10):
        batch(receiver, most)
    assert all(stock.requests <= 1 for stock in stocks[1:]), "not due again yet"

    now[0] += 0.1
    for _ in range(10):
        batch(receiver, most)
    assert all(stock.requests == 2 for stock in stocks[1:])
    assert stocks[0].given == 20 * most


@given(quiet=st.integers(1, 100))
@settings(max_examples=30)
def test_a_quiet_time_earns_no_credit(quiet: int) -> None:
    """A queue that was empty for long does not push the others aside when messages come."""
    now = [0.0]
    steady, comes_late = Endless("a-queue"), Endless("b-queue")
    comes_late.empty = True
    receiver = a_receiver([steady, comes_late], 2, lambda: now[0])
    for _ in range(quiet):
        now[0] += 10
        batch(receiver, 64)

    comes_late.empty = False
    now[0] += 10
    came: Counter[str] = sum((batch(receiver, 64) for _ in range(10)), Counter())

    assert abs(came["a-queue"] - came["b-queue"]) <= 2 * MAX_PER_REQUEST


def test_a_slow_queue_makes_up_for_a_bounded_lag_only() -> None:
    quick, slow = ref("quick"), ref("slow")
    turns = FairTurns([quick, slow], most_credit=100)
    turns.asked(slow, 32)
    for _ in range(50):
        turns.asked(quick, 32)

    slow_ones = 0
    while turns.next([quick, slow]) == slow:
        turns.asked(slow, 32)
        slow_ones += 1

    assert slow_ones <= 100 // 32 + 2


# ── runs of a few batches, and many queues ────────────────────────────────────────────────────────

QUEUES = [ref(f"queue-{number:04d}") for number in range(1_000)]


@given(
    count=st.integers(1, 40),
    most=st.integers(1, 300),
    batches_of_a_run=st.integers(1, 3),
    first=st.integers(0, 1_000),
    parallelism=st.integers(1, 16),
)
@settings(max_examples=10 * EXAMPLES)
def test_runs_of_a_few_batches_read_every_queue(
    count: int, most: int, batches_of_a_run: int, first: int, parallelism: int
) -> None:
    """A process knows no marks of the one before: the number of its first batch says who begins."""
    stocks = [Endless(f"queue-{n}") for n in range(count)]
    came: Counter[str] = Counter()
    number = first
    for _ in range(count):
        receiver = a_receiver(stocks, parallelism)
        for _ in range(batches_of_a_run):
            receiver.begin(number, most)
            came += batch(receiver, most)
            number += 1

    assert len(came) == count


def test_a_queue_that_comes_does_not_make_the_first_ones_first_again() -> None:
    stocks = [Endless(f"queue-{n}") for n in range(21)]
    receiver = a_receiver(stocks[:20], 4)
    came: Counter[str] = Counter()
    for number in range(20):
        came += batch(receiver, 32)
        receiver.read_from([stock.ref for stock in stocks[: 20 + number % 2]])

    assert len(came) >= 20


class Slots:
    """The driver's half with leaseOn=executors: plans, and what their tasks say. Every queue has a
    backlog; a task asks the queues of its slot in their order, a page each, while it has room."""

    def __init__(self, count: int, most: int, of_slot: int, width: int) -> None:
        self.queues = QUEUES[:count]
        self._most, self._of_slot, self._width = most, of_slot, width
        self.starts()

    def starts(self) -> None:
        """Another process."""
        self._ready = ReadyQueues(
            None,  # type: ignore[arg-type]
            Isolation(IsolationLevel.READ_UNCOMMITTED),
            1.0,
            lambda: 0.0,
            lambda _: False,
        )
        self._ready.read_from(self.queues)

    def plan(self, number: int, chance: random.Random) -> Plan:
        waiting = [queue for queue in self.queues if chance.random() < 0.9] or self.queues
        queues = chosen_queues(
            waiting,
            self._ready.was_emptied,
            self._ready.last_turn,
            QueuePriority.FAIR,
            number,
            self._width,
            self._most,
        )
        slots = slots_of(
            queues,
            self._width,
            most=self._most,
            most_of_slot=self._of_slot,
            most_bytes=None,
            bytes_of_slot=1_000,
            learned={},
        )
        return Plan("acc", "a" * 32, PlanId(number, "b" * 32), slots)

    def runs(self, plan: Plan) -> dict[str, Looked]:
        """What its tasks say; a queue that has its turn gives what the slot still needs."""
        said = {}
        for slot in plan.slots:
            room = slot.messages
            for queue in slot.queues:
                got = min(room, MAX_PER_REQUEST)
                room -= got
                said[queue.name] = Looked(got)
        return said

    def on_plan_closed(self, plan: Plan, said: dict[str, Looked]) -> None:
        self._ready.on_plan_closed(plan, said, ran_here=True)


@given(
    count=st.integers(1, 300),
    most=st.integers(1, 2_000),
    of_slot=st.integers(1, 300),
    width=st.integers(1, 16),
    seed=st.integers(0, 1_000),
)
@settings(max_examples=3 * EXAMPLES)
def test_with_executors_the_queue_that_waits_longest_is_read(
    count: int, most: int, of_slot: int, width: int, seed: int
) -> None:
    """However the messages of a plan are cut, each plan reads whom nobody has read for longest."""
    world = Slots(count, most, of_slot, width)
    chance = random.Random(seed)
    last = dict.fromkeys(world.queues, 0)
    for number in range(1, 2 * count + 1):
        plan = world.plan(number, chance)
        said = world.runs(plan)
        world.on_plan_closed(plan, said)
        oldest = min(last[queue] for queue in plan.queues)
        read = {queue for queue in plan.queues if said[queue.name].got}
        assert any(last[queue] == oldest for queue in read)
        last |= dict.fromkeys(read, number)


def test_with_executors_a_thousand_queues_wait_for_four_batches() -> None:
    world = Slots(1_000, 1_000_000, 10_000, 8)
    everything = random.Random()
    everything.random = lambda: 0.0  # type: ignore[method-assign]
    read: Counter[str] = Counter()
    for number in range(1, 41):
        plan = world.plan(number, everything)
        said = world.runs(plan)
        world.on_plan_closed(plan, said)
        read.update(name for name, saw in said.items() if saw.got)

    assert len(read) == 1_000
    assert max(read.values()) - min(read.values()) <= 1


@given(
    count=st.integers(1, 60),
    most=st.integers(1, 300),
    of_slot=st.integers(1, 100),
    width=st.integers(1, 16),
    first=st.integers(0, 1_000),
    is_heard=st.booleans(),
)
@settings(max_examples=5 * EXAMPLES)
def test_with_executors_runs_of_one_batch_read_every_queue(
    count: int, most: int, of_slot: int, width: int, first: int, *, is_heard: bool
) -> None:
    """is_heard: a process closes the plan of the one before, and so knows what that has read."""
    world = Slots(count, most, of_slot, width)
    everything = random.Random()
    everything.random = lambda: 0.0  # type: ignore[method-assign]
    read: set[str] = set()
    for number in range(first + 1, first + count + 1):
        plan = world.plan(number, everything)
        said = world.runs(plan)
        read |= {name for name, saw in said.items() if saw.got}
        world.starts()
        if is_heard:
            world.on_plan_closed(plan, said)

    assert len(read) == count
