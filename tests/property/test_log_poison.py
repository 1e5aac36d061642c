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
from hypothesis.stateful import invariant, rule
from logged import LoggedSpark

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

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        gone = {item for item in self.sent.items() if item[0] not in there}
        lost = gone - set(self.spark.sink.rows())
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


class PoisonedOnOldSpark(Poisoned):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class PoisonedWithSurprises(Poisoned, WithSurprises):
    """Three queues; options change, checkpoints are rolled back, objects of the log are damaged."""

    options: ClassVar[dict[str, str]] = {"receiveParallelism": "2", "maxDequeueCount": "2"}

    @rule()
    def the_maximum_changes(self) -> None:
        now = self.spark.options["maxDequeueCount"]
        self.spark.restart_with(maxDequeueCount="1" if now == "2" else "2")


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
