"""`drain` over the simulated world: when it says that it has finished, nothing of the call is left.

The real drain starts runs of the real source, on both lines of Spark, with a log and without. They
are killed at every point of a batch, have batches longer than half their lease, and meet what every
world meets: other programs, answers that are lost or late, clocks that are wrong, a busy sender.
After each step no message is gone without a row.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from log_stores import MemoryLogStore
from scheduled import Run
from world.disturbances import ALL, DISTURBANCES, Disturbed
from world.logged import LoggedSpark
from world.others import Others
from world.process import Simulated
from world.service import SOURCE, Service
from world.spark import DIES, VISIBILITY_S, Spark

from spark_azqueue.errors import AzQueueError
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.running.draining import DrainResult, drain
from spark_azqueue.source.driver import left

from .test_promises import run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")

MOST_RUNS = 300


class Program:
    """A driver's program that starts a query with availableNow: its runs are one of Spark 4.2, of
    many batches, or one of 4.0 and 4.1, of one."""

    def __init__(
        self, spark: Spark, disturbs: Callable[[], None], chance: random.Random, *, stops: bool
    ) -> None:
        """stops: a run may be stopped from outside.

        A drain does not see what such a run could not release; nor, in this world without reports,
        what a dequeue without an answer has leased.
        """
        self.old, self._stops = spark.bare, stops
        self._spark, self._disturbs, self._chance = spark, disturbs, chance
        self.runs: list[Run] = []

    def start(self) -> Run:
        assert len(self.runs) < MOST_RUNS, "it does not end"
        self.runs.append(Run(self, len(self.runs)))  # type: ignore[arg-type]
        return self.runs[-1]

    def work(self, run: Run) -> None:
        """All that a run does. Raises what ends it."""
        spark = self._spark
        try:
            read = spark.committed_texts.total()
            if spark.start():
                rows = spark.committed_texts.total() - read
                self._tells(run, spark.checkpoint.commits - 1, rows, 0.0, is_again=True)
            while not (self.old and run.recentProgress) and self._batch(run):
                pass
        finally:
            spark.stop()

    def _batch(self, run: Run) -> bool:
        spark, chance = self._spark, self._chance
        began, read = spark.service.clock.now(), spark.committed_texts.total()
        batch = spark.checkpoint.commits
        if self._stops and chance.random() < 0.05:
            return False  # query.stop(), from another thread
        dies = chance.choice(DIES) if chance.random() < 0.15 else ""
        has_more = spark.trigger(dies=dies, meanwhile=self._meanwhile)
        if spark.consumer is None:
            raise RuntimeError(f"killed: {dies}")
        if has_more:
            seconds = spark.service.clock.now() - began
            self._tells(run, batch, spark.committed_texts.total() - read, seconds)
        else:
            newest = spark.offsets[-1] if spark.offsets else spark.consumer.initial
            run.tell(newest, newest, 0)
        return has_more

    def _tells(self, run: Run, batch: int, rows: int, seconds: float, **more: bool) -> None:
        start, end = self._spark.start_of(batch), self._spark.offsets[batch]
        run.tell(start, end, rows, seconds=seconds, **more)

    def _meanwhile(self) -> None:
        if self._chance.random() < 0.2:
            self._spark.service.pass_time(self._chance.choice([VISIBILITY_S / 2 + 1, VISIBILITY_S]))
            if self.old or self._chance.random() < 0.7:
                self._spark.renew()
        self._disturbs()


class Drains(Disturbed):
    """One query, which is drained again and again."""

    bare = False
    ahead = 0
    queues: ClassVar[list[str]] = [SOURCE, "returns"]
    options: ClassVar[dict[str, str]] = {}
    lease_s = VISIBILITY_S

    def __init__(self) -> None:
        super().__init__()
        self.service = Service(self.queues)
        self.others = Others(self.service)
        self.spark = self.query()
        self.number = 0

    def query(self) -> Spark:
        return Spark(
            self.service,
            self.all_options(),
            available_now=not self.bare,
            bare=self.bare,
            ahead=self.ahead,
        )

    def all_options(self) -> dict[str, str]:
        return {"queue": ",".join(self.queues), **self.options}

    def names(self) -> Sequence[str]:
        return self.queues

    def another_sends(self, queue: str) -> None:
        self.number += 1
        self.others.send(queue, f"m{self.number}")

    @rule(count=st.integers(1, 20), which=st.sampled_from([0, 0, 1]))
    def somebody_sends(self, count: int, which: int) -> None:
        for _ in range(count):
            self.another_sends(self.queues[which])

    @rule(seconds=st.sampled_from([1, 40, VISIBILITY_S, 5 * VISIBILITY_S]))
    def time_passes(self, seconds: int) -> None:
        self.service.pass_time(seconds)

    @rule(seed=st.integers(0, 10**6), calm=st.booleans())
    def is_drained(self, seed: int, calm: bool) -> None:
        chance = random.Random(seed)
        for _ in range(chance.randint(0, 3)):
            self.something_happens(chance)
        if calm:
            self.service.end_faults()
        there = self.can_be_read()

        def disturbs() -> None:
            if not calm and chance.random() < 0.4:
                name = chance.choice([*DISTURBANCES])
                self.disturb(name, chance.randrange(ALL), chance.randrange(ALL))

        try:
            result = self.drained(Program(self.spark, disturbs, chance, stops=calm))
        except AzQueueError:
            return  # of the first start, or the first look
        if result.finished:
            gone = self.others.touched | self.others.deleted
            gone |= self.service.unsure  # see `Program`
            unread = {there[each] for each in there.keys() - gone} & self.left()
            assert not unread, "it has not finished"

    def left(self) -> set[str]:
        """What nobody has read, or that is not deleted."""
        return {view.text for name in self.queues for view in self.service.views(name)}

    def something_happens(self, chance: random.Random) -> None:
        self.somebody_sends(chance.randint(1, 20), chance.choice([0, 0, 1]))
        if chance.random() < 0.5:
            self.time_passes(chance.choice([1, 40, VISIBILITY_S]))
        else:
            self.disturb(
                chance.choice([*DISTURBANCES]), chance.randrange(ALL), chance.randrange(ALL)
            )

    def can_be_read(self) -> dict[str, str]:
        """Ids and texts of what a drain that begins now is to read: also what a run has hidden."""
        until = self.service.clock.now() + self.lease_s
        views = [view for name in self.queues for view in self.service.views(name)]
        return {view.id: view.text for view in views if view.next_visible <= until}

    def drained(self, program: Program) -> DrainResult:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(left, "QueueClient", lambda account: Simulated(account, self.service))
            clock = {"clock": self.service.clock.now, "sleep": self.service.pass_time}
            return drain(program.start, self.given() | self.spark.options, restarts=30, **clock)

    def given(self) -> dict[str, str]:
        return {
            "secret.connectionString": "AccountName=memory;AccountKey=c2VjcmV0",
            "maxDequeueCount": "none",
            "visibilityTimeout": str(VISIBILITY_S),
            **self.options,
        }

    @invariant()
    def nothing_is_lost(self) -> None:
        there = {view.id for name in self.queues for view in self.service.views(name)}
        gone = self.others.sent.keys() - there - self.others.deleted
        assert {self.others.sent[each] for each in gone} <= self.rows()

    def rows(self) -> set[str]:
        return set(self.spark.committed_texts)


class DrainsOnOldSpark(Drains):
    """The same on Spark 4.0 and 4.1, where a run is one batch."""

    bare = True


class DrainsByDefault(Drains):
    """With leases as short as they are by default, which are longer once they were renewed."""

    options: ClassVar[dict[str, str]] = {"visibilityTimeout": "auto"}
    lease_s = 60


class DrainsByDefaultOnOldSpark(DrainsByDefault):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class DrainsStrictly(Drains):
    """The first queue comes first, and may be busy."""

    options: ClassVar[dict[str, str]] = {"queuePriority": "strict"}


class DrainsStrictlyOnOldSpark(DrainsStrictly):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class DrainsALog(Drains):
    """With a write-ahead log."""

    spark: LoggedSpark

    settings: ClassVar[dict[str, Any]] = {}

    def query(self) -> LoggedSpark:
        return LoggedSpark(
            self.service,
            self.all_options(),
            available_now=not self.bare,
            bare=self.bare,
            ahead=self.ahead,
            settings=self.settings,
        )

    def stores(self) -> Sequence[MemoryLogStore]:
        return [self.spark.store]

    def loses(self, who: int, what: int) -> None:
        names = sorted(self.spark.store.objects)
        if names and not self.spark.is_at_work:
            self.spark.loses(names[who % len(names)], flips=None if what % 2 else what)

    def given(self) -> dict[str, str]:
        return {**super().given(), "writeAheadLog": "file:/memory"}

    def rows(self) -> set[str]:
        return {text for _, text in self.spark.sink.rows()}

    @invariant()
    def no_row_comes_twice(self) -> None:
        assert max(self.spark.sink.rows().values(), default=1) == 1


class DrainsOnAnotherEngine(Drains):
    """With an engine whose calls prove less."""

    ahead = 1


class DrainsALogOnAnotherEngine(DrainsALog):
    """The same with a log."""

    ahead = 1


class DrainsALogOnOldSpark(DrainsALog):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class DrainsWhatIsDeletedEarly(DrainsALog):
    """With deleteAfter=log a message is in the log alone when its run dies."""

    settings: ClassVar[dict[str, Any]] = {"delete_after": DeleteAfter.LOG}

    def given(self) -> dict[str, str]:
        return {**super().given(), "deleteAfter": "log"}

    def rows(self) -> set[str]:
        return super().rows() | {text for _, text in self.spark.logged_rows()}

    def can_be_read(self) -> dict[str, str]:
        """Also what is in the log alone."""
        in_log = self.spark.logged_rows() - set(self.spark.sink.rows())
        return super().can_be_read() | dict(in_log)

    def left(self) -> set[str]:
        in_log = self.spark.logged_rows() - set(self.spark.sink.rows())
        return super().left() | {text for _, text in in_log}


class DrainsWhatIsDeletedEarlyOnOldSpark(DrainsWhatIsDeletedEarly):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class SlowBatches(Program):
    """Its first run has three batches that make the leases of `auto` longer, and is killed when it
    has dequeued the next one: neither an offset nor a report says for how long."""

    def work(self, run: Run) -> None:
        if run.number:
            return super().work(run)
        self._spark.start()
        for _ in range(3):
            assert self._batch(run)
        self._spark.trigger(dies="before_log")
        raise RuntimeError("killed")

    def _meanwhile(self) -> None:
        if self.runs[-1].number == 0:
            self._spark.service.pass_time(20)
            self._spark.renew()


class Never(random.Random):
    """A chance at which nothing happens."""

    def random(self) -> float:
        return 1.0


def test_leases_that_a_killed_run_had_made_longer_are_waited_for() -> None:
    world = DrainsByDefault()
    for _ in range(40):
        world.another_sends(SOURCE)
    program = SlowBatches(world.spark, lambda: None, Never(), stops=False)

    result = world.drained(program)

    assert (result.finished, result.read, world.left()) == (True, 40, set())


MACHINES = [
    Drains,
    DrainsOnOldSpark,
    DrainsOnAnotherEngine,
    DrainsALogOnAnotherEngine,
    DrainsByDefault,
    DrainsByDefaultOnOldSpark,
    DrainsStrictly,
    DrainsStrictlyOnOldSpark,
    DrainsALog,
    DrainsALogOnOldSpark,
    DrainsWhatIsDeletedEarly,
    DrainsWhatIsDeletedEarlyOnOldSpark,
]


@pytest.mark.parametrize("machine", MACHINES)
def test_what_a_drain_says_is_so(machine: type[Drains]) -> None:
    run_machine(machine, steps=15)
