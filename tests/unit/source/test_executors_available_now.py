"""leaseOn=executors with availableNow: a run reads what was there as it began, and ends."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from doubles import Clock
from executors_query import Query
from executors_scene import Scene
from executors_setting import Broken
from executors_spark import Driver
from world.turns import Actor

from spark_azqueue.errors import NotDrained
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import Closed, Counts, SlotReport
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.executors.planning import ReadyQueues
from spark_azqueue.source.executors.totals import Drained
from spark_azqueue.source.intake.backlog import Isolation
from spark_azqueue.source.intake.queues import LOOK_AGAIN_S
from spark_azqueue.testing import FakeQueueService


def test_pages_of_newer_messages_do_not_keep_it_going(scene):
    world = scene.world
    world.kill(scene.driver.actor)
    run = world.start(available_now=True)
    scene.to(run.actor, "log.json")  # it has asked the service for the time
    world.service.clock.advance(2)
    newer = {world.put(0) for _ in range(4)}

    scene.until(lambda: run.actor.is_over)

    assert run.error is None
    assert world.in_queues() >= newer


@pytest.mark.parametrize(("cutoff_s", "found"), [(None, []), (60, ["orders"]), (-60, [])])
def test_a_run_looks_at_every_queue_at_once_and_at_messages_that_were_there(
    query: Query, cutoff_s: int | None, found: list[str]
) -> None:
    """It ends if none has messages; another query lets a queue rest that was empty just now."""
    client, level = query.client(), Isolation(query.config.isolation_level)
    ready = ReadyQueues(client, level, 10.0, lambda: 5.0, lambda queue: False)
    ready.read_from([QueueRef(query.config.account.name, name) for name in ("orders", "returns")])
    assert ready.with_messages() == []

    query.fake.put_many("orders", ["a"])
    if cutoff_s is not None:
        ready.only_until(int(query.fake.clock.now() + cutoff_s) * 1_000_000)

    assert [queue.name for queue in ready.with_messages()] == found


def test_a_run_plans_nothing_for_messages_that_came_after_it_began(query: Query) -> None:
    driver = query.driver()
    driver.freeze_cutoff()
    query.fake.clock.advance(2)
    query.fake.put_many("orders", ["newer"])

    assert driver.latest(driver.initial, None) == driver.initial
    driver.close()


def test_a_queue_that_appears_later_is_read(fake: FakeQueueService) -> None:
    query, clock = Query(fake, queue="orders*"), Clock()
    driver = query.driver(clock, sleep=lambda seconds: None)
    assert driver.latest(driver.initial, None) == driver.initial
    fake.create_queue("orders-new")
    fake.put("orders-new", "a")

    clock.now += LOOK_AGAIN_S
    plan = query.plan(driver.latest(driver.initial, None))

    assert [queue.name for queue in plan.queues] == ["orders-new"]
    driver.close()
    query.close()


# ── what killed tasks hide ────────────────────────────────────────────────────────────────────────


def dequeues(scene: Scene, task: Actor) -> None:
    """This task is stopped when it has leased, before its put."""
    scene.frozen.append(task)
    for _ in range(200):
        if task.at.startswith("put ") and "-s000" in task.at:
            return
        scene.world.go(task)
    raise AssertionError(f"{task.name} does not put")


def a_run_with_a_killed_copy(scene: Scene, *, is_repeated: bool, **how: bool) -> Driver:
    """Two attempts at a slot have leased. One of them gives its rows, and Spark kills the other."""
    world = scene.world
    scene.idle()
    world.kill(scene.driver.actor)
    for _ in range(8):
        world.put(0)
    run = scene.driver = world.start(kills=True, **how)
    scene.until(lambda: run.plan is not None)
    first = world.tasks[-1].actor
    dequeues(scene, first)
    run.run_again(0, is_repeated=is_repeated)
    copy = world.tasks[-1]
    dequeues(scene, copy.actor)
    scene.frozen.clear()
    scene.on(first)
    assert copy.is_killed
    return run


JOBS = pytest.mark.parametrize("is_repeated", [True, False], ids=["speculation", "a second job"])


def without_marks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(names, "may_hide", lambda objects: False)


@JOBS
def test_it_waits_for_what_a_copy_hides_that_spark_has_killed(scene, is_repeated):
    run = a_run_with_a_killed_copy(scene, is_repeated=is_repeated, available_now=True)

    scene.until(lambda: run.actor.is_over)

    assert run.error is None
    assert set(scene.world.checkpoints[0].rows()) == scene.world.texts.keys()


@JOBS
def test_without_marks_of_attempts_it_ends_too_early(scene, monkeypatch, is_repeated):
    without_marks(monkeypatch)
    run = a_run_with_a_killed_copy(scene, is_repeated=is_repeated, available_now=True)

    with pytest.raises(Broken, match="which a copy hides"):
        scene.until(lambda: run.actor.is_over)


@pytest.mark.parametrize("has_marks", [True, False])
def test_it_waits_for_what_a_copy_of_the_run_before_hides(scene, monkeypatch, has_marks):
    if not has_marks:
        without_marks(monkeypatch)
    world, at = scene.world, scene.world.checkpoints[0]
    stopped = a_run_with_a_killed_copy(scene, is_repeated=True)
    scene.batch()  # its plan is closed
    scene.idle()
    world.kill(stopped.actor)

    run = world.start(available_now=True)
    scene.until(lambda: run.actor.is_over)

    assert run.error is None
    assert (set(at.rows()) == world.texts.keys()) is has_marks


def test_it_waits_for_what_a_task_hides_that_was_killed_and_run_again(scene):
    world = scene.world
    world.kill(scene.driver.actor)
    for _ in range(4):
        world.put(0)
    run = scene.driver = world.start(available_now=True)
    scene.until(lambda: run.plan is not None)
    task = world.tasks[-1].actor
    dequeues(scene, task)
    world.kill(task)
    scene.frozen.clear()

    scene.until(lambda: run.actor.is_over)

    assert run.error is None
    assert set(world.checkpoints[0].rows()) == world.texts.keys()


class Hidden:
    """A queue of which the service counts one message, and whose peeks find none."""

    def __init__(self, account: str, lease_s: int = 30) -> None:
        self.clock = Clock()
        self.expires = math.inf
        queue = QueueRef(account, "orders")
        self.backlog = SimpleNamespace(now=lambda: {queue.name: self.clock() < self.expires})
        self.queues = [queue]
        slots = (Slot((queue,), 9, 999),)
        self.plan = Plan(account, "a" * 32, PlanId(1, "b" * 32), slots, lease_s=lease_s)

    def drained(self) -> Drained:
        def sleep(seconds: float) -> None:
            self.clock.now += seconds

        monitor: Any = SimpleNamespace(backlog=self.backlog, queues=self.queues)
        return Drained(monitor, self.clock, self.clock, sleep)

    def waits(self, drained: Drained) -> float:
        began = self.clock()
        while not drained.is_over():
            pass
        return self.clock() - began


SETTLED = SlotReport(messages=1)


@pytest.mark.parametrize(
    ("slot", "marks", "waits"),
    [
        (SETTLED, "", False),
        (SETTLED, "b0", False),
        (None, "", True),
        (replace(SETTLED, repeated=True), "", True),  # of a release without marks
        (SETTLED, "c0", True),
        (SETTLED, "b0 b0", True),
        (SETTLED, "b0 b1", False),
    ],
)
def test_for_which_plans_it_waits_a_lease(slot, marks, waits):
    hidden = Hidden("shop")
    names_of = [
        names.begun(hidden.plan.id, int(mark[1]), f"{number:032x}", is_repeated=mark[0] == "c")
        for number, mark in enumerate(marks.split())
    ]
    drained = hidden.drained()

    drained.on_plan_closed(hidden.plan, Closed(hidden.plan, (slot,)), names_of, ends=True)

    assert (hidden.waits(drained) >= hidden.plan.lease_s) is waits


@pytest.mark.parametrize(("ago_s", "waits"), [(0, True), (29, True), (3_600, False)])
def test_after_a_start_it_waits_for_plans_of_which_leases_may_last(ago_s, waits):
    hidden = Hidden("shop")
    plan = hidden.plan.id
    copy = names.begun(plan, 0, "c" * 32, is_repeated=True)
    drained = hidden.drained()

    drained.found({plan: [copy]}, {plan.number: hidden.clock() - ago_s}, 30)

    assert (hidden.waits(drained) >= 30) is waits


@pytest.mark.parametrize("is_left", [True, False])
def test_what_was_left_to_expire_is_no_reason_to_say_that_it_is_not_drained(is_left):
    """The service counts that, too, until it has expired."""
    hidden = Hidden("shop", lease_s=7_200)
    hidden.expires = hidden.clock() + 2.5
    drained = hidden.drained()
    slot = replace(SETTLED, counts=Counts(skipped_near_expiry=int(is_left)))

    drained.on_plan_closed(hidden.plan, Closed(hidden.plan, (slot,)), [], ends=True)
    drained.may_hide(hidden.plan)

    if is_left:
        assert hidden.waits(drained) < 5
    else:
        with pytest.raises(NotDrained, match=r"start the query again then"):
            hidden.waits(drained)
