"""The rules of leaseOn=executors: what takes each away, and a scenario that needs it.

A scenario begins with two messages in one queue and a query whose first batch is over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from executors import LEASE_S, RETENTION, World
from turns import Actor

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.queues.calls import DatedDelete
from spark_azqueue.source.executors import closing, consumer, names, plan, settle, slot
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.leasing import Leased, Leasing
from spark_azqueue.source.executors.plan import Slot
from spark_azqueue.source.executors.planning import slots_of
from spark_azqueue.source.executors.segment import Segment
from spark_azqueue.source.executors.settled import Known, Settled
from spark_azqueue.source.executors.slot import SlotTask
from spark_azqueue.source.executors.takeover import Takeover
from spark_azqueue.source.log.claim import Claim

Patch = pytest.MonkeyPatch

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
            if not self.world.alive():  # of two drivers, the other one has stopped it
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
            if call in actor.at:
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

    def time(self) -> None:
        self.world.queues.clock.advance(LEASE_S + 1)

    def stolen(self) -> None:
        """The lease ends, and somebody else dequeues."""
        self.time()
        for _ in range(2):
            self.world.steal(0)

    def returned(self) -> None:
        while self.world.thefts:
            self.world.thief_ends(0, "returns")

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
    scene.world.queues.skew(skew)
    scene.stolen()
    scene.on(task)
    scene.idle()


def others_give_it_back(scene: Scene) -> None:
    others_take_what_is_stored(scene)
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
    scene.world.steal(0)
    scene.batch()
    scene.batch()
    scene.world.is_damaged = True
    scene.world.log.remove(names.slot(of_batch.id, 0))
    scene.world.log.remove(names.done(of_batch.id, 0))
    scene.world.put(0)
    scene.world.roll_back(RETENTION, with_output=True, keeps_offset=False)


# ── what takes a rule away ────────────────────────────────────────────────────────────────────────


def nothing(*_: Any, **__: Any) -> None:
    pass


def own_put_is_anothers(patch: Patch) -> None:
    def releases(self: SlotTask, leased: Leased, winner: Segment) -> None:
        slot.release(self._client, leased.leases)  # noqa: SLF001

    real = PlanFolder.segment

    def segment(self: PlanFolder, plan_id: names.PlanId, place: int) -> Any:
        found = real(self, plan_id, place)
        if found is None:
            return None
        header = dataclasses.replace(found[0].header, attempt="0" * 32)
        return Segment(header, found[0].received), found[1]

    patch.setattr(PlanFolder, "segment", segment)
    patch.setattr(SlotTask, "_give_up", releases)


def no_tombstones(patch: Patch) -> None:
    real = PlanFolder.put_segment

    def put_segment(self: PlanFolder, segment: Segment) -> tuple[bool, int]:
        return (True, 0) if segment.header.tombstone else real(self, segment)

    patch.setattr(PlanFolder, "put_segment", put_segment)


def no_chain(patch: Patch) -> None:
    patch.setattr(PlanFolder, "put_following", lambda self, plan_id, following: following)
    patch.setattr(PlanFolder, "following", nothing)
    patch.setattr(Takeover, "_check_follows", nothing)
    patch.setattr(Takeover, "_follows", lambda *_: True)


def no_floor(patch: Patch) -> None:
    patch.setattr(SlotTask, "_check_floor", nothing)


def unsettled(patch: Patch) -> None:
    def settled(config: Any, client: Any, segment: Segment, size: int) -> Settled:
        return Settled.of(segment.header, size)

    patch.setattr(closing, "settle", settled)


def rows_before_deletes(patch: Patch) -> None:
    def settled(config: Any, client: Any, segment: Segment, size: int, *more: Any) -> Settled:
        try:
            return settle.settle(config, client, segment, size, *more)
        except ServiceError:
            return Settled.of(segment.header, size)

    patch.setattr(slot, "settle", settled)


def deletes_before_put(patch: Patch) -> None:
    real = Leasing.lease

    def lease(self: Leasing) -> Leased:
        leased = real(self)
        for _, each in leased.received:
            self._client.now(DatedDelete(each))  # noqa: SLF001
        return leased

    patch.setattr(Leasing, "lease", lease)


def no_margin(patch: Patch) -> None:
    patch.setattr(settle, "MARGIN_S", 0)


def refused_is_deleted(patch: Patch) -> None:
    patch.setattr(settle, "_is_gone", lambda result, until: True)


def nothing_known(patch: Patch) -> None:
    patch.setattr(Known, "has", lambda *_: False)


def known_in_memory_alone(patch: Patch) -> None:
    patch.setattr(PlanFolder, "known", lambda self, plan: Known())


def releases_what_may_stand(patch: Patch) -> None:
    patch.setattr(ServiceError, "may_have_taken_effect", False)


class _Lenient(set[Any]):
    """As long as what it was made of."""

    def __init__(self, of: Iterable[Any]) -> None:
        self._size = len(listed := list(of))
        super().__init__(listed)

    def __len__(self) -> int:
        return self._size


def a_queue_in_two_slots(patch: Patch) -> None:
    def twice(queues: Any, width: int, **more: Any) -> tuple[Slot, ...]:
        slots = slots_of(queues, width, **more)
        return (slots[0], *slots)

    patch.setattr(consumer, "slots_of", twice)
    patch.setattr(plan, "set", _Lenient, raising=False)


def no_look_at_what_follows(patch: Patch) -> None:
    patch.setattr(SlotTask, "_is_lost", lambda self: False)


def no_claims(patch: Patch) -> None:
    patch.setattr(Claim, "check", nothing)


RULES: dict[str, tuple[Callable[[Scene], None], Callable[[Patch], None]]] = {
    "a put that is refused may be one's own": (put_is_repeated, own_put_is_anothers),
    "a slot of a closed plan has an object": (task_puts_after_the_commit, no_tombstones),
    "one plan follows another": (is_rolled_back, no_chain),
    "no delete for a cleaned plan": (task_puts_into_a_cleaned_plan, no_floor),
    "a plan is settled when it is closed": (plan_is_closed_before_its_deletes, unsettled),
    "rows after deletes": (delete_gets_no_answer, rows_before_deletes),
    "deletes after the put": (task_is_killed_before_it_puts, deletes_before_put),
    "clocks may differ": (clocks_differ, no_margin),
    "refused after the lease's end: owed": (others_give_it_back, refused_is_deleted),
    "what is owed is known": (others_give_it_back, nothing_known),
    "what is known is in the folder": (
        others_give_it_back_after_a_restart,
        known_in_memory_alone,
    ),
    "no release of what may stand": (put_gets_no_answer, releases_what_may_stand),
    "a queue is in one slot": (slots_overlap, a_queue_in_two_slots),
    "no lease for a closed plan": (object_is_lost, no_look_at_what_follows),
}
"""A scenario that holds with the rule and breaks a promise without it, and what takes it away."""
