"""The limits against a model of the service: they use what it allows, and are seldom refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from budget import more, some
from observed import ObservedLimits
from throttling import Batch, Sample, ThrottledAccount, done_per_s, share_busy

from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.wire.concurrency import MOST_OF_A_PROCESS, Response, Turn

CAP = 2_000.0
CLIENT = 6_000.0
NO_CAP = 1e9
USED = 0.92
BUSY = 0.01


def always(seconds: float) -> Callable[[float], float]:
    return lambda now: seconds


@pytest.mark.parametrize("seed", some([1, 2]))
@pytest.mark.parametrize("latency_s", [0.01, *more(0.002, 0.05)])
def test_one_queue_is_used_up_to_its_cap_and_seldom_refuses(latency_s: float, seed: int) -> None:
    (course,) = ThrottledAccount(always(latency_s), seed=seed).run(25.0)

    assert done_per_s(course, 0.0, 25.0) >= USED * CAP
    assert done_per_s(course, 5.0, 25.0) >= 0.96 * CAP
    assert share_busy(course) <= BUSY


@pytest.mark.parametrize("burst_s", [1.0, *more(0.05)])
def test_it_does_not_depend_on_what_may_come_at_once(burst_s: float) -> None:
    (course,) = ThrottledAccount(always(0.01), burst_s=burst_s).run(20.0)

    assert done_per_s(course, 0.0, 20.0) >= USED * CAP
    assert share_busy(course) <= BUSY


def test_a_step_in_latency_is_followed_within_three_seconds() -> None:
    (course,) = ThrottledAccount(lambda now: 0.05 if 8.0 <= now < 16.0 else 0.01).run(24.0)

    for begin_s, end_s in ((2.0, 8.0), (11.0, 16.0), (19.0, 24.0)):
        assert done_per_s(course, begin_s, end_s) >= USED * CAP
    assert share_busy(course) <= BUSY


def test_a_step_in_latency_is_followed_without_a_cap_too() -> None:
    (course,) = ThrottledAccount(
        lambda now: 0.05 if now >= 5.0 else 0.002, cap=NO_CAP, account_cap=NO_CAP
    ).run(15.0)

    assert done_per_s(course, 1.0, 5.0) >= USED * CLIENT
    assert done_per_s(course, 10.0, 15.0) >= USED * 4_800  # 256 at once, 52 ms each


@pytest.mark.more
def test_a_second_client_gets_its_half_within_seconds_and_leaves_it_when_it_goes() -> None:
    world = ThrottledAccount(
        always(0.01), others=lambda now: CAP / 2 if 10.0 <= now < 20.0 else 0.0
    )
    (course,) = world.run(35.0)

    assert done_per_s(course, 12.0, 20.0) >= USED * CAP / 2
    assert share_busy(course, 12.0, 20.0) <= BUSY
    assert done_per_s(course, 25.0, 35.0) >= USED * CAP
    assert share_busy(course) <= BUSY


@pytest.mark.parametrize("part", [0.1, *more(0.02)])
def test_refusals_that_come_at_any_rate_do_not_slow_it_down(part: float) -> None:
    """A partition that moves, a proxy: without the limit 5,800 a second are carried out."""
    world = ThrottledAccount(always(0.01), cap=NO_CAP, account_cap=NO_CAP, refuses=part)
    (course,) = world.run(30.0)

    assert done_per_s(course, 5.0, 30.0) >= 0.5 * CLIENT


@pytest.mark.parametrize("left", [400, *more(1_500, 1_000)])
def test_a_cap_that_falls_is_not_taken_for_such_refusals(left: float) -> None:
    world = ThrottledAccount(always(0.01), others=lambda now: CAP - left if now >= 5.0 else 0.0)
    (course,) = world.run(20.0)

    assert done_per_s(course, 7.0, 20.0) >= USED * left
    assert share_busy(course, 7.0) <= 0.15


@pytest.mark.parametrize("latency_s", [0.002, 0.01])
def test_growth_ends_at_what_one_core_drives(latency_s: float) -> None:
    world = ThrottledAccount(always(latency_s), cap=NO_CAP, account_cap=NO_CAP)
    (course,) = world.run(10.0)

    assert done_per_s(course, 1.0, 10.0) >= USED * CLIENT
    if latency_s == 0.002:  # 12 at once would do, and 256 would only wait for each other
        assert course[-1].at_once < 100


def test_eight_queues_share_one_core_and_none_starves() -> None:
    courses = ThrottledAccount(always(0.01), queues=8).run(15.0)

    each = [done_per_s(course, 0.0, 15.0) for course in courses]
    assert sum(each) >= USED * CLIENT
    assert min(each) >= 0.8 * sum(each) / 8
    assert max(map(share_busy, courses)) <= BUSY


@pytest.mark.more
def test_eight_queues_share_what_the_account_allows() -> None:
    courses = ThrottledAccount(always(0.01), queues=8, account_cap=4_000.0).run(20.0)

    each = [done_per_s(course, 5.0, 20.0) for course in courses]
    assert sum(each) >= USED * 4_000
    assert min(each) >= 0.5 * sum(each) / 8
    assert max(share_busy(course, 5.0) for course in courses) <= 0.02


def test_pauses_of_the_process_cost_no_more_than_they_take() -> None:
    courses = ThrottledAccount(always(0.01), queues=8, stall_s=0.02, stalls_per_s=10.0).run(15.0)

    assert sum(done_per_s(course, 1.0, 15.0) for course in courses) >= 0.85 * 0.8 * CLIENT


def test_no_more_are_under_way_than_the_bound_of_the_process() -> None:
    world = ThrottledAccount(always(0.3), queues=4, cap=NO_CAP, account_cap=NO_CAP)
    world.run(8.0)

    assert 0.9 * MOST_OF_A_PROCESS <= world.most_under_way <= MOST_OF_A_PROCESS


TASK_S = 4.0


def tasks_of_one_queue(latency_s: float, *, told: bool) -> list[Sequence[Sample]]:
    """Short tasks, each in a process of its own; told: each knows what the last one learned."""
    ref, learned, courses = QueueRef("account", "queue-0"), None, []
    for seed in range(4):
        limits = ObservedLimits()
        if told and learned:
            limits.go_on(ref, *learned, 0.0)
        (course,) = ThrottledAccount(always(latency_s), cap=CAP, limits=limits, seed=seed).run(
            TASK_S
        )
        learned = limits.learned(ref)
        courses.append(course)
    return courses


@pytest.mark.parametrize(("latency_s", "used"), [(0.01, 0.97), *more((0.002, 0.97), (0.05, 0.9))])
def test_a_task_goes_on_where_the_last_one_of_its_queue_was(latency_s: float, used: float) -> None:
    told = tasks_of_one_queue(latency_s, told=True)[1:]
    cold = tasks_of_one_queue(latency_s, told=False)[1:]

    for course, other in zip(told, cold, strict=True):
        share = done_per_s(course, 0.0, TASK_S) / CAP
        assert share >= used
        assert share >= done_per_s(other, 0.0, TASK_S) / CAP - 0.01
        assert share_busy(course) <= min(0.006, share_busy(other))


@pytest.mark.more
def test_many_executors_use_what_their_queues_allow() -> None:
    """Ten queues on four executors, plan after plan, with Spark's time between two plans."""
    world = ThrottledAccount(always(0.01), queues=10, cap=500.0)
    plans = world.run_plans(executors=4, plans=4, batch=Batch())[1:]

    done = sum(sample.done for plan in plans for course in plan.courses for sample in course)
    took = sum(plan.end_s - plan.begin_s for plan in plans)
    assert done / took >= 0.9 * 10 * 500
    assert max(share_busy(course) for plan in plans for course in plan.courses) <= BUSY


@pytest.mark.more
def test_an_account_at_its_limit_is_shared_so_that_tasks_end_together() -> None:
    """Its 503 hit queues by chance: what a queue may take in the next plan follows its rate."""
    world = ThrottledAccount(always(0.01), queues=10, cap=2_000.0, account_cap=4_000.0)
    plans = world.run_plans(executors=10, plans=7, batch=Batch())[3:]

    done = sum(sample.done for plan in plans for course in plan.courses for sample in course)
    took = sum(plan.end_s - plan.begin_s for plan in plans)
    assert done / took >= 0.88 * 4_000


def test_the_rate_that_is_passed_on_is_what_came_of_it() -> None:
    """The newest has grown while this process was the limit, or others of the account were done."""
    ref, limits = QueueRef("account", "queue-0"), ObservedLimits()
    limits.go_on(ref, 8, 400, 0.0)
    assert limits.learned(ref) == (8, 400)
    for hundredths in range(1_000):
        now = hundredths / 100
        for _ in range(5):  # 500 a second are carried out; more would be wanted
            limits.admit(ref, Turn.IN_TURN, now)
            limits.answered(ref, Turn.IN_TURN, Response.DONE, now, now - 0.01)
            limits.ended(ref, Turn.IN_TURN)
        while not limits.admit(ref, Turn.AHEAD, now):
            limits.ended(ref, Turn.AHEAD)
    found, newest = limits.learned(ref), limits.allowed(ref)
    assert found
    assert newest
    assert found[1]
    assert newest[1]
    assert newest[1] > 2_000
    assert 480 < found[1] < 520
