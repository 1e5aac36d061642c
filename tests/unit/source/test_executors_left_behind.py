"""leaseOn=executors: a query that starts again, or that was left behind by a copy of its checkpoint."""

from __future__ import annotations

import pytest
from executors import World
from executors_rules import Scene



@pytest.fixture
def scene(monkeypatch):
    world = World(monkeypatch)
    yield Scene(world)
    world.close()


def test_a_restart_goes_on_after_a_batch_without_a_task(scene):
    world, at = scene.world, scene.world.checkpoints[0]
    scene.idle()
    world.needs.append(frozenset())
    world.put(0)
    scene.until(lambda: scene.driver.plan is not None)
    scene.until(lambda: scene.driver.plan is None)
    scene.restart()  # before anything was put for that batch
    message = world.put(0)

    scene.until(lambda: message in at.rows())
