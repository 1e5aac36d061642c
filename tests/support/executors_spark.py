"""What Spark does with a source of leaseOn=executors: logs, drivers, tasks, and the sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from doubles import AtOnce
from executors_setting import ACCOUNT, RETENTION
from world.spark import FencedError
from world.turns import KILL, Actor, Spawning

from spark_azqueue.errors import (
    AzQueueError,
    CheckpointMismatch,
    InvalidOption,
    LogConflict,
    LogDamaged,
    NotDrained,
    ServiceError,
    UndecodableBody,
)
from spark_azqueue.metrics.source_progress import CLOSING
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.parsers import Retention
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.engine_calls import EngineCalls
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.source.executors.rows import batches_of
from spark_azqueue.source.executors.slot import SlotTask
from spark_azqueue.source.offsets import OffsetJson
from spark_azqueue.source.runtime import Runtime

if TYPE_CHECKING:
    from executors import World

_TRIES = 4
"""So often Spark runs a task that fails."""


class Sick(Exception):  # noqa: N818
    """The sink cannot write one of the rows."""


@dataclass
class Checkpoint:
    """Spark's logs, and the output: for each batch number, the rows of each slot that was read.

    wrote: of which plan its rows are. first: what was before is in another output. told: an error
    said that batches are lost here.
    """

    name: str
    first: int = 0
    offsets: list[OffsetJson] = field(default_factory=list)
    commits: int = 0
    output: dict[int, dict[int, tuple[str, ...]]] = field(default_factory=dict)
    wrote: dict[int, PlanId] = field(default_factory=dict)
    told: bool = False

    def rows(self) -> list[str]:
        return [row for batch in self.output.values() for rows in batch.values() for row in rows]

    def plan(self, batch: int) -> Plan:
        return Plan.from_json(self.offsets[batch], account=ACCOUNT)

    def committed(self) -> int:
        """The number of the newest committed plan."""
        return self.plan(self.commits - 1).number if self.commits else 0

    def plans(self) -> set[PlanId]:
        return {self.plan(batch).id for batch in range(len(self.offsets))}

    def batch_of(self, plan: PlanId) -> int | None:
        """The place of this plan's offset; None if it has none, such as an unused plan."""
        return next((each for each in range(len(self.offsets)) if self.plan(each).id == plan), None)


class How(NamedTuple):
    """In which way Spark runs a query.

    bare: as 4.0 and 4.1, which name the newest offset at a start and ask without an argument; else
    as 4.2. available_now: a true one. once: it ends behind a batch, as with availableNow on 4.0 and
    4.1. wrapper: that of these for availableNow, which asks before it names an offset. early: it
    asks for the next batch while tasks run, and so closes their plan. kills: the other attempts at
    a slot, when one has given its rows. other: another engine than Spark, whose calls prove less.
    """

    bare: bool = False
    available_now: bool = False
    once: bool = False
    wrapper: bool = False
    early: bool = False
    kills: bool = False
    other: bool = False


class Driver:
    """The driver of a query: one process, which does what Spark's does."""

    actor: Actor

    def __init__(
        self,
        world: World,
        at: Checkpoint,
        number: int,
        how: How,
    ) -> None:
        self.world = world
        self.at = at
        self.number = number
        self.how = how
        self.config = world.config
        self.threads: list[Actor] = []
        self.plan: Plan | None = None  # of the batch that runs
        self.batch = 0
        self.known_offsets = 0
        self.results: dict[int, tuple[str, ...]] = {}
        self.failed: Counter[int] = Counter()
        self.error: Exception | None = None
        self._parts: list[bytes] = []
        self._answer: OffsetJson | None = None  # about the next batch, asked for early

    def run(self) -> None:
        try:
            self._run()
        except (FencedError, AzQueueError) as error:
            self.error = error
            self.world.happened[type(error).__name__] += 1
            self.world_is_told(error)
        except Sick as error:
            self.error = error
            self.world.happened["sick"] += 1
            following = self.world.following(self.plan.id) if self.plan else None
            if following is not None and not following.gave_up:
                self.world.happened["sick in a committed batch"] += 1
                self.at.told = True  # it was committed once, by a batch that did not read that row

    def world_is_told(self, error: Exception) -> None:
        """An error that stops the query has to have a reason."""
        at, world = self.at, self.world
        fails = self.config.on_undecodable is OnUndecodable.FAIL
        if isinstance(error, (FencedError, ServiceError, LogConflict)):
            return
        if isinstance(error, UndecodableBody) and fails:
            return
        if world.is_excused(error):
            at.told = True
            return
        if isinstance(error, NotDrained) and self.how.available_now:
            return
        if isinstance(error, (CheckpointMismatch, InvalidOption)) and self.how.wrapper:
            return
        is_late = at.commits > self.batch or len(at.offsets) > self.known_offsets
        has_copy = len(world.checkpoints) > 1
        is_overtaken = has_copy and (world.floor() >= at.committed() or not at.offsets)
        if not isinstance(error, (CheckpointMismatch, LogDamaged)) or not (is_late or is_overtaken):
            self.world.breaks(f"driver {self.number} is told what is not so: {error}", error)
        at.told |= has_copy and (world.floor() > at.committed() or not at.offsets)

    def _workers(self, count: int, name: str) -> Any:
        if name != "clean":
            return AtOnce(count, name)
        return Spawning(self._thread)

    def _thread(self, work: Callable[[], None]) -> None:
        name = f"driver {self.number} cleans"
        self.threads.append(self.world.turns.spawn(name, work))

    def _run(self) -> None:
        world, at = self.world, self.at
        stop = world.turns.stop_before
        config = self.config
        assert config.write_ahead_log
        assert config.executors
        consumer = ExecutorsConsumer(
            config,
            replace(config.write_ahead_log, retention=Retention(RETENTION)),
            config.executors,
            store=world.store(),
            runtime=Runtime(
                client=world.client(),
                make_workers=self._workers,
                clock=world.service.clock.now,
                now=world.service.wall,
                sleep=world.sleep,
            ),
        )
        clock = world.service.clock.now
        source = EngineCalls(consumer, plans_ahead=self.how.other, clock=clock, sleep=world.sleep)
        self.batch, self.known_offsets = at.commits, len(at.offsets)
        has_offset = len(at.offsets) > at.commits
        began, has_run = self.batch, False
        there: dict[str, int] = {}
        if self.how.available_now:
            there = world.visible()
            source.freeze_cutoff()
        target = source.latest(None, None) if self.how.wrapper else None
        if self.how.bare and at.offsets and source.plan(at.offsets[-1], at.offsets[-1]):
            self.world.breaks("other rows: of a batch that ends where it begins")
        while True:
            before = at.offsets[self.batch - 1] if self.batch else source.initial
            if has_offset:
                has_offset = False
                end = at.offsets[self.batch]
            else:
                if self.how.once and self.batch > began:
                    return
                end = self._latest(source, before)
                if target is not None:  # the answer is for the progress
                    end = target
                    if has_run or _is_same(end, before):
                        return
                if _is_same(end, before) and self.batch:
                    if not self.how.available_now and world.others_have_data:
                        world.others_have_data -= 1
                    elif self._is_over(there):
                        return
                    else:
                        stop("idle")
                        continue
                stop("offset")
                if len(at.offsets) != self.batch:
                    raise FencedError
                at.offsets.append(end)
                self.known_offsets += 1
                source.committed(before)
                has_run = True
            plan = Plan.from_json(end, account=ACCOUNT)
            if CLOSING in end and end[CLOSING] != before.get(CLOSING):
                world.happened["closing offset"] += 1
                if source.plan(before, end):
                    self.world.breaks("other rows: of a closing offset")
                stop("sink")
                world.writes(at, self.batch, plan.id, {})
            elif _is_same(end, before):  # another source of the query has data
                if not self.batch and source.plan(before, end):
                    self.world.breaks("other rows: before the first message")
                stop("sink")
                world.writes(at, self.batch, plan.id, {})
            else:
                self._parts = self._planned(source, before, end, plan)
                again = self._planned(source, before, end, plan)
                is_cleaned = world.following(plan.id) is None
                if again not in (self._parts, []) and not is_cleaned:
                    self.world.breaks("other rows: of a batch that is planned again")
                self._run_batch(_told(self._parts) if self._parts else plan, source, end)
            stop("commit")
            if at.commits != self.batch:
                raise FencedError
            at.commits += 1
            world.high = max(world.high, at.commits)
            self.plan = None
            self.batch += 1

    def _latest(self, source: EngineCalls, before: OffsetJson) -> OffsetJson:
        if self._answer is not None:
            answer, self._answer = self._answer, None
            return answer
        if self.how.bare:
            return source.latest(None, None)
        return source.latest(before, self.config.max_messages)

    def _is_over(self, there: dict[str, int]) -> bool:
        """Nothing is new. there: what an availableNow run is to read."""
        world = self.world
        if not self.how.available_now:
            return self.how.once
        world.happened["availableNow ended"] += 1
        if left := [each for each in world.visible().items() if each in there.items()]:
            self.world.breaks(f"availableNow ended without {left}, which nobody touched")
        if hidden := world.hidden_by_killed(self) & there.keys():
            self.world.breaks(f"availableNow ended without {hidden}, which a copy hides")
        if waiting := world.waits(self.at):
            self.world.breaks(f"availableNow ended while these wait: {waiting}")
        return True

    def _planned(
        self, source: EngineCalls, before: OffsetJson, end: OffsetJson, plan: Plan
    ) -> list[bytes]:
        was_given_up = self.world.gave_up(plan.id)
        parts = source.plan(before, end)
        is_cleaned = self.world.following(plan.id) is None  # then its tasks say so
        if parts and was_given_up and not is_cleaned:
            self.world.breaks(f"other rows: {plan.id} was given up, and comes again")
        if not parts and not self.world.gave_up(plan.id):
            self.world.breaks(f"lost: {plan.id} was not given up, and has no rows")
        return parts

    def _run_batch(self, plan: Plan, source: EngineCalls, end: OffsetJson) -> None:
        world = self.world
        self.results, self.plan = {}, plan
        self.failed.clear()
        every = range(len(self._parts))
        needed = world.needs.popleft() if world.needs else frozenset(every)
        needed &= frozenset(every)
        for each in sorted(needed):
            self.run_task(each)
        if self.how.early:
            world.turns.stop_before("early")
            world.high = max(world.high, self.batch + 1)  # what is closed may be removed
            self._answer = self._latest(source, end)
            if _is_same(self._answer, end):
                self._answer = None
        while not needed <= self.results.keys():
            world.turns.stop_before("wait")
            for each in sorted(needed - self.results.keys()):
                if not any(task.is_of(self, each) for task in world.tasks):
                    self.run_task(each, is_repeated=True)
        world.turns.stop_before("sink")
        rows = {each: self.results[each] for each in sorted(needed)}
        if self.batch not in self.at.output and world.sick & {*chain(*rows.values())}:
            raise Sick
        world.writes(self.at, self.batch, plan.id, rows)

    def run_again(self, slot_number: int, *, is_repeated: bool) -> None:
        """Of the batch that runs, if one does: a copy of a task that is slow, or a second action.

        A stage that is computed again counts its attempts from the first.
        """
        if self.plan and slot_number < len(self._parts) and self.failed[slot_number] < _TRIES:
            self.run_task(slot_number, is_repeated=is_repeated)

    def run_task(self, slot_number: int, *, is_repeated: bool = False) -> None:
        assert self.plan
        if self.failed[slot_number] >= _TRIES:
            assert self.error
            raise self.error
        task = Task(self.world, self, self.plan, slot_number, is_repeated=is_repeated)
        self.world.tasks.append(task)
        name = f"task of driver {self.number} for {self.plan.number}.{slot_number}"
        task.actor = self.world.turns.spawn(name, task.run)


def _named(world: World, message_id: str, body: str | bytes | None) -> str:
    text = body.decode() if isinstance(body, bytes) else body
    return message_id if text is None else world.named(message_id, text)


def _is_same(offset: OffsetJson, other: OffsetJson) -> bool:
    """As Spark compares them."""
    return json.dumps(offset) == json.dumps(other)


def _told(parts: list[bytes]) -> Plan:
    """The plan of a batch, as its tasks are told."""
    return Plan.from_json(json.loads(parts[0])["plan"], account=ACCOUNT)


class Task:
    """One attempt at one slot."""

    actor: Actor

    def __init__(
        self, world: World, driver: Driver, plan: Plan, slot_number: int, *, is_repeated: bool
    ) -> None:
        self.world = world
        self.driver = driver
        self.plan = plan
        self.slot = slot_number
        self.is_repeated = is_repeated
        self.is_killed = False

    def is_of(self, driver: Driver, slot_number: int) -> bool:
        """True if this driver waits for it."""
        is_alive = not self.actor.is_over
        return (
            is_alive
            and self.driver is driver
            and self.plan is driver.plan
            and (self.slot == slot_number)
        )

    def run(self) -> None:
        world = self.world
        store = world.store()
        config = self.driver.config
        task = SlotTask(
            config,
            self.plan,
            self.slot,
            PlanFolder(store, ACCOUNT),
            world.client(),
            is_repeated=self.is_repeated,
            clock=world.service.clock.now,
            sleep=world.sleep,
        )
        try:
            given = task.rows()
        except AzQueueError as error:
            world.happened[f"task: {type(error).__name__}"] += 1
            if self.driver.plan is self.plan and not self.driver.actor.is_over:
                self._fails(error)
            return
        try:
            bodies = {
                row["message_id"]: row["body"]
                for batch in batches_of(given, source_columns(config.body_type, permissive=False))
                for row in batch.to_pylist()
            }
        except UndecodableBody as error:
            world.happened["task: UndecodableBody"] += 1
            if self.driver.plan is self.plan and not self.driver.actor.is_over:
                self._fails(error)
            return
        world.turns.stop_before("rows")
        bodies = {_named(world, each, body): body for each, body in bodies.items()}
        rows = tuple(bodies)
        world.gives(self.plan.id, self.slot, rows)
        world.has_bodies(self.plan.id, self.slot, bodies)
        if self.driver.plan is self.plan:
            self.driver.results.setdefault(self.slot, rows)
        if self.driver.how.kills:
            for task in [each for each in world.tasks if each.is_of(self.driver, self.slot)]:
                if task is not self:
                    task.is_killed = True
                    world.turns.step(task.actor, KILL)

    def _fails(self, error: AzQueueError) -> None:
        if not isinstance(error, ServiceError):
            self.driver.world_is_told(error)
        self.driver.failed[self.slot] += 1
        self.driver.error = error
