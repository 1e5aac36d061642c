"""Walks through the world of `executors.py`: one move after another, then calm, in which all ends.

A move is a name and two numbers, and every move fits every state. So a walk that breaks a promise
can be cut down to the moves that it takes.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest
from executors import MOST_WAITING, World
from executors_setting import CHOICES, LEASE_S, NAMES, RETENTION, Broken
from executors_spark import Checkpoint, Driver, How
from world.disturbances import ALL, DISTURBANCES, LOSES
from world.turns import Actor

_ENDS_AFTER = 20_000
_LANDS_EVERY = 7
_MOST_STARTS = 40
_OF_A_SICK_ONE = 60  # if little else is committed, chance explains some 40 failures
_QUIET = 20
_STEPS = (1, 1, 2, 4, 8, 16, 40)
_SECONDS = (0.5, 1, 3, 10, LEASE_S + 1)
_NEEDS = (frozenset[int](), frozenset({0}), frozenset({1}))


class Move(NamedTuple):
    """One of MOVES, with numbers that say of whom and what."""

    name: str
    who: int
    what: int


def _go(world: World, who: int, what: int) -> None:
    if alive := world.turns.alive:
        world.go(alive[who % len(alive)], _STEPS[what % len(_STEPS)])


def _fate(world: World, who: int, what: int) -> None:
    if alive := world.turns.alive:
        actor = alive[who % len(alive)]
        if fates := world.fates(actor):
            world.go(actor, 1, fates[what % len(fates)])


def _kill(world: World, who: int, what: int) -> None:
    if alive := world.turns.alive:
        world.kill(alive[who % len(alive)])


def _start(world: World, who: int, what: int) -> None:
    if len(world.alive()) >= 3:
        return
    ends, kills = what % 5 == 0, what % 2 == 0
    if not world.how.bare:
        world.start(who, available_now=ends, kills=kills)
    elif what % 7 == 0:  # Spark was upgraded
        world.start(who, bare=False, available_now=ends, kills=kills, early=what % 3 == 0)
    else:
        is_wrapped = what % 11 == 0
        early = what % 3 == 0 and not is_wrapped
        world.start(who, once=ends, kills=kills, wrapper=is_wrapped, early=early)


def _others(world: World, who: int, what: int) -> None:
    world.others_have_data = 1


def _tick(world: World, who: int, what: int) -> None:
    world.service.clock.advance(_SECONDS[what % len(_SECONDS)])


def _put(world: World, who: int, what: int) -> None:
    if len(world.in_queues()) < MOST_WAITING:
        world.put(who, decodes=what % 7 != 0, sick=what % 11 == 0)


def _speculate(world: World, who: int, what: int) -> None:
    if alive := world.alive():
        alive[who % len(alive)].run_again(what % 2, is_repeated=what % 4 < 2)


def _roll_back(world: World, who: int, what: int) -> None:
    world.roll_back(who % (RETENTION + 1), with_output=what % 2 == 0, keeps_offset=what % 4 < 2)


def _choose(world: World, who: int, what: int) -> None:
    """The user stops a query, and starts it with other options that decode."""
    if alive := world.alive():
        world.kill(alive[who % len(alive)].actor)
    world.choose(list(CHOICES)[what % len(CHOICES)])
    world.start(who)


MOVES: dict[str, tuple[float, Callable[[World, int, int], object]]] = {
    "go": (30, _go),
    "fate": (3, _fate),
    "kill": (2.5, _kill),
    "start": (2, _start),
    "tick": (4, _tick),
    "put": (3, _put),
    "speculate": (3, _speculate),
    "need": (0.7, lambda world, who, _: world.needs.append(_NEEDS[who % 3])),
    "roll back": (0.4, _roll_back),
    "copy": (0.2, lambda world, *_: world.copy()),
    "queue goes": (0.5, lambda world, *_: world.queue_goes()),
    "choose": (0.5, _choose),
    "others have data": (0.5, _others),
} | {name: (each.weight, each.happens) for name, each in DISTURBANCES.items() if name != LOSES}
"""How often each is made, and what it does."""

LOSING = MOVES | {LOSES: (1.0, DISTURBANCES[LOSES].happens)}
"""The same in a folder that loses objects (`Damaged`)."""


class Damaged(World):
    """A world whose folder loses objects, for good. Of rows nothing is promised any more: but each
    query comes to rest, or ends with an error of this project."""

    def __init__(self, patch: pytest.MonkeyPatch, how: How | None = None) -> None:
        super().__init__(patch, how)
        self.is_damaged = True

    def check(self) -> None: ...

    def gives(self, *_: object) -> None: ...

    def has_bodies(self, *_: object) -> None: ...

    def breaks(self, *_: object) -> None: ...

    def is_excused(self, error: Exception) -> bool:
        return True

    def loses(self, who: int, what: int) -> None:
        if names := sorted(self.log.objects):
            self.log.remove(names[who % len(names)])


def moves_of(seed: int, count: int, without: Iterable[str] = ()) -> list[Move]:
    """So many moves by chance."""
    chance = random.Random(seed)
    names = [name for name in MOVES if name not in without]
    chosen = chance.choices(names, [MOVES[name][0] for name in names], k=count)
    return [Move(name, chance.randrange(ALL), chance.randrange(ALL)) for name in chosen]


def play(world: World, moves: Iterable[Move]) -> None:
    """Two messages in each queue, and a query; then these moves. Raises Broken."""
    for number in range(2 * len(NAMES)):
        world.put(number // 2, decodes=number != 3)
    world.start()
    for name, who, what in moves:
        MOVES[name][1](world, who, what)


def calm(world: World) -> None:
    """Nothing fails any more: each query goes on until its queues are empty. Then each message
    has its row, or an error has told of what is missing."""
    world.needs.clear()
    world.others.go_home()
    world.service.end_faults()
    for store in world.stores():
        store.faults.clear()
    world.choose("poison")
    for driver in world.alive():
        if driver.config is not world.config or driver.how.early:
            world.kill(driver.actor)
    for at in world.checkpoints:
        _drain(world, at)
    for at in world.checkpoints:
        if not at.told:
            _is_whole(world, at)
    if not world.is_damaged:
        _is_somewhere(world)


def _drain(world: World, at: Checkpoint) -> None:
    starts = quiet = 0
    for turn in range(_ENDS_AFTER):
        if world.service.is_late and turn % _LANDS_EVERY == 0:
            world.land(0)
        if not world.alive(at):
            if at.told:
                return
            starts += 1
            if starts > _MOST_STARTS + _OF_A_SICK_ONE * len(world.sick):
                raise Broken(f"{at.name} does not go on: {world.drivers[-1].error}")
            if world.sick and starts % 3 == 0:
                world.put(0)  # if only sick ones were left, it might be the sink
            world.start(world.checkpoints.index(at))
        drivers = world.alive(at)
        for actor in [each for each in world.turns.alive if _is_meant(world, each, drivers)]:
            world.go(actor)
        if turn % 5 == 0:
            world.service.clock.advance(1)
        quiet = quiet + 1 if _is_done(world, at) else 0
        if quiet == _QUIET:
            if world.reachable(at) == at.plans() and len(at.offsets) == at.commits:
                return
            for driver in world.alive(at):  # what others planned an idle query sees when it
                world.kill(driver.actor)  # starts again, or has messages for a plan itself
    where = [(each.name, each.at) for each in world.turns.alive]
    raise Broken(f"{at.name} does not end: {world.in_queues()}, {where}")


def _is_meant(world: World, actor: Actor, drivers: list[Driver]) -> bool:
    """Tasks, and the drivers of this query."""
    others = [each for each in world.drivers if each not in drivers]
    return not any(actor in (each.actor, *each.threads) for each in others)


def _is_done(world: World, at: Checkpoint) -> bool:
    drivers = world.alive(at)
    threads = [thread for each in world.drivers for thread in each.threads]
    working = [
        each
        for each in world.turns.alive
        if each not in threads and all(each is not driver.actor for driver in world.drivers)
    ]
    left = world.service.is_late or world.in_queues() or world.waits(at)
    return bool(drivers) and not (working or left)


def _is_whole(world: World, at: Checkpoint) -> None:
    """Each message of a batch of this query has one row, unless nobody read its slot."""
    rows = Counter(world.kept_rows(at))
    for message_id, places in world.stood.items():
        for place in places:
            batch = at.batch_of(place.plan)
            if batch is None or batch < at.first:
                continue
            # A put without an answer may land when its plan is closed and cleaned: it has no rows.
            if world.gave_up(place.plan) or place in world.too_late:
                continue
            if place.slot not in at.output[batch]:
                continue
            if rows[message_id] != 1:
                world.breaks(f"{at.name}: {message_id} of {place} has {rows[message_id]} rows")


def _is_somewhere(world: World) -> None:
    """Each message that nobody took has its row in an output, or a copy in its poison queue."""
    poison = world.poison_texts()
    left = world.in_queues()
    if left and not all(at.told for at in world.checkpoints):
        raise Broken(f"not read: {left}")
    # A query that was told of lost batches does not go on: what follows stays in the log.
    plans = [world.reachable(at) if at.told else set() for at in world.checkpoints]
    left = {world.newest[each] for each in left}
    for message_id, text in world.texts.items():
        if message_id in world.theirs() or message_id in left:
            continue
        both = zip(world.checkpoints, plans, strict=True)
        stands = any(world.stands(message_id, *one) for one in both)
        stands = stands or any(
            at.told and world.comes_again(message_id, at) for at in world.checkpoints
        )
        if message_id in world.bad and not world.may_decode:
            if text not in poison:
                raise Broken(f"{message_id} is not in its poison queue")
        elif not (
            text in poison or stands or any(message_id in at.rows() for at in world.checkpoints)
        ):
            raise Broken(f"no row of {message_id}, which stood in {world.stood.get(message_id)}")
