"""Worlds in which batches fail, and the real rule of isolation in each: who is moved, and when.

A failed batch costs a restart and the wait of `run_until_done`, a committed one a second. One
process reads one queue, a batch at a time. What outlives a process are the findings, as text.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from refs import ORDERS, ref

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.running.supervisor import Isolating
from spark_azqueue.service.messages import Message
from spark_azqueue.source.batches.poison import Suspects
from spark_azqueue.source.findings import Findings
from spark_azqueue.source.suspects import IsolationRule

RESTART_S, BATCH_S, MOST, PAGE = 4.0, 1.0, 200, 32
GIVEN_UP_AFTER = 20


@dataclass(frozen=True)
class World:
    """Why batches fail. guilty: messages that fail each batch. pairs: those that fail it together.

    flap: the part of batches that fails by chance. down: from when to when the sink is down, in
    seconds. sibling: the part of batches that another source of the query fails, as long as it
    isolates its own.
    """

    name: str
    messages: int
    guilty: int = 0
    pairs: int = 0
    flap: float = 0.0
    down: tuple[tuple[float, float], ...] = ()
    sibling: float = 0.0


WORLDS = {
    each.name: each
    for each in (
        World("blink 10 s, 0", 4000, down=((10, 20),)),
        World("down 60 s, 0", 4000, down=((10, 70),)),
        World("tail down 10 min, 2", 410, 2, down=((60, 660),)),
        World("1 of 1,000", 1000, 1),
        World("20 of 500", 500, 20),
        World("6 of 2,000", 2000, 6),
        World("33 % of 300", 300, 100),
        World("1 of 2", 2, 1),
        World("3 of 30", 30, 3),
        World("3 pairs of 1,000", 1000, pairs=3),
        World("down 10 min, 0", 4000, down=((10, 610),)),
        World("down 1 h, 0", 4000, down=((10, 3610),)),
        World("down 10 min, 3", 2000, 3, down=((60, 660),)),
        World(
            "20 s up, 60 down x20, 2",
            *(6000, 2),
            down=tuple((10 + 80 * n, 70 + 80 * n) for n in range(20)),
        ),
        World(
            "60 s up, 20 down x20, 4",
            *(6000, 4),
            down=tuple((10 + 80 * n, 30 + 80 * n) for n in range(20)),
        ),
        *(World(f"flap {share:.0%}, 0", 10_000, flap=share) for share in (0.2, 0.5, 0.6, 0.8)),
        *(World(f"flap {share:.0%}, 1", 2_000, 1, flap=share) for share in (0.2, 0.5, 0.6, 0.8)),
        World("sibling's poison, 0", 2000, sibling=0.5),
        World("sibling's poison, 3", 2000, 3, sibling=0.5),
    )
}


@dataclass
class Trial:
    """A run in a world until its queue is empty, the query is given up, or no end is seen."""

    world: World
    seed: int
    has_log: bool = True
    most_failures: int = 5
    most_moved: int = 20
    most_batches: int = 6_000
    seconds: float = 0.0
    waited: float = 0.0
    restarts: int = 0
    batches: int = 0
    moved: list[int] = field(default_factory=list)
    ended: str = ""
    left: int = 0

    def __post_init__(self) -> None:
        """Choose who is guilty."""
        self.chance = random.Random(1000 * self.seed + 7)
        ids = range(self.world.messages)
        self.guilty = set(self.chance.sample(ids, self.world.guilty))
        rest = [each for each in ids if each not in self.guilty]
        chosen = self.chance.sample(rest, 2 * self.world.pairs)
        self.pairs = list(zip(chosen[::2], chosen[1::2], strict=True))
        self._isolating, self._in_a_row, self._has_committed = Isolating(), 0, False

    @property
    def innocents(self) -> int:
        """How many messages were moved that fail no batch."""
        return len({*self.moved} - self.guilty)

    def run(self) -> Trial:
        """Run it."""
        rule = IsolationRule(self.most_failures, self.most_moved, "orders")
        queue = {n: Message(ORDERS, str(n), "", 0, 0, 1) for n in range(self.world.messages)}
        findings, number, status = Findings(), 0, ""
        again: list[Message] = []
        attempts, is_compared = 0, False
        while queue and self.batches < self.most_batches and not self.ended:
            suspects = Suspects(rule)
            suspects.restore(Findings.from_json(findings.to_json(), ORDERS.account))
            leased = {each.message_id for each in again}
            to_come = iter([each for each in queue.values() if each.message_id not in leased])
            waiting: list[Message] = []
            while queue and self.batches < self.most_batches:
                if again:
                    batch, again = again, []
                else:
                    status = suspects.status
                    self._dequeue(suspects, to_come, waiting)
                    batch = suspects.choose(waiting, MOST)
                    number, attempts = number + 1, 0
                    is_compared = suspects.are_compared(batch)
                    chosen = {each.message_id for each in batch}
                    waiting = [each for each in waiting if each.message_id not in chosen]
                ids = [int(each.message_id) for each in batch]
                keys = [each.key for each in batch]
                self.batches += 1
                if not self._fails(ids):
                    suspects.batch_committed(number, keys, attempts)
                    for each in ids:
                        del queue[each]
                    self.seconds += BATCH_S
                    self._has_committed = True
                    continue
                attempts += 1
                try:
                    if self.has_log and not suspects.is_cut(attempts, is_compared=is_compared):
                        again = batch
                    else:
                        suspects.batch_failed(number, keys, times=attempts if self.has_log else 1)
                        if len(keys) == 1 and suspects.is_poison(keys[0]):
                            suspects.moved(keys[0])
                            self.moved.append(ids[0])
                            del queue[ids[0]]
                except TooManyPoison as error:
                    self.ended = error.sentence
                findings = suspects.findings
                self._restart(status)
                status = suspects.status
                break
        self.left = len(queue)
        return self

    def _dequeue(
        self, suspects: Suspects, to_come: Iterator[Message], waiting: list[Message]
    ) -> None:
        while suspects.room(waiting, MOST) > 0:
            page = [each for _, each in zip(range(PAGE), to_come, strict=False)]
            if not page:
                return
            waiting += page

    def _restart(self, status: str) -> None:
        progress = self._isolating.advances(status, self._has_committed) or self._has_committed
        self._in_a_row = 1 if progress else self._in_a_row + 1
        if self._isolating.may_restart_at_once:
            self._in_a_row = 0
        wait = min(60.0, 2.0 ** (self._in_a_row - 1)) if self._in_a_row else 0.0
        self._has_committed = False
        if self._in_a_row > GIVEN_UP_AFTER:
            self._in_a_row = 1  # the query is given up, and started again by somebody
        self.seconds += RESTART_S + wait
        self.waited += wait
        self.restarts += 1

    def _fails(self, ids: list[int]) -> bool:
        members = {*ids}
        if members & self.guilty or any(members >= {*pair} for pair in self.pairs):
            return True
        world = self.world
        return (
            any(first <= self.seconds < last for first, last in world.down)
            or self.chance.random() < world.flap
            or (bool(world.sibling) and self.batches < 400 and self.chance.random() < world.sibling)
        )


class _Source:
    """One of two sources of a query."""

    def __init__(self, name: str, messages: int, guilty: set[int]) -> None:
        self.queue_ref, self.rule = ref(name), IsolationRule(5, 20, name)
        self.queue = {n: Message(self.queue_ref, str(n), "", 0, 0, 1) for n in range(messages)}
        self.guilty, self.findings, self.number = guilty, Findings(), 0
        self.moved: set[int] = set()
        self.batch: list[Message] = []

    def start(self) -> None:
        """A new process."""
        self.suspects = Suspects(self.rule)
        account = self.queue_ref.account
        self.suspects.restore(Findings.from_json(self.findings.to_json(), account))
        self.to_come, self.waiting = iter([*self.queue.values()]), []  # type: ignore[var-annotated]

    def take(self) -> None:
        """Choose the next batch; an empty one if there are no messages."""
        while self.suspects.room(self.waiting, MOST) > 0:
            page = [each for _, each in zip(range(PAGE), self.to_come, strict=False)]
            if not page:
                break
            self.waiting += page
        self.batch = self.suspects.choose(self.waiting, MOST) if self.waiting else []
        self.number += bool(self.batch)
        self.waiting = [each for each in self.waiting if each not in self.batch]

    def ends(self, *, failed: bool) -> None:
        """The query's batch was committed, or failed."""
        keys, ids = [each.key for each in self.batch], [int(e.message_id) for e in self.batch]
        if not failed:
            self.suspects.batch_committed(self.number, keys)
            gone = ids
        else:
            self.suspects.batch_failed(self.number, keys)
            is_poison = len(keys) == 1 and self.suspects.is_poison(keys[0])
            gone = ids if is_poison else []
            self.moved |= {*gone}
            if is_poison:
                self.suspects.moved(keys[0])
            self.findings = self.suspects.findings
        for each in gone:
            del self.queue[each]


class TwoSources:
    """A query with two sources without a log, of which one has a guilty message."""

    def __init__(self, good: int, bad: int, seed: int) -> None:
        """good, bad: how many messages each has."""
        guilty = random.Random(seed).randrange(bad)
        self.sources = _Source("orders", good, set()), _Source("returns", bad, {guilty})

    @property
    def innocents(self) -> int:
        """How many messages were moved that fail no batch."""
        return sum(len(each.moved - each.guilty) for each in self.sources)

    @property
    def found(self) -> bool:
        """True if the guilty one was moved."""
        return all(each.guilty <= each.moved for each in self.sources)

    def run(self) -> TwoSources:
        """Run until both queues are empty."""
        while any(each.queue for each in self.sources):
            for each in self.sources:
                each.start()
            failed = False
            while not failed and any(each.queue for each in self.sources):
                for each in self.sources:
                    each.take()
                failed = any(
                    int(message.message_id) in each.guilty
                    for each in self.sources
                    for message in each.batch
                )
                for each in self.sources:
                    if each.batch:
                        each.ends(failed=failed)
        return self
