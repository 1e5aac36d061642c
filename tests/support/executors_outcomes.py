"""The rules of plans that are given up: what takes each away, and a scenario that needs it.

A scenario begins with two messages in one queue and a query whose first batch is over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from executors_rules import no_tombstones, nothing
from executors_scene import Scene
from executors_setting import TRIES
from world.turns import Actor

from spark_azqueue.source.executors import given_up
from spark_azqueue.source.executors.closing import Cleaning
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.given_up import plan_again
from spark_azqueue.source.executors.objects import Closed, SeenMessages, SlotSegment
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.source.executors.recovery import PlanRecovery
from spark_azqueue.source.suspects import IsolationRule

Patch = pytest.MonkeyPatch


# ── scenarios ─────────────────────────────────────────────────────────────────────────────────────


def fails_twice(scene: Scene) -> None:
    scene.sick()


def is_given_up(scene: Scene) -> None:
    scene.sick()
    scene.gives_up()


def is_killed_after_the_verdict(scene: Scene) -> None:
    scene.sick(healthy=0)
    scene.fails()
    scene.fails()
    scene.driver = scene.world.start()
    _before_the_outcome(scene, scene.driver.actor)
    scene.world.go(scene.driver.actor)
    scene.restart()


def is_rolled_back_over_the_verdict(scene: Scene) -> None:
    is_given_up(scene)
    commits = scene.world.checkpoints[0].commits
    scene.until(lambda: scene.world.checkpoints[0].commits > commits)
    scene.world.roll_back(1, with_output=True, keeps_offset=False)


def task_puts_after_the_verdict(scene: Scene) -> None:
    """For a slot of the batch that nobody has read."""
    scene.idle()
    scene.world.put(0, sick=True)
    scene.world.put(1, sick=True)
    scene.world.needs.extend([frozenset({0})] * (TRIES + 1))
    scene.until(lambda: scene.driver.plan is not None)
    scene.driver.run_again(1, is_repeated=False)
    actor = scene.world.tasks[-1].actor
    scene.frozen.append(actor)
    scene.to(actor, "put slots")
    for _ in range(TRIES):
        scene.fails()
    scene.gives_up()
    scene.frozen.clear()
    scene.on(actor)


def another_query_commits_what_is_given_up(scene: Scene) -> None:
    """Its checkpoint is a copy. The driver is stopped before its verdict."""
    scene.idle()
    scene.world.copy()
    scene.world.put(0)
    for _ in range(TRIES):
        scene.until(lambda: scene.driver.plan is not None)
        scene.until(lambda: all(task.actor.is_over for task in scene.world.tasks))
        scene.restart()
    outcome = scene.driver.actor
    _before_the_outcome(scene, outcome)
    scene.frozen.append(outcome)
    scene.world.start(1)
    copy = scene.world.checkpoints[1]
    commits = copy.commits
    scene.until(lambda: copy.commits > commits)
    scene.world.put(0)  # behind an idle query no plan would stand
    scene.until(lambda: copy.commits > commits + 1)
    scene.frozen.clear()


def is_found_one_by_one(scene: Scene) -> None:
    """In more batches than the log keeps."""
    scene.sick(healthy=4)


def slots_are_not_read(scene: Scene) -> None:
    """Of a batch that gives messages of two slots again."""
    scene.idle()
    for queue in (0, 0, 1, 1, 1):
        scene.world.put(queue, sick=queue == 0)
    for _ in range(TRIES):
        scene.fails()
    scene.gives_up()
    scene.world.needs.extend([frozenset({0, 1}), frozenset({1}), frozenset({0}), frozenset()])
    scene.until(lambda: not scene.world.needs)


def others_give_back_what_was_given_up(scene: Scene) -> None:
    task = scene.task_before("dateddelete", 0)
    scene.world.sick.update(list(scene.world.texts)[-1:])
    scene.stolen()
    scene.on(task)
    scene.frozen.clear()
    for _ in range(TRIES):
        scene.fails()
    scene.gives_up()
    scene.returned()


def _before_the_outcome(scene: Scene, actor: Actor) -> None:
    while not (actor.at.startswith("put") and actor.at.endswith("-next")):
        assert not actor.is_over
        scene.world.go(actor)


# ── what takes a rule away ────────────────────────────────────────────────────────────────────────


def verdict_in_memory(patch: Patch) -> None:
    real = PlanRecovery.follow

    def put(self: PlanRecovery, plan: Plan, following: Plan, known: SeenMessages) -> Plan:
        return following if following.gave_up else real(self, plan, following, known)

    patch.setattr(PlanRecovery, "follow", put)


def own_verdict_stands(patch: Patch) -> None:
    real = PlanFolder.put_following

    def put_following(self: PlanFolder, plan_id: Any, following: Plan) -> Plan:
        found = real(self, plan_id, following)
        return following if following.gave_up else found

    patch.setattr(PlanFolder, "put_following", put_following)


def asked_for_other_processes_alone(patch: Patch) -> None:
    real = ExecutorsConsumer.plan

    def plan(self: ExecutorsConsumer, start: Any, end: Any, **proof: Any) -> list[bytes]:
        issued = self._issued is not None and self._issued == self._plan(end).id
        if issued:
            patch.setattr(PlanFolder, "following", nothing)
        return real(self, start, end, **proof)

    patch.setattr(ExecutorsConsumer, "plan", plan)


def no_copy(patch: Patch) -> None:
    patch.setattr(given_up, "was_moved", lambda *_: True)


def copied_after_the_verdict(patch: Patch) -> None:
    copy, put = given_up.was_moved, PlanRecovery.follow
    due: list[tuple[Any, ...]] = []

    def put_and_copy(self: PlanRecovery, plan: Plan, following: Plan, known: SeenMessages) -> Plan:
        found = put(self, plan, following, known)
        while due:
            copy(*due.pop())
        return found

    def later(*given: Any) -> bool:
        due.append(given)
        return True

    patch.setattr(given_up, "was_moved", later)
    patch.setattr(PlanRecovery, "follow", put_and_copy)


def tries_in_memory(patch: Patch) -> None:
    patch.setattr(PlanFolder, "note_attempt", lambda *_: "")


def nothing_is_pinned(patch: Patch) -> None:
    real = Cleaning.clean

    def clean(
        self: Cleaning, committed: int, known: SeenMessages, needed: int | None = None
    ) -> None:
        real(self, committed, known)

    patch.setattr(Cleaning, "clean", clean)


def unread_is_processed(patch: Patch) -> None:
    patch.setattr(Closed, "suspects", property(lambda self: self.plan.suspects))


def others_do_not_wait(patch: Patch) -> None:
    def again(*given: Any, **more: Any) -> Plan:
        return dataclasses.replace(plan_again(*given, **more), waiting=(), histories=())

    patch.setattr(given_up, "plan_again", again)


def verdict_forgets_what_is_owed(patch: Patch) -> None:
    def again(
        before: Plan,
        suspects: Any,
        evidence: Any,
        order: IsolationRule,
        known: SeenMessages,
        *more: Any,
        gave_up: bool,
    ) -> Plan:
        empty = SeenMessages()
        return plan_again(before, suspects, evidence, order, empty, *more, gave_up=gave_up)

    patch.setattr(given_up, "plan_again", again)


def rows_without_a_copy(patch: Patch) -> None:
    real = PlanFolder.put_segment

    def put_segment(self: PlanFolder, segment: SlotSegment) -> tuple[bool, int]:
        comes_again = segment.received and not segment.header.looked
        return (True, 0) if comes_again else real(self, segment)

    patch.setattr(PlanFolder, "put_segment", put_segment)


RULES: dict[str, tuple[Callable[[Scene], None], Callable[[Patch], None]]] = {
    "a verdict is in the folder": (is_given_up, verdict_in_memory),
    "the first one to say what follows decides": (
        another_query_commits_what_is_given_up,
        own_verdict_stands,
    ),
    "it is asked for before each batch": (
        is_rolled_back_over_the_verdict,
        asked_for_other_processes_alone,
    ),
    "a plan is closed before it is given up": (task_puts_after_the_verdict, no_tombstones),
    "poison is copied": (is_given_up, no_copy),
    "poison is copied first": (is_killed_after_the_verdict, copied_after_the_verdict),
    "tries are in the folder": (fails_twice, tries_in_memory),
    "what waits is kept": (is_found_one_by_one, nothing_is_pinned),
    "what waits is not forgotten": (is_found_one_by_one, others_do_not_wait),
    "what nobody has read comes again": (slots_are_not_read, unread_is_processed),
    "what is owed stays known": (others_give_back_what_was_given_up, verdict_forgets_what_is_owed),
    "what comes again is copied before its rows": (is_given_up, rows_without_a_copy),
}
"""A scenario that holds with the rule and breaks a promise without it, and what takes it away."""
