"""What the next plan asks of each slot."""

from __future__ import annotations

import pytest
from doubles import OneByOne
from hypothesis import given
from hypothesis import strategies as st
from refs import ACCOUNT

from spark_azqueue.options.choices import IsolationLevel, QueuePriority
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import Counts, Looked, SlotReport
from spark_azqueue.source.executors.plan import Learned, Plan, Slot
from spark_azqueue.source.executors.planning import (
    FIRST_WIDTH,
    ReadyQueues,
    Width,
    chosen_queues,
    most_at_once,
    slots_of,
)
from spark_azqueue.source.intake.backlog import Isolation

QUEUES = [QueueRef(ACCOUNT, f"orders-{number}") for number in range(20)]


@given(
    st.integers(1, 20),
    st.integers(1, 30),
    st.integers(20, 100_000),
    st.integers(1, 32_768),
    st.none() | st.integers(1, 2**31),
)
def test_each_queue_is_in_one_slot_and_the_limits_hold(
    count: int, width: int, most: int, of_slot: int, most_bytes: int | None
) -> None:
    slots = slots_of(
        QUEUES[:count],
        width,
        most=most,
        most_of_slot=of_slot,
        most_bytes=most_bytes,
        bytes_of_slot=2**25,
        learned={},
    )
    assert sorted(queue for slot in slots for queue in slot.queues) == sorted(QUEUES[:count])
    assert len(slots) == min(width, count)
    assert sum(slot.messages for slot in slots) <= max(most, len(slots))
    assert all(1 <= slot.messages <= of_slot for slot in slots)
    assert all(1 <= slot.bytes <= 2**28 for slot in slots)
    if most_bytes is not None and most_bytes >= count:
        assert sum(slot.bytes for slot in slots) <= most_bytes
    sizes = [len(slot.queues) for slot in slots]
    assert max(sizes) - min(sizes) <= 1
    shares = [slot.messages / len(slot.queues) for slot in slots]
    assert max(shares) - min(shares) <= 1, "all take about as long"


@given(st.lists(st.none() | st.integers(20, 2_000), min_size=1, max_size=20), st.integers(1, 8))
def test_slots_take_equally_long_by_what_was_learned(per_s: list[int | None], width: int) -> None:
    queues = QUEUES[: len(per_s)]
    learned = {
        queue.name: Learned(8, rate) for queue, rate in zip(queues, per_s, strict=True) if rate
    }
    slots = slots_of(
        queues,
        width,
        most=10**6,
        most_of_slot=32_768,
        most_bytes=2**20,
        bytes_of_slot=2**25,
        learned=learned,
    )
    assert sorted(queue for slot in slots for queue in slot.queues) == sorted(queues)
    assert all(list(slot.queues) == sorted(slot.queues, key=queues.index) for slot in slots)
    sizes = [len(slot.queues) for slot in slots]
    assert max(sizes) - min(sizes) <= 1
    most = max(rate or 0 for rate in per_s) or 1
    rates = {queue: rate or most for queue, rate in zip(queues, per_s, strict=True)}
    mean = sum(rates.values()) / len(rates)
    weights = [sum((rates[queue] + mean) / 2 for queue in slot.queues) for slot in slots]
    assert max(slot.messages for slot in slots) in (32_767, 32_768)
    for slot, weight in zip(slots, weights, strict=True):
        assert slot.messages == pytest.approx(32_768 * weight / max(weights), abs=1)
    assert sum(slot.bytes for slot in slots) <= 2**20


def test_queues_of_a_slot_are_alike() -> None:
    learned = {queue.name: Learned(8, rate) for queue, rate in zip(QUEUES, [900, 20, 800, 40])}  # noqa: B905
    slots = slots_of(
        QUEUES[:4],
        2,
        most=10**6,
        most_of_slot=1_000,
        most_bytes=None,
        bytes_of_slot=1,
        learned=learned,
    )
    assert [slot.queues for slot in slots] == [
        (QUEUES[1], QUEUES[3]),
        (QUEUES[0], QUEUES[2]),
    ]


def test_another_queue_comes_first_each_time() -> None:
    def of(number: int, most: int = 100, **turns: int) -> list[QueueRef]:
        def last_turn(queue: QueueRef) -> int:
            return turns.get(queue.name, 0)

        fair = QueuePriority.FAIR
        return chosen_queues(QUEUES[:3], lambda _: True, last_turn, fair, number, 1, most)

    assert [of(number)[0] for number in range(1, 5)] == [*QUEUES[:3], QUEUES[0]]
    assert sorted(of(2)) == QUEUES[:3]
    assert of(3, most=1) == [QUEUES[2]]
    last = {QUEUES[0].name: 4, QUEUES[1].name: 3, QUEUES[2].name: 5}
    assert of(9, **last) == [QUEUES[1], QUEUES[0], QUEUES[2]], "who waits longest is first"
    none: list[QueueRef] = []
    assert chosen_queues(none, lambda _: True, lambda _: 0, QueuePriority.FAIR, 5, 8, 100) == []


def test_a_queue_that_a_full_slot_did_not_reach_keeps_its_turn() -> None:
    first, second = QUEUES[:2]
    ready = ReadyQueues(
        OneByOne(lambda _: None),  # type: ignore[arg-type]
        Isolation(IsolationLevel.READ_UNCOMMITTED),
        1.0,
        lambda: 0.0,
        lambda _: True,
    )
    ready.read_from([first, second])
    for number in (1, 2):
        plan = Plan(ACCOUNT, "a" * 32, PlanId(number, "b" * 32), (Slot((first, second), 9, 1_000),))
        looked = {first.name: Looked(got=9), second.name: Looked(got=0)}
        ready.on_plan_closed(plan, looked, ran_here=True)
    assert (ready.last_turn(first), ready.last_turn(second)) == (2, 0)

    ready.on_plan_closed(plan, {second.name: Looked(got=0, drained=True)}, ran_here=True)
    assert ready.last_turn(second) == 2


def test_strict_takes_the_queues_up_to_the_first_that_was_not_emptied() -> None:
    def of(*emptied: int) -> list[QueueRef]:
        known = {QUEUES[place] for place in emptied}
        strict = QueuePriority.STRICT
        return chosen_queues(QUEUES[:4], known.__contains__, lambda _: 7, strict, 3, 8, 100)

    assert of() == QUEUES[:1]
    assert of(1, 2, 3) == QUEUES[:1]
    assert of(0) == QUEUES[:2]
    assert of(0, 1) == QUEUES[:3]
    assert of(0, 1, 2, 3) == QUEUES[:4]


@pytest.mark.parametrize(
    ("times", "most"),
    [([], 0), ([(0, 5)], 1), ([(0, 5), (5, 5)], 1), ([(0, 5), (4, 5), (20, 1)], 2)],
)
def test_most_at_once(times: list[tuple[int, int]], most: int) -> None:
    assert most_at_once(times) == most


def ran(*times: tuple[int, int]) -> list[SlotReport]:
    return [SlotReport(messages=1, counts=Counts(began_cs=b, took_cs=t)) for b, t in times]


def in_two_rounds(first: int, of: int, took: int = 100) -> list[SlotReport]:
    return ran(*[(0, took)] * first, *[(took, took)] * (of - first))


def test_a_plan_has_as_many_slots_as_run_at_the_same_time() -> None:
    width = Width(None)
    assert width.slots == FIRST_WIDTH
    width.on_plan_closed(ran(*[(0, 100)] * 8))
    assert width.slots == 16
    for at_once in (6, 7, 6):
        assert width.slots == 16
        width.on_plan_closed(in_two_rounds(at_once, of=12))
    assert width.slots == 7
    width.on_plan_closed(ran(*[(0, 100)] * 7))
    assert width.slots == 7, "not again so soon"
    for _ in range(60):
        width.on_plan_closed(ran(*[(0, 100)] * 7))
    assert width.slots == 14
    width.on_plan_closed(ran((0, 1)))
    assert width.slots == 14, "one slot tells nothing"


def test_chance_does_not_make_plans_narrow() -> None:
    """A worker that starts late, or tasks that are over before all have begun."""
    width = Width(None)
    for _ in range(10):
        width.on_plan_closed(in_two_rounds(1, of=2))
        width.on_plan_closed(in_two_rounds(1, of=2))
        width.on_plan_closed(ran((0, 100), (0, 100)))
        width.on_plan_closed(in_two_rounds(1, of=2, took=30))
    assert width.slots == FIRST_WIDTH


def test_a_number_is_fixed() -> None:
    width = Width(3)
    width.on_plan_closed(ran(*[(0, 100)] * 3))
    assert width.slots == 3
