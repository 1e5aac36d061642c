"""Scenes with one query of leaseOn=executors, played step by step."""

from __future__ import annotations

from collections.abc import Callable

from executors import World
from executors_setting import LEASE_S, NAMES, RETENTION, TRIES
from world.turns import Actor

from spark_azqueue.source.executors import names

_MANY = 2_000


class Scene:
    """A world with one query, which runs when it is told to. None of its processes runs if it is
    frozen."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.frozen: list[Actor] = []
        self.driver = world.start()
        self.batch()

    def until(self, done: Callable[[], bool]) -> None:
        """All but the frozen processes go on, in turn, until this is so."""
        for _ in range(_MANY):
            if done():
                return
            running = [each for each in self.world.alive() if each.actor not in self.frozen]
            if not running:  # of two drivers, the other one has stopped it; or the sink has failed
                self.driver = self.world.start()
            for actor in [each for each in self.world.turns.alive if each not in self.frozen]:
                self.world.go(actor)
                if done():
                    return
        raise AssertionError([(each.name, each.at) for each in self.world.turns.alive])

    def batch(self) -> None:
        """A message comes, and its batch is committed; the next call closes the plan."""
        self.world.put(1)
        commits = self.world.checkpoints[0].commits
        self.until(lambda: self.world.checkpoints[0].commits > commits)

    def idle(self) -> None:
        self.until(lambda: self.driver.actor.at == "idle")

    def task_before(self, call: str, *needed: int) -> Actor:
        """A batch of the first queue begins: its task is stopped before this call, and frozen.

        needed: which slots the batch reads, none: not this one.
        """
        self.idle()
        self.world.put(0)
        self.world.put(0)
        self.world.needs.append(frozenset(needed))
        self.until(lambda: self.driver.plan is not None)
        if not needed:
            self.driver.run_again(0, is_repeated=False)
        task = next(each for each in self.world.tasks if each.is_of(self.driver, 0))
        actor = task.actor
        self.frozen.append(actor)
        self.to(actor, call)
        return actor

    def to(self, actor: Actor, call: str) -> None:
        for _ in range(_MANY):
            if all(part in actor.at for part in call.split()):
                return
            self.world.go(actor)
        raise AssertionError(f"{actor.name} does not {call}")

    def again(self, number: int = 0) -> None:
        """Another attempt at a slot runs to its end."""
        self.driver.run_again(number, is_repeated=False)
        self.on(self.world.tasks[-1].actor)

    def on(self, actor: Actor, fate: str = "") -> None:
        """It goes on to its end. fate: of the call that it stopped before."""
        self.world.go(actor, 1, fate)
        for _ in range(_MANY):
            if actor.is_over:
                return
            self.world.go(actor)
        raise AssertionError(f"{actor.name} does not end")

    def fails(self) -> None:
        """The query runs, from its start if it has ended, until its sink cannot write a row."""
        if self.driver.actor.is_over:
            self.driver = self.world.start()
        self.until(lambda: self.driver.actor.is_over)

    def gives_up(self) -> None:
        """The query starts, and gives its batch up."""
        if self.driver.actor.is_over:
            self.driver = self.world.start()
        known = self.world.outcomes()
        self.until(lambda: self.world.outcomes() > known)

    def sick(self, healthy: int = 2) -> None:
        """A batch of the first queue with a message that makes the sink fail, after its tries."""
        self.idle()
        self.world.put(0, sick=True)
        for _ in range(healthy):
            self.world.put(0)
        for _ in range(TRIES):
            self.fails()

    def time(self) -> None:
        self.world.service.clock.advance(LEASE_S + 1)

    def stolen(self) -> None:
        """The lease ends, and somebody else dequeues."""
        self.time()
        for _ in range(2):
            self.steals()

    def steals(self) -> None:
        """Another consumer dequeues a message of the first queue."""
        self.world.others.dequeue(NAMES[0], 1, LEASE_S)

    def returned(self) -> None:
        while self.world.others.held:
            self.world.others.ends(0, "returns")

    def restart(self) -> None:
        self.world.kill(self.driver.actor)
        self.driver = self.world.start()


# ── scenarios ─────────────────────────────────────────────────────────────────────────────────────


def put_is_repeated(scene: Scene) -> None:
    task = scene.task_before("put slots", 0)
    scene.on(task, "first answer lost")


def put_gets_no_answer(scene: Scene) -> None:
    task = scene.task_before("put slots", 0)
    scene.on(task, "no answer, took effect")


def delete_gets_no_answer(scene: Scene) -> None:
    task = scene.task_before("dateddelete", 0)
    scene.on(task, "no answer, took no effect")


def task_is_killed_before_it_puts(scene: Scene) -> None:
    task = scene.task_before("put slots", 0)
    scene.world.kill(task)
    scene.frozen.clear()


def task_puts_after_the_commit(scene: Scene) -> None:
    task = scene.task_before("put slots")
    scene.batch()
    scene.batch()
    scene.on(task)


def task_puts_into_a_cleaned_plan(scene: Scene) -> None:
    task = scene.task_before("put slots", 0)
    scene.again()
    for _ in range(RETENTION + 3):
        scene.batch()
    scene.on(task)


def plan_is_closed_before_its_deletes(scene: Scene) -> None:
    scene.task_before("dateddelete")
    scene.batch()
    scene.time()
    scene.batch()
    scene.world.roll_back(RETENTION, with_output=True, keeps_offset=False)


def others_take_what_is_stored(scene: Scene, skew: int = 0) -> None:
    task = scene.task_before("dateddelete", 0)
    scene.world.service.skew(skew)
    scene.stolen()
    scene.on(task)
    scene.idle()


def others_give_it_back(scene: Scene) -> None:
    others_take_what_is_stored(scene)
    scene.returned()


def others_update_it(scene: Scene) -> None:
    """What is stored, and deleted by nobody, is another message then."""
    others_take_what_is_stored(scene)
    while scene.world.others.held:
        scene.world.others.ends(0, "updates")


def a_clock_is_a_minute_ahead(scene: Scene) -> None:
    """That of the machine whose task leases."""
    scene.world.service.drivers_ahead_s = 60.0
    others_give_it_back(scene)


def a_page_is_delivered_twice(scene: Scene) -> None:
    """Within the lease somebody else gets the messages, too, and gives them back."""
    task = scene.task_before("dequeue", 0)
    scene.world.service.deliver_twice()
    scene.world.go(task, 1)
    scene.to(task, "dequeue")
    scene.steals()
    scene.steals()
    assert scene.world.others.held
    scene.on(task)
    scene.idle()
    scene.returned()


def clocks_differ(scene: Scene) -> None:
    others_take_what_is_stored(scene, skew=-4)
    scene.returned()


def others_give_it_back_after_a_restart(scene: Scene) -> None:
    others_take_what_is_stored(scene)
    scene.batch()
    scene.restart()
    scene.returned()


def is_rolled_back(scene: Scene) -> None:
    scene.batch()
    scene.batch()
    scene.world.roll_back(1, with_output=True, keeps_offset=False)


def slots_overlap(scene: Scene) -> None:
    task = scene.task_before("put slots", 0, 1)
    if len(scene.driver.plan.slots) > 1:  # type: ignore[union-attr]
        scene.time()
        scene.again(1)
    scene.on(task)


def object_is_lost(scene: Scene) -> None:
    """Of a batch without rows: others were quicker."""
    scene.idle()
    scene.world.put(0)
    scene.until(lambda: scene.driver.plan is not None)
    of_batch = scene.driver.plan
    assert of_batch
    scene.steals()
    scene.batch()
    scene.batch()
    scene.world.is_damaged = True
    scene.world.log.remove(names.slot(of_batch.id, 0))
    scene.world.log.remove(names.settled(of_batch.id, 0))
    scene.world.put(0)
    scene.world.roll_back(RETENTION, with_output=True, keeps_offset=False)
