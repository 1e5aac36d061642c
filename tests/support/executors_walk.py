"""Walks through the world of `executors.py`: moves by chance, then calm, in which all has to end."""

from __future__ import annotations

import random
from collections import Counter

from executors import LEASE_S, NAMES, RETENTION, Broken, Checkpoint, Driver, World
from turns import Actor

_ENDS_AFTER = 20_000
_LANDS_EVERY = 7


class Walk:
    """One move after another, chosen by a seed."""

    def __init__(self, world: World, seed: int, *, without: frozenset[str] = frozenset()) -> None:
        """without: names of moves that are left out."""
        self.world = world
        self._chance = random.Random(seed)
        moves = {
            "go": 30,
            "fate": 3,
            "kill": 2.5,
            "start": 2,
            "tick": 4,
            "put": 3,
            "steal": 2,
            "thief_ends": 2,
            "speculate": 3,
            "need": 0.7,
            "roll_back": 0.4,
            "copy": 0.2,
            "land": 1.5,
            "skew": 0.5,
        }
        self._moves = {name: weight for name, weight in moves.items() if name not in without}

    def begin(self) -> None:
        for queue in range(len(NAMES)):
            self.world.put(queue)
            self.world.put(queue, decodes=self._chance.random() < 0.8)
        self.world.start()

    def run(self, moves: int) -> None:
        self.begin()
        names, weights = list(self._moves), list(self._moves.values())
        for name in self._chance.choices(names, weights, k=moves):
            getattr(self, name)()

    def _actor(self) -> Actor | None:
        alive = self.world.turns.alive
        return self._chance.choice(alive) if alive else None

    def go(self) -> None:
        if actor := self._actor():
            self.world.go(actor, self._chance.choice((1, 2, 4, 8, 16, 40)))

    def fate(self) -> None:
        if (actor := self._actor()) and (fates := self.world.fates(actor)):
            self.world.go(actor, 1, self._chance.choice(fates))

    def kill(self) -> None:
        if actor := self._actor():
            self.world.kill(actor)

    def start(self) -> None:
        which = self._chance.randrange(len(self.world.checkpoints))
        if len(self.world.alive()) < 3:
            self.world.start(which, available_now=self._chance.random() < 0.2)

    def tick(self) -> None:
        seconds = self._chance.choice((0.5, 1, 3, 10, LEASE_S + 1))
        self.world.queues.clock.advance(seconds)

    def put(self) -> None:
        if len(self.world.in_queues()) < 8:
            self.world.put(self._chance.randrange(3), decodes=self._chance.random() < 0.85)

    def steal(self) -> None:
        self.world.steal(self._chance.randrange(3))

    def thief_ends(self) -> None:
        self.world.thief_ends(
            self._chance.randrange(8), self._chance.choice(("deletes", "returns", "forgets"))
        )

    def speculate(self) -> None:
        if alive := self.world.alive():
            self._chance.choice(alive).run_again(
                self._chance.randrange(2), is_repeated=self._chance.random() < 0.5
            )

    def need(self) -> None:
        self.world.needs.append(frozenset(self._chance.choice(((), (0,), (1,)))))

    def roll_back(self) -> None:
        self.world.roll_back(
            self._chance.randint(0, RETENTION),
            with_output=self._chance.random() < 0.5,
            keeps_offset=self._chance.random() < 0.5,
        )

    def copy(self) -> None:
        self.world.copy()

    def land(self) -> None:
        self.world.land(self._chance.randrange(8))

    def skew(self) -> None:
        self.world.queues.skew_s = self._chance.randint(-4, 4)


def calm(world: World) -> None:
    """Nothing fails any more: each query goes on until its queues are empty. Then each message
    has its row, or an error has told of what is missing."""
    world.needs.clear()
    world.thefts.clear()
    for at in world.checkpoints:
        _drain(world, at)
    for at in world.checkpoints:
        if not at.told:
            _is_whole(world, at)
    _is_somewhere(world)


def _drain(world: World, at: Checkpoint) -> None:
    starts = 0
    for turn in range(_ENDS_AFTER):
        if world.late and turn % _LANDS_EVERY == 0:
            world.land(0)
        if not world.alive(at):
            if at.told:
                return
            starts += 1
            if starts > 40:
                raise Broken(f"{at.name} does not go on: {world.drivers[-1].error}")
            world.start(world.checkpoints.index(at))
        drivers = world.alive(at)
        for actor in [each for each in world.turns.alive if _is_meant(world, each, drivers)]:
            world.go(actor)
        if all(each.actor.at == "idle" for each in world.alive(at)):
            if _is_done(world, at):
                return
            world.queues.clock.advance(5)
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
    return bool(drivers) and not (
        working
        or world.late
        or world.in_queues()
        or at.commits < len(at.offsets)
        or len(world.reachable(at)) > len(at.offsets)
    )


def _is_whole(world: World, at: Checkpoint) -> None:
    """Each message of a batch of this query has one row, unless nobody read its slot."""
    rows = Counter(at.rows())
    for message_id, places in world.stood.items():
        for place in places:
            batch = place.plan.number - 1
            if batch < at.first or batch >= len(at.offsets) or message_id in world.bad:
                continue
            if at.plan(batch).id != place.plan or place.slot not in at.output[batch]:
                continue
            if rows[message_id] != 1:
                raise Broken(f"{at.name}: {message_id} of {place} has {rows[message_id]} rows")


def _is_somewhere(world: World) -> None:
    """Each message that nobody took has its row in an output, or a copy in its poison queue."""
    poison = world.poison_texts()
    untold = [at for at in world.checkpoints if not at.told]
    if not untold:
        raise Broken("every query was told of a loss")
    if left := world.in_queues():
        raise Broken(f"not read: {left}")
    for message_id, text in world.texts.items():
        if message_id in world.taken:
            continue
        if message_id in world.bad:
            if text not in poison:
                raise Broken(f"{message_id} is not in its poison queue")
        elif not any(
            message_id in at.rows() or world.stands(message_id, at) for at in world.checkpoints
        ):
            raise Broken(f"no row of {message_id}, which stood in {world.stood.get(message_id)}")
