"""Every place at which a process can be stopped, with everything that may happen meanwhile."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from executors import World
from executors_scene import Scene
from executors_setting import RETENTION
from world.turns import KILL, Actor

FROZEN = "frozen"
_MOST_CALLS = 40


class Stop(NamedTuple):
    """Which process stops before which of its calls, what becomes of it, and what happens then.

    fate: frozen, it goes on after all that; killed; or what becomes of that call.
    """

    who: str
    call: int
    fate: str
    meanwhile: tuple[str, ...]


def _repeated(scene: Scene) -> None:
    if scene.driver.plan:
        scene.again()


def _batches(scene: Scene) -> None:
    for _ in range(RETENTION + 3):
        _repeated(scene)  # a frozen task has not given its rows
        scene.batch()


def _roll_back(scene: Scene) -> None:
    scene.world.roll_back(1, with_output=True, keeps_offset=True)
    scene.driver = scene.world.start()


MEANWHILE: dict[str, Callable[[Scene], None]] = {
    "again": _repeated,
    "time": Scene.time,
    "stolen": Scene.stolen,
    "returned": Scene.returned,
    "batches": _batches,
    "restart": Scene.restart,
    "roll back": _roll_back,
}


def stops(who: str, most_events: int) -> Iterator[Stop]:
    """For one of `PROCESSES`: few events first."""
    calls = _calls_of(who)
    for count in range(most_events + 1):
        for meanwhile in itertools.product(MEANWHILE, repeat=count):
            for call, fates in enumerate(calls):
                yield Stop(who, call, FROZEN, meanwhile)
                if count < 2:
                    for fate in (KILL, *fates):
                        yield Stop(who, call, fate, meanwhile)


def _calls_of(who: str) -> list[tuple[str, ...]]:
    """What may become of each of its calls, if nothing disturbs it."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        world = World(patch)
        actor = PROCESSES[who](Scene(world))
        while not actor.is_over and actor.at not in ("idle", "wait"):
            found.append(world.fates(actor))
            world.go(actor)
        world.close()
    return found


def run(world: World, stop: Stop) -> None:
    """Until all but calm is over. Raises Broken."""
    scene = Scene(world)
    actor = PROCESSES[stop.who](scene)
    world.go(actor, stop.call)
    if stop.fate == KILL:
        world.kill(actor)
        scene.frozen.clear()
    elif stop.fate != FROZEN:
        world.go(actor, 1, stop.fate)
        scene.frozen.clear()
    if stop.who not in ("task", "again") and stop.meanwhile:
        scene.driver = world.start()
    for each in stop.meanwhile:
        MEANWHILE[each](scene)
    scene.frozen.clear()
    for _ in range(_MOST_CALLS):
        if not actor.is_over and actor.at != "wait":
            world.go(actor)
    scene.returned()


def _task(scene: Scene) -> Actor:
    scene.idle()
    scene.world.put(0)
    scene.world.put(0, decodes=False)
    scene.until(lambda: scene.driver.plan is not None)
    actor = scene.world.tasks[-1].actor
    scene.frozen.append(actor)
    return actor


def _driver(scene: Scene) -> Actor:
    """From the commit of a batch to the tasks of the next."""
    scene.batch()
    scene.world.put(0)
    scene.frozen.append(scene.driver.actor)
    return scene.driver.actor


def _start(scene: Scene) -> Actor:
    """The next driver of the query takes the folder over, until the tasks of its batch."""
    scene.batch()
    scene.restart()
    scene.world.put(0)
    scene.frozen.append(scene.driver.actor)
    return scene.driver.actor


def _verdict(scene: Scene) -> Actor:
    """The next driver of the query gives up a batch of three, until the tasks of the next."""
    scene.sick()
    return _next_driver(scene)


def _poison(scene: Scene) -> Actor:
    """The same with a batch of one message, which goes to the poison queue."""
    scene.sick(healthy=0)
    return _next_driver(scene)


def _next_driver(scene: Scene) -> Actor:
    scene.driver = scene.world.start()
    scene.frozen.append(scene.driver.actor)
    return scene.driver.actor


def _again(scene: Scene) -> Actor:
    """A task that gives messages again."""
    scene.sick(healthy=3)
    scene.gives_up()
    scene.until(lambda: scene.driver.plan is not None and scene.driver.plan.is_again)
    actor = scene.world.tasks[-1].actor
    scene.frozen.append(actor)
    return actor


PROCESSES = {
    "task": _task,
    "driver": _driver,
    "start": _start,
    "verdict": _verdict,
    "poison": _poison,
    "again": _again,
}
