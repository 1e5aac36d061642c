"""Poison messages in a query with a write-ahead log.

As in test_exactly_once.py, and some messages make their batch fail, for ever. After each step:

1. a message is gone only if the sink has its row, a poison queue has its copy, or somebody else
   deleted it;
2. no message gives a row twice, unless a batch that held it was given up;
3. a batch that is asked for again gives the same rows, or none if it was given up;
and at the end everything is processed and the queue is empty.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from logged import LoggedSpark
from simulation import POISON, VISIBILITY_S
from world import SOURCE, Service

from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.source.log.segment import decode

from .test_exactly_once import ExactlyOnce, TwoDrivers, WithSurprises
from .test_promises import run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")


def messages_given_up(spark: LoggedSpark) -> set[str]:
    """Ids of the messages in segments that were given up, as long as the log keeps these."""
    found = set()
    for number in spark.given_up():
        if data := spark.store.objects.get(f"seg/{number:012d}"):
            found |= {message.message_id for message in decode(data).messages}
    return found


class Poisoned(ExactlyOnce):
    """One query with a log; every tenth message is poison."""

    options: ClassVar[dict[str, str]] = {"maxDequeueCount": "2"}
    poison_every = 10

    def __init__(self) -> None:
        super().__init__()
        self.given_up: set[str] = set()
        self.spark.is_poison = self.makes_its_batch_fail

    @rule(calls=st.integers(0, 20), after_a_put=st.booleans())
    def it_dies_in_the_midst(self, calls: int, after_a_put: bool) -> None:
        self.spark.dies_at(calls, after_a_put=after_a_put)

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        gone = {item for item in self.sent.items() if item[0] not in there}
        lost = gone - set(self.spark.sink.rows())
        if lost and self.deletes_at_once:
            lost -= self.spark.logged_rows()
        if lost:
            aside = self.set_aside()
            lost = {item for item in lost if item[1] not in aside}
        assert not lost, "deleted, and neither the sink nor a poison queue has it"

    @invariant()
    def once_in_one_run(self) -> None:
        self.given_up |= messages_given_up(self.spark)
        rows = self.spark.sink.rows()
        repeated = {row for row, count in rows.items() if count > 1}
        assert {row for row in repeated if row[0] not in self.given_up} == set()

    def teardown(self) -> None:
        self.spark.store.forget_pauses()
        super().teardown()


class PoisonedOnOldSpark(Poisoned):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class PoisonedWithSurprises(Poisoned, WithSurprises):
    """Three queues; options change, checkpoints are rolled back, objects of the log are damaged."""

    options: ClassVar[dict[str, str]] = {"receiveParallelism": "2", "maxDequeueCount": "2"}

    @rule(batches=st.integers(1, 14))
    def the_checkpoint_is_rolled_back(self, batches: int) -> None:
        self.spark.store.forget_pauses()  # killed in between, it would stay rolled back
        super().the_checkpoint_is_rolled_back(batches)

    @precondition(lambda self: self.spark.store.objects)
    @rule(removed=st.booleans(), data=st.data())
    def an_object_is_damaged(self, removed: bool, data: st.DataObject) -> None:
        self.spark.store.forget_pauses()
        super().an_object_is_damaged(removed, data)

    @rule(
        most=st.sampled_from(["3", "8"]),
        rows=st.sampled_from(["2", "5", "1000"]),
        ahead=st.sampled_from(["true", "false"]),
        deletes=st.sampled_from(DeleteAfter),
    )
    def options_change(self, most: str, rows: str, ahead: str, deletes: DeleteAfter) -> None:
        """With deleteAfter=log there is no maximum."""
        self.spark.options.pop("maxDequeueCount", None)
        if deletes is DeleteAfter.COMMIT:
            self.spark.options["maxDequeueCount"] = "2"
        super().options_change(most, rows, ahead, deletes)

    @precondition(lambda self: "maxDequeueCount" in self.spark.options)
    @rule()
    def the_maximum_changes(self) -> None:
        now = self.spark.options["maxDequeueCount"]
        self.spark.restart_with(maxDequeueCount="1" if now == "2" else "2")

    def teardown(self) -> None:
        """The user corrects the code: a batch that deleteAfter=log has written is not given up."""
        self.spark.is_poison = lambda _: False
        super().teardown()


class PoisonedWithTwoDrivers(Poisoned, TwoDrivers):
    """A second start, or a driver that was believed dead, over messages that are poison."""

    def __init__(self) -> None:
        super().__init__()
        for driver in self.drivers:
            driver.is_poison = self.makes_its_batch_fail


MACHINES = [Poisoned, PoisonedOnOldSpark, PoisonedWithSurprises, PoisonedWithTwoDrivers]


@pytest.mark.parametrize("machine", MACHINES)
def test_poison_with_a_log(machine: type[Poisoned]) -> None:
    run_machine(machine)


# ── the same, step by step ────────────────────────────────────────────────────────────────────────


def a_query(texts: int, *bad: str, **options: str) -> tuple[Service, LoggedSpark]:
    service = Service()
    service.account.create(SOURCE)
    service.account.create(POISON)
    for number in range(texts):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    given = {"maxDequeueCount": "2", **options}
    return service, LoggedSpark(service, given, is_poison=bad.__contains__)


def drain(service: Service, spark: LoggedSpark, most: int = 300) -> None:
    """Restarted by a loop, as a job scheduler would, until nothing comes any more."""
    idle = 0
    for _ in range(most):
        if spark.trigger():
            idle = 0
            continue
        idle += 1
        service.pass_time(VISIBILITY_S + 1)
        if idle > 2:
            return
    raise AssertionError("it does not come to an end")


def written(spark: LoggedSpark) -> list[str]:
    return sorted(body for _, body in spark.sink.rows().elements())


def aside(service: Service) -> list[str]:
    return sorted(view.text for view in service.views(POISON))


@pytest.mark.parametrize("maximum", [1, 2, 5, 20])
@pytest.mark.parametrize("bad", [["m7"], ["m1", "m2", "m40"], ["m63"], []])
def test_only_the_guilty_reaches_the_poison_queue(bad: list[str], maximum: int) -> None:
    service, spark = a_query(64, *bad, maxDequeueCount=str(maximum), maxMessagesPerTrigger="64")

    drain(service, spark)

    assert service.views() == []
    assert aside(service) == sorted(bad)
    good = {f"m{number}" for number in range(64)} - {*bad}
    assert written(spark) == sorted(good)
    if len(bad) == 1:
        assert spark.runs <= maximum + 8


def run_to_the_end(kill_at: int | None, *, after_a_put: bool = False) -> tuple[int, LoggedSpark]:
    """Eight messages, one of them poison; killed at one call of the store. Returns its calls."""
    service, spark = a_query(8, "m3", maxDequeueCount="1")
    if kill_at is not None:
        spark.dies_at(kill_at, after_a_put=after_a_put)
    drain(service, spark)
    assert service.views() == []
    assert set(aside(service)) == {"m3"}
    assert set(written(spark)) == {f"m{number}" for number in range(8)} - {"m3"}
    assert len(aside(service)) == 1 or kill_at is not None
    return len(spark.store.calls), spark


@pytest.mark.parametrize("after_a_put", [False, True], ids=["before a call", "after a put"])
def test_killed_at_any_step_nothing_is_lost_and_the_guilty_is_found(after_a_put: bool) -> None:
    calls, _ = run_to_the_end(None)
    for kill_at in range(calls):
        run_to_the_end(kill_at, after_a_put=after_a_put)
