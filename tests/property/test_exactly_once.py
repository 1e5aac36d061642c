"""With a write-ahead log, under every order of events that hypothesis can think of.

As in test_promises.py, and: the store of the log loses answers and refuses puts. After each step:

1. a message is gone only if the sink has its row, or somebody else deleted it;
2. no message gives a row twice, in whatever run (unless its text was changed);
3. a batch that is asked for again gives the same rows, whoever asks;
and at the end everything is processed and the queue is empty.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from log_stores import MemoryLogStore
from world.disturbances import OTHERS
from world.logged import STOPS, LoggedSpark
from world.spark import FencedError

from spark_azqueue.errors import (
    CheckpointMismatch,
    LogConflict,
    LostSegment,
    QueueNotFound,
    ServiceError,
)
from spark_azqueue.options.choices import DeleteAfter

from .test_promises import Promises, QueuesComeAndGo, Strictly, planning_ahead, run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")


TRIGGER: dict[str, Any] = {
    "dies": st.sampled_from(
        ["", "", "", "before_log", "after_log", "planned", "after_sink", "batch"]
    ),
    "slow": st.booleans(),
    "sent": st.integers(0, 10),
    "data": st.data(),
}


class ExactlyOnce(Promises):
    """One query with a log, one foreign consumer."""

    spark: LoggedSpark
    settings: ClassVar[dict[str, Any]] = {}
    deletes_at_once = False

    def __init__(self) -> None:
        super().__init__()
        self.fenced_in_peace = 0
        options = {"queue": ",".join(self.queues), **self.options}
        self.spark = LoggedSpark(
            self.service, options, bare=self.bare, ahead=self.ahead, settings=self.settings
        )

    @rule(**TRIGGER)
    def spark_triggers(self, dies: str, slow: bool, sent: int, data: st.DataObject) -> None:
        def meanwhile() -> None:
            for _ in range(data.draw(st.integers(1, 3))):
                self.service.pass_time(data.draw(st.sampled_from([60, 100])))
                if data.draw(st.booleans()):
                    self.spark.renew()
                for _ in range(data.draw(st.integers(0, 2))):
                    self.disturb(*data.draw(OTHERS))

        self.send(sent, self.queues[sent % len(self.queues)])
        try:
            self.spark.trigger(dies=dies, meanwhile=meanwhile if slow else None)
        except (ServiceError, LogConflict) as error:  # the query fails, and is started again
            if isinstance(error, QueueNotFound):
                raise  # every queue that has to be there is there
            self.spark.stop()

    def stores(self) -> list[MemoryLogStore]:
        return [self.spark.store]

    def loses(self, who: int, what: int) -> None:
        names = sorted(self.spark.store.objects)
        if names and not self.spark.is_at_work:
            self.spark.loses(names[who % len(names)], flips=None if what % 2 else what)

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        gone = {item for item in self.sent.items() if item[0] not in there}
        gone -= set(self.spark.sink.rows())
        if gone and self.deletes_at_once:
            gone -= self.spark.logged_rows()
        assert not gone, "deleted, and the sink does not have it"

    @invariant()
    def once_in_one_run(self) -> None:
        repeated = {row for row, count in self.spark.sink.rows().items() if count > 1}
        assert not repeated, "a row came twice"

    @invariant()
    def what_is_reported_adds_up(self) -> None:
        if self.spark.consumer is not None:
            assert self.spark.consumer.report().held >= 0

    def triggers_in_peace(self) -> bool:
        try:
            return super().triggers_in_peace()
        except (LogConflict, FencedError):  # an earlier process, or another one, has written since
            self.spark.stop()
            self.fenced_in_peace += 1
            assert self.fenced_in_peace < 10, "the others are gone"
            return True

    def teardown(self) -> None:
        self.spark.store.faults.clear()
        self.spark.store.land()
        super().teardown()


class ExactlyOnceOnOldSpark(ExactlyOnce):
    """The same on Spark 4.0 and 4.1, which tell a source less."""

    bare = True


class DeletesAfterLog(ExactlyOnce):
    """The same with deleteAfter=log."""

    settings: ClassVar[dict[str, Any]] = {"delete_after": DeleteAfter.LOG}
    deletes_at_once = True


class DeletesAfterLogOnOldSpark(DeletesAfterLog):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class WithSurprises(ExactlyOnce):
    """Three queues; options change, checkpoints are rolled back."""

    deletes_at_once = True  # at times
    queues: ClassVar[list[str]] = ["orders", "returns", "audits"]
    options: ClassVar[dict[str, str]] = {"parallelism": "auto"}

    @rule(
        most=st.sampled_from(["3", "8"]),
        rows=st.sampled_from(["2", "5", "1000"]),
        ahead=st.sampled_from(["true", "false"]),
        deletes=st.sampled_from(DeleteAfter),
    )
    def options_change(self, most: str, rows: str, ahead: str, deletes: DeleteAfter) -> None:
        self.spark.settings = {**self.spark.settings, "delete_after": deletes}
        self.spark.restart_with(
            maxMessagesPerTrigger=most, messagesPerPartition=rows, dequeueAhead=ahead
        )

    @rule(batches=st.integers(1, 14))
    def the_checkpoint_is_rolled_back(self, batches: int) -> None:
        """It replays, or says that it cannot: then the checkpoint is put back."""
        at = self.spark.checkpoint
        before = list(at.offsets), at.commits
        self.spark.roll_back(batches)
        try:
            self.spark.trigger()
        except (LostSegment, CheckpointMismatch, ServiceError, LogConflict):
            self.spark.kill()
            at.offsets, at.commits = before

    def largest_batch(self) -> int:
        """Batches that stand in the log keep their size when the option changes."""
        return max(8, super().largest_batch())


class TwoDrivers(ExactlyOnce):
    """A second start, or a driver that was believed dead: both run with one checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.drivers = [self.spark, self.another()]
        self.stopped = 0

    def another(self) -> LoggedSpark:
        first = self.spark
        return LoggedSpark(
            self.service,
            dict(first.options),
            bare=self.bare,
            store=first.store.another(),
            checkpoint=first.checkpoint,
            sink=first.sink,
            history=first.history,
            settings=first.settings,
        )

    @rule()
    def the_other_one_goes_on(self) -> None:
        self.drivers.reverse()
        self.spark = self.drivers[0]

    @rule(calls=st.integers(0, 12), data=st.data())
    def it_pauses_while_the_other_works(self, calls: int, data: st.DataObject) -> None:
        other = self.drivers[1]
        batches = data.draw(st.integers(1, 3))

        def meanwhile() -> None:
            for _ in range(batches):
                self.lets(other)

        self.spark.store.pause(calls, meanwhile)

    def lets(self, driver: LoggedSpark) -> None:
        if driver.is_at_work:  # it pauses as well
            return
        try:
            driver.trigger()
        except STOPS:
            driver.stop()

    @rule(**TRIGGER)  # a rule that is overridden is one only if it says so again
    def spark_triggers(self, dies: str, slow: bool, sent: int, data: st.DataObject) -> None:
        try:
            super().spark_triggers(dies, slow, sent, data)
        except STOPS:
            self.spark.stop()

    def teardown(self) -> None:
        self.drivers[1].kill()
        for driver in self.drivers:
            driver.store.land()
            driver.store.forget_pauses()
            driver.store.faults.clear()
        super().teardown()


class TwoDriversDeleteAfterLog(TwoDrivers):
    """The same with deleteAfter=log."""

    settings: ClassVar[dict[str, Any]] = {"delete_after": DeleteAfter.LOG}
    deletes_at_once = True


class WithQueuesThatComeAndGo(QueuesComeAndGo, ExactlyOnce):
    """Queues that a pattern finds are made, and removed with what is in them."""


class InTurn(Strictly, ExactlyOnce):
    """With queuePriority=strict."""


MACHINES = [
    ExactlyOnce,
    ExactlyOnceOnOldSpark,
    planning_ahead(ExactlyOnce),
    planning_ahead(ExactlyOnce, 1),
    planning_ahead(ExactlyOnceOnOldSpark, 1),
    DeletesAfterLog,
    DeletesAfterLogOnOldSpark,
    planning_ahead(DeletesAfterLog),
    WithSurprises,
    planning_ahead(WithSurprises),
    TwoDrivers,
    TwoDriversDeleteAfterLog,
    WithQueuesThatComeAndGo,
    InTurn,
]


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_once(machine: type[ExactlyOnce]) -> None:
    run_machine(machine)
