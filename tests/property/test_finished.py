"""When `drain` says that it has finished, nothing of the call is left.

In random worlds of a service without order, runs of both lines of Spark, senders, other consumers
and kills. And each rule is needed.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from spark_azqueue.running.finished import (
    Again,
    Enough,
    Finish,
    QueueSeen,
    RunSeen,
    Step,
    Took,
    Unfinished,
    Wait,
)

LEASE_S = 60.0
RENEWED_S = 300.0
PAGE = 32
WORLDS = 100 * int(os.environ.get("AZQUEUE_EXAMPLES", "6"))


@dataclass
class Message:
    inserted: float
    queue: str
    visible: float
    id: str
    receipt: int = 0
    is_read: bool = False
    is_deleted: bool = False
    is_theirs: bool = False
    was_seen: bool = False  # it could be read at some time since the call
    by: str = ""  # who leases it


@dataclass
class World:
    """A queue or two, and everything that happens to them. Times in seconds."""

    chance: random.Random
    one_batch: bool  # Spark 4.0 or 4.1
    executors: bool
    leaves: bool  # deleteOnCommit=false, with retries by `settle`
    strict: bool
    busy: int  # at most so many messages arrive with each step
    other: bool  # another consumer, that may die
    comes_last: bool  # what comes back is behind what arrived meanwhile
    now: float = 1_000.0
    messages: list[Message] = field(default_factory=list)
    pending: list[tuple[Message, int]] = field(default_factory=list)  # deleted by the next run
    logged: list[Message] = field(default_factory=list)  # deleted, and not read yet
    unfinished: list[tuple[Message, int]] = field(default_factory=list)  # repeated by the next run
    before: tuple[Took, bool] = (Took.OLDER, False)  # what the last plan of tasks took, and hides
    began: float = 0.0
    may_hide: bool = False  # so does a run that failed
    lost_until: float = 0.0  # what a killed task had leased is back by then
    is_long: bool = False  # leases of the last run may have been renewed
    put_so_far: int = 0
    names: tuple[str, ...] = ("one",)

    @classmethod
    def of(cls, seed: int) -> World:
        chance = random.Random(seed)
        world = cls(
            chance,
            one_batch=chance.random() < 0.5,
            executors=chance.random() < 0.3,
            leaves=False,
            strict=chance.random() < 0.3,
            busy=chance.choice([0] * 7 + [3, 3, 20]),
            other=chance.random() < 0.2,
            comes_last=chance.random() < 0.5,
        )
        world.leaves = not world.executors and chance.random() < 0.15
        if world.strict or chance.random() < 0.3:
            world.names = ("one", "two")
        for _ in range(chance.randint(0, 60)):
            world.put(chance.choice(world.names), delay=chance.choice([0, 0, 0, 0, 30, 500]))
        if chance.random() < 0.3:  # a run that died before the call
            for each in world.messages:
                if chance.random() < 0.3:
                    each.visible = world.now + chance.uniform(0, LEASE_S)
                    each.by = "before"
        return world

    def put(self, queue: str, delay: float = 0.0) -> None:
        self.put_so_far += 1
        self.messages.append(Message(self.now, queue, self.now + delay, f"m{self.put_so_far}"))

    def there(self, queue: str = "") -> list[Message]:
        self.messages = [m for m in self.messages if not m.is_deleted]
        return [m for m in self.messages if queue in ("", m.queue)]

    def can_be_read(self, queue: str) -> list[Message]:
        found = [m for m in self.there(queue) if m.visible <= self.now]
        if self.chance.random() < 0.7:
            return sorted(found, key=lambda m: m.visible if self.comes_last else m.inserted)
        self.chance.shuffle(found)  # the service promises no order
        return found

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for message in self.there():
            message.was_seen |= message.visible <= self.now
        if self.busy and self.put_so_far < 600:
            for _ in range(self.chance.randint(0, self.busy)):
                self.put("one")
        if self.other and self.chance.random() < 0.2 and (found := self.can_be_read("one")):
            message = self.chance.choice(found)
            message.visible = self.now + self.chance.choice([5, 30, 400])
            message.receipt += 1
            message.by = "other"
            if self.chance.random() < 0.7:  # else it dies
                message.is_deleted = message.is_theirs = True

    # ── the query ─────────────────────────────────────────────────────────────────────────────────

    def dequeue(self, count: int) -> list[Message]:
        found: list[Message] = []
        queues = [*self.names]
        if not self.strict:
            self.chance.shuffle(queues)
        for queue in queues:
            there = self.can_be_read(queue)
            if not self.one_batch:  # it reads what was there when it began
                there = [m for m in there if int(m.inserted) <= int(self.began)]
            found += there[: count - len(found)]
        for message in found:
            message.visible = self.now + LEASE_S
            message.receipt += 1
            message.by = "us"
        return found

    def settle(self) -> None:
        for message, receipt in self.pending:
            message.is_deleted |= message.receipt == receipt and not self.leaves
        self.pending = []

    def run(self, call: Callable[[], float]) -> tuple[RunSeen | None, list[list[str]]]:
        """A run, and the ids of each batch that it committed; None if it failed."""
        chance, self.began = self.chance, self.now
        self.is_long = False
        batches: list[list[Message]] = []
        hides, self.may_hide = self.may_hide, False
        loses_task = False

        def ended(took: Took | None = None) -> tuple[RunSeen, list[list[str]]]:
            kinds = [self.took(each, call()) for each in batches]
            for kind in (Took.OLDER, Took.NEWER, Took.NO_ROWS):
                if took is None and kind in kinds:
                    took = kind
            read = sum(map(len, batches))
            seen = RunSeen(took or Took.UNKNOWN, self.began, self.now, self.one_batch, hides, read)
            return seen, [[m.id for m in each] for each in batches]

        def died() -> tuple[None, list[list[str]]]:
            self.may_hide |= hides
            return None, ended()[1]

        self.settle()
        if self.unfinished:  # without a log a repeated batch gives no rows
            for message, receipt in self.unfinished:
                if message.receipt == receipt:
                    message.visible = self.now
            self.unfinished = []
            batches.append([])
            hides = True
            if self.one_batch:
                run, ids = ended()
                return run._replace(is_repeated=True), ids
        if self.logged:  # the batch of before is repeated, and on an old Spark that is all
            for message in self.logged:
                message.is_read = True
            batches.append(self.logged)
            self.logged = []
            if self.one_batch:
                return ended()
        while True:
            count = chance.choice([8, 32])
            if not self.executors and chance.random() < 0.03:  # its answer is lost
                hides |= bool(self.dequeue(chance.choice([2, 8])))
            batch = self.dequeue(count)
            self.pass_time(1)
            fate = chance.random()
            if fate < 0.10:  # killed between its dequeue and Spark's write of the offset
                if batches and not self.executors:  # which had made its leases longer
                    for message in batch:
                        message.visible += chance.choice([0, 80, RENEWED_S - LEASE_S])
                return died()
            if fate < 0.13:  # stopped from outside: it releases what is in no offset
                # Else it was killed, too, or could not. (Where all stays hidden, nothing tells.)
                if chance.random() < 0.7 or (self.leaves and batches):
                    for message in batch:
                        message.visible = self.now
                return ended() if batches else ended(Took.UNKNOWN)
            if not batch and self.lost_until > self.now:  # the source waits for it, or the next run
                self.pass_time(self.lost_until - self.now)
                continue
            if not batch:
                return ended() if batches else ended(Took.NOTHING)
            if not self.executors:
                self.unfinished = [(m, m.receipt) for m in batch]
            elif loses_task := chance.random() < 0.15:  # a task is killed, and tried again
                batch = batch[len(batch) // 2 :]
                if not self.one_batch:
                    hides, self.lost_until = True, self.now + LEASE_S
            if self.executors:
                for message in batch:
                    message.is_deleted = True
                self.logged = batch
            slow = chance.random() < 0.15
            self.is_long |= slow and not self.executors
            self.pass_time(40 if slow else 2)
            if slow and not self.executors:  # renewed: the receipts in the checkpoint are dead
                for message in batch:
                    message.receipt += 1
                    message.visible = self.now + self.chance.choice([LEASE_S, RENEWED_S])
                hides |= self.one_batch and self.took(batch, call()) is Took.OLDER
            fate = chance.random()
            if fate < 0.08:  # its messages stay leased
                return died()
            # A plan that is stopped behind another is in the log alone, and drain does not see it.
            if fate < 0.16 and not (self.executors and batches):  # stopped from outside
                return ended() if batches else ended(Took.UNKNOWN)
            self.logged = []
            self.unfinished = []
            for message in batch:
                message.is_read = True
                if self.leaves and chance.random() < 0.3:  # `settle` puts it off
                    message.visible = self.now + chance.choice([1, 10, 300])
            batches.append(batch)
            receipts = [(m, m.receipt - (1 if slow and not self.executors else 0)) for m in batch]
            if self.one_batch and self.executors:  # it is known with the next plan
                took, hides = self.before
                self.before = (self.took(batch, call()), loses_task)
                return ended(took)
            if self.one_batch:
                self.pending = receipts
                return ended()
            if fate < 0.18:  # killed before it has deleted them: the checkpoint has their receipts
                self.pending = receipts
                return died()
            if fate < 0.21:  # stopped from outside before that
                self.pending = receipts
                return ended()
            self.pending = [(m, m.receipt) for m in batch]
            self.settle()

    def took(self, batch: list[Message], call: float) -> Took:
        if not batch:
            return Took.NO_ROWS
        is_newer = all(int(message.inserted) > int(call) for message in batch)
        return Took.NEWER if is_newer else Took.OLDER

    def look(self, call: float) -> list[QueueSeen]:
        seen = []
        before = ""
        for queue in self.names:
            first = self.can_be_read(queue)[:PAGE]
            older = frozenset(m.id for m in first if int(m.inserted) <= int(call))
            seen.append(
                QueueSeen(
                    queue, len(self.there(queue)), len(first), len(first) < PAGE, older, before
                )
            )
            before = queue if self.strict else ""
        return seen


def drained(world: World, finish_of: type[Finish] = Finish, patience_s: float = 1e9) -> Step:
    """As `drain` runs a query."""
    call = world.now
    for message in world.there():
        message.was_seen = message.visible <= call
    finish = finish_of(
        world.look(call),
        world.now,
        lease_s=LEASE_S,
        longest_s=RENEWED_S,
        patience_s=patience_s,
        deletes_early=world.executors,
        leaves=world.leaves,
    )
    step: Step = Again()
    for _ in range(3_000):
        if not isinstance(step, Again):
            break
        run, batches = world.run(lambda: call + finish.back_after(world.now))
        if world.leaves:
            news = [finish.delivered(ids) for ids in batches]
            if run and run.took is Took.OLDER and not any(news):
                run = run._replace(took=Took.NEWER)
        finish.leases_for(LEASE_S, renewed=world.is_long)
        if run is None:
            finish.failed(world.now)
        else:
            step = finish.after(run, world.look(call))
        while isinstance(step, Wait):
            world.pass_time(step.seconds)
            step = finish.waited(world.look(call), world.now)
        if isinstance(step, Again):
            world.pass_time(1)
    return step


def left(world: World, call: float) -> list[Message]:
    """What was there at the call, could be read, and is not dealt with."""
    return [
        message
        for message in [*world.there(), *world.logged]
        if message.inserted < int(call) + 1
        and not message.is_theirs
        and not (message.by == "other" and message.visible > world.now)
        and (message.was_seen or (message.by == "before" and not world.leaves))
        and not (world.leaves and message.is_read)
    ]


def says(seed: int, finish_of: type[Finish] = Finish) -> tuple[Step, bool]:
    """How the drain of this world ends, and whether it says falsely that it has finished."""
    world = World.of(seed)
    call = world.now
    step = drained(world, finish_of)
    return step, isinstance(step, Enough) and bool(left(world, call))


def test_what_it_says_is_so() -> None:
    steps = [says(seed) for seed in range(WORLDS)]

    assert [seed for seed, (_, is_false) in enumerate(steps) if is_false] == []
    assert not any(isinstance(step, Again) for step, _ in steps), "each one ends"
    assert sum(isinstance(step, Enough) for step, _ in steps) > 0.85 * WORLDS


class WithoutALease(Finish):
    """A run may have hidden messages, and nothing waits for them."""

    def failed(self, at: float) -> None:
        super().failed(at)
        self._left_at = -math.inf

    def after(self, run: RunSeen, queues: list[QueueSeen]) -> Step:
        return super().after(run._replace(began=1e12, hides=False), queues)


class AsIfNoneWereRenewed(Finish):
    """A lease is as long as it was at the dequeue."""

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **{**named, "longest_s": LEASE_S})  # type: ignore[arg-type]


class NothingComesLast(Finish):
    """What was hidden is in front of what arrived meanwhile."""

    def back_after(self, now: float) -> float:
        return 0.0


class WithoutTheHead(Finish):
    """What is visible and older than the call means nothing."""

    def _older_of(self, queues: object) -> frozenset[str]:
        return frozenset()


class WithoutOneMoreRun(Finish):
    """A run that took something is the end."""

    def _over(self, run: object, queues: object) -> str | None:
        return ""


class OneNewerRun(Finish):
    """One run that took only newer messages is the end."""

    def _over(self, run: RunSeen, queues: list[QueueSeen]) -> str | None:
        return "" if run.took is Took.NEWER else super()._over(run, queues)


class BelievesAnEmptyQueue(Finish):
    """Also if messages are deleted before their batch is committed."""

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **{**named, "deletes_early": False})  # type: ignore[arg-type]


class NothingOfBefore(Finish):
    """Leases of a run that died before the call are nobody's."""

    def __init__(self, *arguments: object, **named: object) -> None:
        super().__init__(*arguments, **named)  # type: ignore[arg-type]
        self._before_at = -math.inf


class RunsThatSayNothing(Finish):
    """A run without progress hides nothing."""

    def after(self, run: RunSeen, queues: list[QueueSeen]) -> Step:
        left_at = self._left_at
        step = super().after(run, queues)
        if run.took is Took.UNKNOWN:
            self._left_at = left_at
        return step


class FailedRunsLeaseAsAtFirst(Finish):
    """What a run that failed had leased is back after the lease of a first batch."""

    def failed(self, at: float) -> None:
        left_at = self._left_at
        super().failed(at)
        self._before_at, self._left_at = at, left_at


class StoppedRunsRelease(Finish):
    """A run without an error has released what it had leased."""

    def after(self, run: RunSeen, queues: list[QueueSeen]) -> Step:
        self._others = sum(each.messages for each in queues)
        return super().after(run, queues)


class StoppedRunsHaveDeleted(Finish):
    """What such a run leaves hidden was not renewed."""

    def leases_for(self, seconds: float, *, renewed: bool = False) -> None:
        super().leases_for(seconds)


class RunsHideNothing(Finish):
    """No run has seen renewed leases, killed tasks, or a dequeue without an answer."""

    def after(self, run: RunSeen, queues: list[QueueSeen]) -> Step:
        return super().after(run._replace(hides=False), queues)


@pytest.mark.parametrize(
    ("rule", "seed"),
    [
        (StoppedRunsRelease, 493),
        (StoppedRunsHaveDeleted, 2057),
        (FailedRunsLeaseAsAtFirst, 468),
        (RunsHideNothing, 61),
        (WithoutALease, 3),
        (AsIfNoneWereRenewed, 0),
        (NothingComesLast, 422),
        (WithoutTheHead, 0),
        (WithoutOneMoreRun, 1),
        (BelievesAnEmptyQueue, 624),
        (NothingOfBefore, 371),
        (OneNewerRun, 175),
        (RunsThatSayNothing, 451),
    ],
)
def test_each_rule_is_needed(rule: type[Finish], seed: int) -> None:
    """The search begins at the seed that it found last: some rules take thousands of worlds."""
    assert any(says(each, rule)[1] for each in range(seed, seed + 10_000))


def test_it_ends_with_a_reason_if_it_may_not_wait() -> None:
    """Never falsely, and never without an end."""
    whys = set()
    for seed in range(WORLDS // 2):
        world = World.of(seed)
        call = world.now
        step = drained(world, patience_s=0.0)
        assert not isinstance(step, Again | Wait)
        if isinstance(step, Unfinished):
            whys.add(step.why.split(" may be hidden")[-1][:40])
        else:
            assert not left(world, call)
    assert whys
