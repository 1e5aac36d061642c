"""The rules of leaseOn=executors for the calls of Spark 4.0 and 4.1, and for plans that are closed
while their tasks run: what takes each away, and a scenario that needs it.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from executors import World
from executors_rules import no_tombstones, unsettled
from executors_scene import Scene
from executors_spark import Driver
from executors_walk import play

from spark_azqueue.errors import InvalidOption
from spark_azqueue.source.calls import BareCalls, Wanted
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.recovery import PlanRecovery
from spark_azqueue.source.offsets import OffsetJson

Patch = pytest.MonkeyPatch

_MANY = 2_000


# ── scenarios ─────────────────────────────────────────────────────────────────────────────────────


def reads_two_batches(world: World) -> None:
    play(world, ())


def begins_on_an_empty_queue(world: World) -> None:
    """Batch 0 has no data."""
    driver = world.start()
    while driver.actor.at != "idle":
        world.go(driver.actor)
    world.put(0)


def is_restarted(world: World) -> None:
    Scene(world).restart()


def wrapper_with_an_old_batch(world: World) -> None:
    """writeAheadLogStart=earliest is still set, and Spark's wrapper asks before it says where it
    is."""
    scene = Scene(world)
    scene.batch()
    scene.idle()
    world.kill(scene.driver.actor)
    world.choose("earliest")
    _to_its_end(world, world.start(wrapper=True))


def wrapper_with_an_unused_plan(world: World) -> None:
    """The first run was killed before a task put anything, and the task has the message."""
    world.put(0)
    driver = world.start()
    while not world.tasks:
        world.go(driver.actor)
    task = world.tasks[0].actor
    while "put slots" not in task.at:
        world.go(task)
    for each in (task, driver.actor):
        world.kill(each)
    _to_its_end(world, world.start(wrapper=True))


def task_puts_after_an_early_close(world: World) -> None:
    """Its lease has ended, and a later plan has the messages."""
    scene = _early(world)
    task = scene.task_before("put slots", 0)
    world.put(1)
    scene.until(lambda: scene.driver.actor.at == "wait")
    scene.time()
    scene.again()
    scene.batch()
    scene.batch()
    scene.on(task)


def lease_ends_under_a_task_whose_plan_is_closed_early(world: World) -> None:
    """It has put what it leased, and deleted nothing; another consumer gives that back."""
    scene = _early(world)
    task = scene.task_before("dateddelete", 0)
    scene.stolen()
    scene.until(lambda: scene.driver.actor.at == "wait")
    scene.returned()
    scene.on(task)


def _early(world: World) -> Scene:
    """Its query asks for the next batch while tasks run."""
    scene = Scene(world)
    scene.idle()
    world.kill(scene.driver.actor)
    scene.driver = world.start(early=True)
    return scene


def _to_its_end(world: World, driver: Driver) -> None:
    for _ in range(_MANY):
        if driver.actor.is_over:
            return
        for actor in list(world.turns.alive):
            world.go(actor)
    raise AssertionError(f"{driver.actor.name} does not end")


# ── what takes a rule away ────────────────────────────────────────────────────────────────────────


def _repeats_for_ever(bare: BareCalls) -> OffsetJson | None:
    return None if bare.is_proven else bare.start


def the_start_needs_proof(patch: Patch) -> None:
    real = BareCalls.__init__

    def begins(self: BareCalls, initial: OffsetJson) -> None:
        real(self, initial)
        self.is_proven = False

    patch.setattr(BareCalls, "__init__", begins)
    patch.setattr(BareCalls, "asked", _repeats_for_ever)


def a_plan_that_was_asked_for_is_asked_for_still(patch: Patch) -> None:
    _hears(patch, lambda is_probe: is_probe)
    patch.setattr(BareCalls, "asked", _repeats_for_ever)


def what_spark_names_is_not_heard(patch: Patch) -> None:
    _hears(patch, lambda is_probe: not is_probe)


def _hears(patch: Patch, what: Callable[[bool], bool]) -> None:
    real = BareCalls.planned

    def planned(self: BareCalls, start: Mapping[str, Any], end: OffsetJson) -> None:
        if what(start == end):
            real(self, start, end)

    patch.setattr(BareCalls, "planned", planned)


def nothing_new_is_another_text(patch: Patch) -> None:
    real, asked = ExecutorsConsumer.latest, itertools.count()

    def latest(self: ExecutorsConsumer, wanted: Wanted) -> OffsetJson:
        return {**real(self, wanted), "asked": next(asked)}

    patch.setattr(ExecutorsConsumer, "latest", latest)


def the_wrapper_is_served(patch: Patch) -> None:
    real = BareCalls.planned

    def planned(self: BareCalls, start: Mapping[str, Any], end: OffsetJson) -> None:
        with contextlib.suppress(InvalidOption):
            real(self, start, end)

    patch.setattr(BareCalls, "planned", planned)


def any_plan_may_follow(patch: Patch) -> None:
    the_wrapper_is_served(patch)
    patch.setattr(PlanRecovery, "behind", lambda _, start, end, **_rest: [end])


def a_batch_may_go_back(patch: Patch) -> None:
    the_wrapper_is_served(patch)
    real = ExecutorsConsumer.plan

    def plan(
        self: ExecutorsConsumer, start: Mapping[str, Any], end: OffsetJson, **proof: Any
    ) -> list[bytes]:
        return [] if end == self.initial else real(self, start, end, **proof)

    patch.setattr(ExecutorsConsumer, "plan", plan)


RULES: dict[str, tuple[Callable[[World], None], Callable[[Patch], None]]] = {
    "the start needs no proof": (begins_on_an_empty_queue, the_start_needs_proof),
    "what was planned is committed": (
        reads_two_batches,
        a_plan_that_was_asked_for_is_asked_for_still,
    ),
    "what Spark names first is where it is": (is_restarted, what_spark_names_is_not_heard),
    "nothing new is Spark's own text": (reads_two_batches, nothing_new_is_another_text),
    "a start that asks first is refused": (wrapper_with_an_old_batch, the_wrapper_is_served),
    "only what follows": (wrapper_with_an_old_batch, any_plan_may_follow),
    "nothing goes back to the start": (wrapper_with_an_unused_plan, a_batch_may_go_back),
    "a slot of a plan that is closed early has an object": (
        task_puts_after_an_early_close,
        no_tombstones,
    ),
    "a plan that is closed early is settled": (
        lease_ends_under_a_task_whose_plan_is_closed_early,
        unsettled,
    ),
}
"""A scenario that holds with the rule and breaks a promise without it, and what takes it away."""
