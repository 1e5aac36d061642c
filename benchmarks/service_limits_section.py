"""How much of the service's limits many executors use, simulated: section `service_limits`.

No machine here has 20 executors, so the limits, the planning and the service's allowances run in
simulated time, with the code of the package (tests/support/throttling.py). The sink is free.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from throttling import Batch, PlanRun, ThrottledAccount

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

QUEUES = 50
QUEUE_PER_S = 2_000
PLANS = 9
_CASES = [
    (slots, account_per_s, latency_s)
    for account_per_s in (20_000, 1_000_000)
    for slots, latency_s in ((50, 0.002), (50, 0.01), (50, 0.05), (20, 0.01))
]


def service_limits(_: Lab) -> Saw:
    """20 executors of four cores run all slots at once; of one core, 20."""
    kept = [_simulated(*case) for case in _CASES]
    return {"queues": QUEUES, "queue_per_s": QUEUE_PER_S, "rounds": kept}


def _simulated(slots: int, account_per_s: int, latency_s: float) -> Saw:
    batch = Batch()
    world = ThrottledAccount(
        lambda now: latency_s, queues=QUEUES, cap=QUEUE_PER_S, account_cap=account_per_s
    )
    plans = world.run_plans(slots, PLANS, batch)
    about = {"slots": slots, "account_per_s": account_per_s, "latency_s": latency_s}
    return about | asdict(batch) | {"ran": [_ran(each) for each in plans]}


def _ran(plan: PlanRun) -> Saw:
    samples = [sample for course in plan.courses for sample in course]
    return {
        "seconds": plan.end_s - plan.begin_s,
        "messages": plan.messages,
        "done": sum(each.done for each in samples),
        "busy": sum(each.busy for each in samples),
    }
