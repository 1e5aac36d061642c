"""leaseOn=executors: a query that starts again, or that was left behind by a copy of its checkpoint."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executors import ACCOUNT, CONFIG, World
from executors_rules import Scene

from spark_azqueue.errors import LostSegment
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.slot import SlotTask


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


def test_a_tombstone_of_a_cleaned_plan_is_not_a_slot_without_rows(scene):
    folder = PlanFolder(scene.world.log, ACCOUNT)
    folder.open()
    plan = scene.world.checkpoints[0].plan(0)
    scene.world.log.objects.clear()
    folder.open()
    plan = replace(plan, log=folder.uuid)
    folder.put_segment(tombstone(plan, 0, "0" * 32))
    task = SlotTask(CONFIG, plan, 0, folder, scene.world.client())
    assert task.segment().header.tombstone
    folder.raise_floor(plan.number)

    with pytest.raises(LostSegment, match="no longer in the write-ahead log"):
        task.segment()
