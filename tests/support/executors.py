"""Queries with leaseOn=executors as Spark runs them, over a log and queues in memory.

Drivers and tasks are processes that take turns (`turns.py`). The consumer, the tasks and what they
use are the real ones. Spark's side is in `executors_spark.py`: an offset is written before its
tasks run, offsets and commits are written if absent, and the sink keeps what it was first given for
a batch number.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pytest
from executors_setting import (
    ACCOUNT,
    CHOICES,
    CONFIG,
    NAMES,
    POISON,
    Broken,
    with_simulated_time,
)
from executors_spark import Checkpoint, Driver, How, Task
from executors_user import User
from log_stores import MemoryLogStore
from world.others import Others
from world.process import CALLS, PUTS, REQUESTS, AtOnceClient, SteppedStore
from world.service import Service
from world.turns import KILL, Actor, Turns

from spark_azqueue.errors import LogDamaged
from spark_azqueue.journal.frame import unframed
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.service.queues import calls
from spark_azqueue.service.wire.calls import Call
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SLOT_MAGIC, SlotHeader, decode_slot
from spark_azqueue.source.executors.plan import Part, Plan

MOST_WAITING = 8
"""With so many messages in the queues no further one comes."""


class Place(NamedTuple):
    """Where a message stands."""

    plan: PlanId
    slot: int


def in_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def texts_of(text: str) -> tuple[str, str]:
    """A text in base64 as a row may have it: as it is, or decoded."""
    return text, base64.b64decode(text).decode()


class World(User):
    """All that there is: queues, a log, checkpoints, and the processes of their queries."""

    def __init__(self, patch: pytest.MonkeyPatch, how: How | None = None) -> None:
        """how: Spark runs a query, if nothing else is said."""
        self.how = how or How()
        self.turns = Turns()
        self.service = Service(NAMES + POISON)
        self.service.seen.append(self._seen)
        self.others = Others(self.service)
        self.others.updated = self._updated
        self.others.renames = lambda _, number: in_base64(f"updated {number}")
        self.times: dict[str, float] = {}  # when each object was put
        self._stores: list[SteppedStore] = []
        self.log = self.store()
        with_simulated_time(patch, self.service, self.sleep)
        self.config = CHOICES["poison"]  # of drivers that start
        self.may_decode = False  # some had another encoding, in which all decode, or permissive
        self.was_permissive = False  # some were: a row may have no body
        self.checkpoints = [Checkpoint("main")]
        self.drivers: list[Driver] = []
        self.tasks: list[Task] = []
        self.needs: deque[frozenset[int]] = deque()
        self.texts: dict[str, str] = {}  # of what was put, and of what others made of it
        self.newest: dict[str, str] = {}  # by id: under which name a message is known now
        self.bad: set[str] = set()  # do not decode
        self.sick: set[str] = set()  # make the sink fail
        self.holders: dict[str, Actor | None] = {}  # which process dequeued a message last
        self.gone: set[str] = set()
        self.taken: set[str] = set()  # deleted or replaced by somebody else
        self.stood: dict[str, dict[Place, int]] = {}  # in which segments a message was put, where
        self.copied: set[tuple[str, Place]] = set()  # texts that tasks dead-lettered
        self.too_late: set[Place] = set()  # put when their plan was closed
        self.given: dict[Place, tuple[str, ...]] = {}  # the rows of each slot
        self.bodies: dict[Place, dict[str, str]] = {}  # and what they had for bodies
        self.given_up: set[PlanId] = set()
        self.is_damaged = False  # something else deletes objects
        self.others_have_data = 0  # so often another source of a query has some, when ours has none
        self.high = 0  # the most commits of any checkpoint
        self.happened: Counter[str] = Counter()
        self._to_check = False
        self._numbers = itertools.count(1)

    # ── what processes have of it ─────────────────────────────────────────────────────────────────

    def store(self) -> SteppedStore:
        objects = {} if not hasattr(self, "log") else self.log.objects
        made = SteppedStore(
            self.service, self.turns.stop_before, self._created, objects=objects, kind=EXECUTORS
        )
        made.times = self.times
        self._stores.append(made)
        return made

    def client(self) -> AtOnceClient:
        stop = self.turns.stop_before
        return AtOnceClient(CONFIG.account, self.service, stop, self._dequeued)

    def names(self) -> Sequence[str]:
        return NAMES

    def stores(self) -> Sequence[MemoryLogStore]:
        return self._stores[-3:]

    def another_sends(self, queue: str) -> None:
        if len(self.in_queues()) < MOST_WAITING:
            self.put(NAMES.index(queue))

    def sleep(self, seconds: float) -> None:
        self.turns.stop_before("sleep")
        self.service.clock.advance(seconds)

    # ── what is seen of it ────────────────────────────────────────────────────────────────────────

    def _created(self, name: str, data: bytes) -> None:
        self.times[name] = self.service.wall()
        at = names.as_slot_name(name)
        self._to_check |= at is not None and at.kind == "next"
        if at is None or at.kind != "s":
            return
        if names.following(at.plan) in self.log.objects:
            self.too_late.add(Place(at.plan, at.slot))
        log = SlotHeader.from_bytes(unframed(SLOT_MAGIC, data).head).log
        received = decode_slot(data, log=log, plan=at.plan, slot=at.slot).received
        for number, (message, _) in enumerate(received):
            name = self.named(message.message_id, message.text)
            self.stood.setdefault(name, {})[Place(at.plan, at.slot)] = number

    def _dequeued(self, ids: Iterable[str]) -> None:
        for each in ids:
            self.holders[each] = self.turns.now

    def hidden_by_killed(self, driver: Driver) -> set[str]:
        """What copies had dequeued that Spark killed when the other attempt of a slot had ended."""
        killed = [task.actor for task in self.tasks if task.is_killed and task.driver is driver]
        in_queues = self.in_queues() - self.visible().keys()
        return {each for each in in_queues if self.holders.get(each) in killed}

    def _seen(self, call: Call[Any], given: Answer) -> None:
        if isinstance(call, calls.Put) and call.queue.name in POISON and given.status < 300:
            at = [Place(each.plan.id, each.slot) for each in self.tasks if self._is_now(each)]
            self.copied.update((call.text, place) for place in at)
            self._to_check = True
        if isinstance(call, calls.DatedDelete) and given.status < 300:
            self.gone.add(self.newest[call.lease.message_id])
            self._to_check = True

    def _is_now(self, task: Task) -> bool:
        return task.actor is self.turns.now

    def _updated(self, message_id: str, text: str) -> None:
        """Another program has made a new message of it, which needs a row of its own."""
        before = self.newest[message_id]
        self.taken.add(before)
        name = f"{message_id} updated {len(self.texts)}"
        self.texts[name], self.newest[message_id] = text, name

    def theirs(self) -> set[str]:
        """What is somebody else's affair."""
        return self.taken | {self.newest[each] for each in self.others.deleted}

    def named(self, message_id: str, body: str) -> str:
        """By which name a message with this text, or the body that it stands for, is known."""
        if self.newest.get(message_id, message_id) == message_id:
            return message_id
        versions = [name for name in self.texts if name.startswith(f"{message_id} ")]
        bodies = {text_of: name for name in versions for text_of in texts_of(self.texts[name])}
        return bodies.get(body, message_id)

    def in_queues(self) -> set[str]:
        return {view.id for name in NAMES for view in self.service.views(name)}

    def visible(self) -> dict[str, int]:
        """Ids of visible messages, and how often each was dequeued."""
        return {
            view.id: view.dequeue_count
            for name in NAMES
            for view in self.service.views(name)
            if view.visible
        }

    def floor(self) -> int:
        found = (names.floor_in(name) for name in self.log.objects)
        return max((number for number in found if number), default=0)

    def following(self, plan: PlanId) -> Plan | None:
        data = self.log.objects.get(names.following(plan))
        return None if data is None else Plan.from_json(json.loads(data), account=ACCOUNT)

    def gave_up(self, plan: PlanId) -> bool:
        """The verdict on this plan: it has no rows. It is kept when its objects are cleaned."""
        following = self.following(plan)
        if following is not None and following.gave_up:
            self.given_up.add(plan)
        return plan in self.given_up

    def outcomes(self) -> set[PlanId]:
        """The plans in the folder that were given up."""
        plans = {
            at.plan for at in map(names.as_slot_name, self.log.objects) if at and at.kind == "next"
        }
        return {plan for plan in plans if self.gave_up(plan)}

    def reachable(self, at: Checkpoint) -> set[PlanId]:
        """The plans that this query has, and those that follow."""
        return at.plans() | {plan.id for plan in self._chain(at)}

    def _chain(self, at: Checkpoint) -> list[Plan]:
        """The newest plan that this query has, and those that follow."""
        plans = [at.plan(len(at.offsets) - 1)] if at.offsets else [Plan.start(ACCOUNT)]
        while (following := self.following(plans[-1].id)) is not None:
            plans.append(following)
        return plans

    def waits(self, at: Checkpoint) -> list[Part]:
        """What comes again: in later plans, or in the newest, whose task has not copied it yet."""
        newest = self._chain(at)[-1]
        parts = [part for group in newest.waiting for part in group]
        for number, slot in enumerate(newest.slots):
            stands = self.log.objects.get(names.slot(newest.id, number))
            is_there = (
                stands and not SlotHeader.from_bytes(unframed(SLOT_MAGIC, stands).head).tombstone
            )
            if slot.again and not is_there:
                parts.append(slot.again)
        return [part for part in parts if part.messages]

    def kept_rows(self, at: Checkpoint) -> list[str]:
        """Those of batches that were not given up: what a later plan gives again counts then."""
        return [
            row
            for batch, slots in at.output.items()
            if not self.gave_up(at.wrote[batch])
            for rows in slots.values()
            for row in rows
        ]

    # ── promises ──────────────────────────────────────────────────────────────────────────────────

    def breaks(self, promise: str, error: Exception | None = None) -> None:
        """A promise is broken."""
        raise Broken(promise) from error

    def is_excused(self, error: Exception) -> bool:
        """The error says that the folder has lost something, and it has."""
        return self.is_damaged and isinstance(error, LogDamaged)

    def check(self) -> None:
        """Nothing is lost, and no output has a message twice."""
        if not self._to_check:
            return
        self._to_check = False
        for name, places in self.stood.items():
            both = [place for place in places if (self.texts[name], place) in self.copied]
            if both:
                raise Broken(f"twice: {name} has a row and a copy of {both}")
        rows = [set(at.rows()) for at in self.checkpoints]
        for at in self.checkpoints:
            twice = [each for each, count in Counter(self.kept_rows(at)).items() if count > 1]
            if twice:
                raise Broken(f"twice in {at.name}: {twice}")
        plans = [self.reachable(at) for at in self.checkpoints]
        poison = self.poison_texts()
        for each in self.gone - self.theirs():
            both = list(zip(self.checkpoints, plans, strict=True))
            is_set_aside = self.texts[each] in poison
            stands = any(self.stands(each, at, reachable) for at, reachable in both)
            stands = stands or any(self.comes_again(each, at) for at in self.checkpoints)
            is_read = any(each in mine for mine in rows)
            if not (is_set_aside or stands or is_read):
                raise Broken(f"lost: {each}, which stood in {self.stood.get(each)}")
            if each in self.bad and not self.may_decode and not is_set_aside:
                raise Broken(f"lost: {each} is not in its poison queue")

    def poison_texts(self) -> set[str]:
        return {view.text for name in POISON for view in self.service.views(name)}

    def stands(self, message_id: str, at: Checkpoint, reachable: Iterable[PlanId] = ()) -> bool:
        """It will be given out, by a plan that this query can reach; or a committed batch never
        read its slot: rule 20."""
        for place in self.stood.get(message_id, ()):
            if self.gave_up(place.plan):
                continue
            batch = at.batch_of(place.plan)
            if batch is not None and batch in at.output:
                if place.slot not in at.output[batch] and place not in self.too_late:
                    return True
            elif place.plan in reachable and names.slot(*place) in self.log.objects:
                return True
        return False

    def comes_again(self, message_id: str, at: Checkpoint) -> bool:
        """A plan had it that was given up, and it waits for a later one."""
        stood = self.stood.get(message_id, {})
        return any(
            (part.plan, part.slot) == place and part.first <= number < part.end
            for part in self.waits(at)
            for place, number in stood.items()
        )

    def gives(self, plan: PlanId, slot_number: int, rows: tuple[str, ...]) -> None:
        """A task gives its rows."""
        place = Place(plan, slot_number)
        if self.given.setdefault(place, rows) != rows:
            raise Broken(f"other rows of {place}: {self.given[place]}, {rows}")

    def has_bodies(
        self, plan: PlanId, slot_number: int, rows: dict[str, str | bytes | None]
    ) -> None:
        """And these bodies, whatever the options that decode are by now."""
        if None in rows.values() and not self.was_permissive:
            raise Broken(f"lost: a row of {plan} has no body")
        bodies = {
            row: body.decode() if isinstance(body, bytes) else str(body)
            for row, body in rows.items()
        }
        place = Place(plan, slot_number)
        if self.bodies.setdefault(place, bodies) != bodies:
            raise Broken(f"other rows of {place}: {self.bodies[place]}, {bodies}")

    def writes(
        self, at: Checkpoint, batch: int, plan: PlanId, rows: dict[int, tuple[str, ...]]
    ) -> None:
        if batch not in at.output:
            at.output[batch], at.wrote[batch] = rows, plan
            self._to_check = True

    # ── what may happen ───────────────────────────────────────────────────────────────────────────

    def put(self, queue: int, *, decodes: bool = True, sick: bool = False) -> str:
        number = next(self._numbers)
        text = in_base64(f"m{number}") if decodes else f"!!{number}"
        name = NAMES[queue % len(NAMES)]
        self.service.account.create(name)
        message_id = self.others.send(name, text)
        self.texts[message_id], self.newest[message_id] = text, message_id
        if not decodes:
            self.bad.add(message_id)
        if sick:
            self.sick.add(message_id)
        return message_id

    def start(self, which: int = 0, **how: bool) -> Driver:
        """how: fields of `How` that are others than this world's."""
        at = self.checkpoints[which % len(self.checkpoints)]
        driver = Driver(self, at, len(self.drivers) + 1, self.how._replace(**how))
        self.drivers.append(driver)
        driver.actor = self.turns.spawn(f"driver {driver.number}", driver.run)
        return driver

    def alive(self, at: Checkpoint | None = None) -> list[Driver]:
        return [each for each in self.drivers if not each.actor.is_over and at in (None, each.at)]

    def go(self, actor: Actor, steps: int = 1, fate: str = "") -> None:
        """Let a process run, until it waits for others."""
        for _ in range(steps):
            if actor.is_over:
                return
            self.turns.step(actor, fate)
            fate = ""
            self.check()
            if actor.at in ("wait", "idle"):
                return

    def fates(self, actor: Actor) -> tuple[str, ...]:
        """What may become of the call that this process stops before."""
        word = actor.at.partition(" ")[0]
        if word == "put":
            return tuple(PUTS)
        if word == "ask":
            return tuple(REQUESTS) if not actor.at.endswith("again") else ()
        return CALLS if word in ("get", "list", "delete") else ()

    def kill(self, actor: Actor) -> None:
        """A task is killed, or a driver with all its threads; tasks of a driver go on."""
        for driver in self.drivers:
            if actor in (driver.actor, *driver.threads):
                for each in (driver.actor, *driver.threads):
                    if not each.is_over:
                        self.turns.step(each, KILL)
                return
        self.turns.step(actor, KILL)

    def land(self, which: int) -> None:
        """What got no answer takes effect now, if it still can."""
        self.service.land(which)
        self.check()

    def close(self) -> None:
        self.turns.end()
