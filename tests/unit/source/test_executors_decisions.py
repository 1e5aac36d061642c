"""Small decisions about plans that larger tests do not notice."""

from __future__ import annotations

import pytest

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.journal.codec import MOST, Damaged
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.plan import (
    MOST_BYTES,
    MOST_MESSAGES,
    Learned,
    Part,
    Plan,
    Slot,
    learned,
)

ORDERS = QueueRef("acc", "orders")
AGAIN = Part(PlanId(1, "1" * 32), 0, 0, 5)


def plan(slot: Slot, lease_s: int = 90) -> Plan:
    return Plan("acc", "0" * 32, PlanId(3, "2" * 32), (slot,), 1_700_000_000, lease_s)


@pytest.mark.parametrize(("lease_s", "leasing_s"), [(3, 1.0), (30, 5.0), (60, 10.0), (600, 10.0)])
def test_a_task_leases_for_a_sixth_of_the_lease_and_ten_seconds_at_most(
    lease_s: int, leasing_s: float
) -> None:
    assert plan(Slot((ORDERS,), 1, 1), lease_s).leasing_s == leasing_s


def test_a_plan_that_gives_messages_again_says_so() -> None:
    assert plan(Slot((), 5, 1, AGAIN)).is_again
    assert not plan(Slot((ORDERS,), 5, 1)).is_again


@pytest.mark.parametrize(
    ("slot", "is_valid"),
    [
        (Slot((ORDERS,), MOST_MESSAGES, MOST_BYTES), True),
        (Slot((ORDERS,), MOST_MESSAGES + 1, 1), False),
        (Slot((ORDERS,), 1, MOST_BYTES + 1), False),
        (Slot((), MOST, MOST_BYTES, AGAIN), True),
        (Slot((), 1, 1), False),
        (Slot((ORDERS,), 1, 1, AGAIN), False),
    ],
)
def test_a_slot_has_queues_or_gives_again_and_stays_in_its_bounds(
    slot: Slot, is_valid: bool
) -> None:
    offset = plan(slot).to_json()
    if is_valid:
        assert Plan.from_json(offset, account="acc") == plan(slot)
    else:
        with pytest.raises(CheckpointMismatch, match="a slot is not valid"):
            Plan.from_json(offset, account="acc")


@pytest.mark.parametrize("value", [None, [1], [0, None], [True, None], [10**6 + 1, None], [1, 0]])
def test_a_limit_that_no_task_learned_is_damaged(value: object) -> None:
    assert learned([10**6, 1]) == Learned(10**6, 1)
    with pytest.raises(Damaged, match="limits of a queue"):
        learned(value)


def test_a_checkpoint_of_a_driver_that_leased_has_a_condition_of_its_own() -> None:
    offset = {"version": 1, "batch": 4, "account": "acc"}
    with pytest.raises(CheckpointMismatch) as raised:
        Plan.from_json(offset, account="acc")

    assert raised.value.condition is Condition.LOG_CHECKPOINT_MISMATCH
