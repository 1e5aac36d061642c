"""leaseOn=executors: a query that starts again, or that a copy of it has left behind."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executors_setting import ACCOUNT, CONFIG, RETENTION

from spark_azqueue.errors import LostSegment
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.recovery import PlanRecovery
from spark_azqueue.source.executors.slot import SlotTask


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


def left_behind(scene):
    """A copy of the checkpoint, and the first query goes on until the log has cleaned its place."""
    scene.world.copy()
    for _ in range(RETENTION + 3):
        scene.batch()
    return scene.world.checkpoints[1]


def test_a_query_that_was_left_behind_is_told_before_it_changes_anything(scene):
    left_behind(scene)
    scene.world.put(0)
    scene.idle()
    before = dict(scene.world.log.objects)
    scene.frozen += scene.world.turns.alive
    copy = scene.world.start(1)

    scene.until(lambda: copy.actor.is_over)

    assert isinstance(copy.error, LostSegment)
    assert "were removed (see writeAheadLogRetention)" in str(copy.error)
    assert scene.world.log.objects == before


def test_with_fail_on_data_loss_false_it_goes_on_with_what_is_kept(scene, caplog):
    at = left_behind(scene)
    settings = replace(CONFIG.write_ahead_log, fail_on_data_loss=False)
    takeover = PlanRecovery(PlanFolder(scene.world.log, ACCOUNT), settings, CONFIG.selection)

    oldest = takeover.take(at.plan(at.commits - 1))

    assert takeover.is_done
    assert oldest is not None
    assert oldest.number == takeover.floor + 1
    assert "were removed (see writeAheadLogRetention)" in caplog.text


def test_a_plan_that_is_put_after_others_have_cleaned_is_not_given_out(scene):
    scene.idle()
    scene.world.copy()
    copy = scene.world.start(1)
    scene.world.put(0)
    scene.frozen.append(copy.actor)
    scene.to(copy.actor, "put -next")
    scene.restart()
    for _ in range(RETENTION + 3):
        scene.batch()

    scene.on(copy.actor)

    assert isinstance(copy.error, LostSegment)
    assert len(copy.at.offsets) == copy.at.commits
