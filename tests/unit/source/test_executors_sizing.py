"""How the size of plans follows what they took, with two cores and queues at their limit."""

from __future__ import annotations

import math

import pytest
from refs import ACCOUNT

from spark_azqueue.options.log import ExecutorsConfig
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.messages import MOST_IN_A_PLAN, QueueRef
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import Closed, Counts, SlotReport
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.executors.planning import PlanSizing

QUEUES = [QueueRef(ACCOUNT, f"orders-{number}") for number in range(4)]
CORES = 2
QUEUE_PER_S = 2_000
SINK_S = 2.0
WORKERS_START_S = 2.0


class Cluster:
    """Runs plans in simulated time. Two tasks run at once; the others follow."""

    def __init__(self) -> None:
        self.now = 1_000.0
        given = {"secret.connectionString": "UseDevelopmentStorage=true", "queue": "orders"}
        config = source_config(given, {})
        self.sizing = PlanSizing(config, ExecutorsConfig(), lambda: self.now)
        self.slots = 0

    def run(self, number: int) -> float:
        """Run the next plan. Returns messages per second."""
        slots = self.sizing.slots(QUEUES, MOST_IN_A_PLAN)
        self.slots, began, messages = len(slots), self.now, sum(slot.messages for slot in slots)
        self.sizing.begins()
        settled = []
        for place, slot in enumerate(slots):
            took = slot.messages / len(slot.queues) / QUEUE_PER_S + 0.3
            start = began + place // CORES * took
            counts = Counts(began_cs=int(start * 100), took_cs=int(took * 100))
            settled.append(SlotReport(messages=slot.messages, counts=counts))
            self.now = max(self.now, start + took)
        self.now += SINK_S + (WORKERS_START_S if number == 1 else 0.0)
        plan = Plan(ACCOUNT, "0" * 32, PlanId(number, "0" * 32), slots)
        self.sizing.on_plan_closed(Closed(plan, tuple(settled)), {}, ran_here=True)
        return messages / (self.now - began)


def test_plans_grow_again_once_it_is_known_how_many_tasks_run_at_once() -> None:
    """What did not pay when tasks waited for each other pays when all run at once."""
    cluster = Cluster()
    speeds = [cluster.run(number) for number in range(1, 16)]
    assert cluster.slots == CORES
    best = len(QUEUES) * QUEUE_PER_S
    assert speeds[0] < best / 3
    assert speeds[-1] > best * 0.7, [math.floor(speed) for speed in speeds]


@pytest.mark.parametrize(
    ("messages", "full", "seconds", "then"),
    [
        (8_192, 1.0, 3.0, 16_384),
        (8_192, 0.5, 3.0, 4_096),
        (16_384, 1.0, 9.0, 16_384),
        (32_768, 1.0, 3.0, 32_768),
        (1_000, 1.0, 1.0, 8_192),
    ],
    ids=["full", "not full", "slow", "the largest", "a small limit"],
)
def test_a_restart_begins_with_the_sizes_of_the_plan_that_it_closes(
    messages: int, full: float, seconds: float, then: int
) -> None:
    """So runs of one batch grow, too, as with availableNow on Spark 4.0 and 4.1."""
    sizing = Cluster().sizing
    slots = tuple(Slot((queue,), messages, 1_000) for queue in QUEUES)
    counts = Counts(took_cs=int(seconds * 100))
    given = tuple(SlotReport(messages=int(messages * full), counts=counts) for _ in slots)
    plan = Plan(ACCOUNT, "0" * 32, PlanId(7, "0" * 32), slots)

    sizing.on_plan_closed(Closed(plan, given), {}, ran_here=False)

    assert {slot.messages for slot in sizing.slots(QUEUES, MOST_IN_A_PLAN)} == {then}
