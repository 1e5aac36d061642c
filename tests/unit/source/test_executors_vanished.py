"""leaseOn=executors: a queue of a pattern goes when its messages stand in the log."""

from __future__ import annotations


def stored(scene):
    """A message of the queue that comes and goes stands, and is not deleted. Its id, its task."""
    scene.idle()
    message = scene.world.put(2)
    scene.until(lambda: scene.driver.plan is not None)
    if not scene.world.tasks[-1].is_of(scene.driver, 0):
        scene.driver.run_again(0, is_repeated=False)
    task = scene.world.tasks[-1].actor
    scene.to(task, "dateddelete")
    scene.world.queue_goes()
    return message, task


def test_a_task_gives_the_rows_of_messages_that_went_with_their_queue(scene):
    message, _ = stored(scene)

    scene.until(lambda: message in scene.world.checkpoints[0].rows())


def test_a_plan_is_closed_whose_messages_went_with_their_queue(scene):
    scene.world.needs.append(frozenset())
    message, task = stored(scene)
    scene.world.kill(task)

    scene.batch()
    scene.batch()

    assert message not in scene.world.checkpoints[0].rows()
