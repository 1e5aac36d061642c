"""What the study of leaseOn=executors took away beside the rules: a scenario for each."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from executors_scene import Scene
from log_stores import MemoryLogStore
from world.turns import Actor

from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.calls import DatedDelete
from spark_azqueue.source import dead_letters
from spark_azqueue.source.executors import leasing, slot
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.leasing import Leased
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SlotReport, SlotSegment
from spark_azqueue.source.executors.rows import SlotAssignment
from spark_azqueue.source.executors.slot import SlotTask
from spark_azqueue.source.logged.undecodable import Reading
from spark_azqueue.source.offsets import OffsetJson

Patch = pytest.MonkeyPatch


# ── scenarios ─────────────────────────────────────────────────────────────────────────────────────


def second_attempt_is_first(scene: Scene) -> None:
    """It puts a message that came later; the first attempt, which has others, puts after it."""
    first = scene.task_before("put slots", 0)
    scene.world.put(0)
    scene.again()
    scene.on(first)


def driver_is_killed_before_its_commit(scene: Scene) -> None:
    scene.idle()
    scene.world.put(0)
    scene.until(lambda: scene.driver.actor.at == "sink")
    scene.restart()


def task_is_killed_before_its_deletes(scene: Scene) -> None:
    """The next attempt finds what it put, and the leases end later."""
    killed: Actor = scene.task_before("dateddelete", 0)
    scene.world.kill(killed)
    scene.frozen.clear()
    scene.again()
    scene.idle()
    scene.time()


def option_becomes_poison(scene: Scene) -> None:
    """With `fail` a message that does not decode stops the query; then the user sets `poison`."""
    scene.world.choose("fail")
    scene.restart()
    scene.world.put(0, decodes=False)
    scene.until(lambda: scene.driver.actor.is_over)
    scene.world.choose("poison")
    scene.driver = scene.world.start()
    scene.batch()


def killed_between_a_copy_and_its_delete(scene: Scene) -> None:
    """It comes again when its lease ends, and is copied again."""
    scene.idle()
    scene.world.put(0, decodes=False)
    killed: Actor = scene.task_before("dateddelete", 0)
    scene.world.kill(killed)
    scene.frozen.clear()
    scene.time()
    scene.again()
    scene.batch()


def encoding_changes(scene: Scene) -> None:
    """A batch is in the sink's hands when the query is killed, and the next start decodes anew."""
    _to_the_sink(scene)
    _commits_with(scene, "none")


def another_attempt_decodes(scene: Scene) -> None:
    """A task is stopped before it copies what does not decode. In the encoding of the next start it
    has a row."""
    scene.idle()
    scene.world.put(0, decodes=False)
    task = scene.task_before("ask put", 0)
    scene.time()
    scene.world.choose("none")
    scene.restart()
    scene.batch()
    scene.on(task)


def _to_the_sink(scene: Scene) -> None:
    scene.idle()
    scene.world.put(0)
    scene.until(lambda: scene.driver.actor.at == "sink")


def _commits_with(scene: Scene, choice: str) -> None:
    scene.world.choose(choice)
    scene.restart()
    commits = scene.world.checkpoints[0].commits
    scene.until(lambda: scene.world.checkpoints[0].commits > commits)


# ── what is taken away ────────────────────────────────────────────────────────────────────────────


def a_put_overwrites(patch: Patch) -> None:
    real = MemoryLogStore.put_new

    def put_new(self: MemoryLogStore, name: str, data: bytes) -> bool:
        if "-s" in name:
            self.objects.pop(name, None)
        return real(self, name, data)

    patch.setattr(MemoryLogStore, "put_new", put_new)


def the_loser_deletes_all(patch: Patch) -> None:
    def give_up(self: SlotTask, leased: Leased, winner: SlotSegment) -> None:
        for lease in leased.leases:
            self._client.now(DatedDelete(lease))

    patch.setattr(SlotTask, "give_up", give_up)


def the_plan_is_in_memory_alone(patch: Patch) -> None:
    """A process that did not make a plan makes another one for its batch."""
    nonces = (f"{number:032x}" for number in itertools.count(1))
    latest, plan = ExecutorsConsumer.latest, ExecutorsConsumer.plan
    made: dict[tuple[ExecutorsConsumer, int], PlanId] = {}

    def remembered(self: ExecutorsConsumer, *given: Any, **proof: Any) -> OffsetJson:
        offset = latest(self, *given, **proof)
        if "batch" in offset:
            made[self, int(offset["batch"])] = PlanId(int(offset["batch"]), str(offset["nonce"]))
        return offset

    def planned(
        self: ExecutorsConsumer, start: OffsetJson, end: OffsetJson, **proof: Any
    ) -> list[bytes]:
        key = (self, int(end["batch"]))
        if key not in made:
            made[key] = PlanId(key[1], next(nonces))
        real = SlotAssignment.by
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(
                SlotAssignment,
                "by",
                lambda given, *more: real(dataclasses.replace(given, id=made[key]), *more),
            )
            return plan(self, start, end, **proof)

    patch.setattr(ExecutorsConsumer, "latest", remembered)
    patch.setattr(ExecutorsConsumer, "plan", planned)


def what_is_found_counts_as_deleted(patch: Patch) -> None:
    found: list[SlotSegment] = []
    real = PlanFolder.segment

    def segment(self: PlanFolder, *given: Any) -> tuple[SlotSegment, int] | None:
        stands = real(self, *given)
        found.extend(stands[:1] if stands else ())
        return stands

    def settled(config: Any, client: Any, given: SlotSegment, size: int, *more: Any) -> SlotReport:
        if any(given is each for each in found):
            return SlotReport.of(given.header, size)
        return leasing.settle_slot(config, client, given, size, *more)

    patch.setattr(PlanFolder, "segment", segment)
    patch.setattr(slot, "settle_slot", settled)


def slots_stay_open(patch: Patch) -> None:
    patch.setattr(SlotTask, "decides_as_planned", True)


def deletes_before_copies(patch: Patch) -> None:
    """As if the copies were made with the deletes of the slot, behind the put."""
    real = dead_letters.dead_lettered

    def deleted(config: Any, client: Any, reasons: Any, *more: Any) -> Iterator[Message]:
        *_, leases = more
        for message in reasons:
            client.now(DatedDelete(leases[message.key]))
        yield from real(config, client, reasons, *more[:-1])

    patch.setattr(leasing, "dead_lettered", deleted)


def puts_before_it_decodes(patch: Patch) -> None:
    patch.setattr(slot, "without_undecodable", lambda config, client, leased, *more: leased)


def decoded_as_today(patch: Patch) -> None:
    patch.setattr(Reading, "logged", lambda options, today: today)


MUTANTS: dict[str, tuple[Callable[[Scene], None], Callable[[Patch], None]]] = {
    "a put overwrites": (second_attempt_is_first, a_put_overwrites),
    "the loser deletes all": (second_attempt_is_first, the_loser_deletes_all),
    "the plan is not in the offset": (
        driver_is_killed_before_its_commit,
        the_plan_is_in_memory_alone,
    ),
    "what is found counts as deleted": (
        task_is_killed_before_its_deletes,
        what_is_found_counts_as_deleted,
    ),
    "other options leave no slot open": (another_attempt_decodes, slots_stay_open),
    "a copy before the delete": (killed_between_a_copy_and_its_delete, deletes_before_copies),
    "nothing is put before it decodes": (option_becomes_poison, puts_before_it_decodes),
    "decoded as today": (encoding_changes, decoded_as_today),
}
"""A scenario that holds, and what breaks a promise in it."""
