"""leaseOn=executors with availableNow: a run reads what was there as it began, and ends."""

from __future__ import annotations

import pytest
from executors import World
from executors_scene import Scene


@pytest.fixture
def scene(monkeypatch):
    world = World(monkeypatch)
    yield Scene(world)
    world.close()


def test_pages_of_newer_messages_do_not_keep_it_going(scene):
    world = scene.world
    world.kill(scene.driver.actor)
    run = world.start(available_now=True)
    scene.to(run.actor, "log.json")  # it has asked the service for the time
    world.queues.clock.advance(2)
    newer = {world.put(0) for _ in range(4)}

    scene.until(lambda: run.actor.is_over)

    assert run.error is None
    assert world.in_queues() >= newer


def test_a_queue_that_was_empty_in_the_batch_before_is_looked_at(scene):
    world = scene.world
    scene.idle()
    world.put(0)
    scene.until(lambda: scene.driver.plan is not None)
    world.steal(0)  # so its task finds nothing
    scene.until(lambda: scene.driver.plan is None)
    world.kill(scene.driver.actor)
    later = world.put(0)
    run = world.start(available_now=True)

    scene.until(lambda: run.actor.is_over)

    assert run.error is None
    assert later in world.checkpoints[0].rows()
