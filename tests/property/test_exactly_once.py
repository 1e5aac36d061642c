"""With a write-ahead log, under every order of events that hypothesis can think of.

As in test_promises.py, and: the store of the log loses answers and refuses puts. After each step:

1. a message is gone only if the sink has its row, or somebody else deleted it;
2. no message gives a row twice, in whatever run (unless its text was changed);
3. a batch that is asked for again gives the same rows, whoever asks;
and at the end everything is processed and the queue is empty.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from log_stores import Put
from logged import LoggedSpark

from spark_azqueue.errors import LogConflict, ServiceError

from .test_promises import Promises

EXAMPLES = int(os.environ.get("AZQUEUE_EXAMPLES", "100"))

pytestmark = pytest.mark.usefixtures("simulated_time")


class ExactlyOnce(Promises):
    """One query with a log, one foreign consumer."""

    spark: LoggedSpark
    settings: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        super().__init__()
        options = {"queue": ",".join(self.queues), **self.options}
        self.spark = LoggedSpark(self.service, options, bare=self.bare, settings=self.settings)

    @rule(
        dies=st.sampled_from(
            ["", "", "", "before_log", "after_log", "planned", "after_sink", "batch"]
        ),
        slow=st.booleans(),
        sent=st.integers(0, 10),
        data=st.data(),
    )
    def spark_triggers(self, dies: str, slow: bool, sent: int, data: st.DataObject) -> None:
        def meanwhile() -> None:
            for _ in range(data.draw(st.integers(1, 3))):
                self.service.pass_time(data.draw(st.sampled_from([60, 100])))
                if data.draw(st.booleans()):
                    self.spark.renew()
                self.somebody_else_dequeues(data.draw(st.integers(1, 4)), 30, data)

        self.send(sent, self.queues[sent % len(self.queues)])
        try:
            self.spark.trigger(dies=dies, meanwhile=meanwhile if slow else None)
        except (ServiceError, LogConflict):  # the query fails, and is started again
            self.spark.stop()

    @rule(fault=st.sampled_from(Put), after=st.integers(0, 2))
    def a_put_fails(self, fault: Put, after: int) -> None:
        self.spark.store.next_puts(*[None] * after, fault)

    @rule()
    def late_puts_arrive(self) -> None:
        self.spark.store.land()

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        gone = {item for item in self.sent.items() if item[0] not in there}
        assert gone <= set(self.spark.sink.rows()), "deleted, and the sink does not have it"

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
        except LogConflict:  # a put of an earlier process has landed since
            self.spark.stop()
            return True

    def teardown(self) -> None:
        self.spark.store.faults.clear()
        self.spark.store.land()
        super().teardown()


class ExactlyOnceOnOldSpark(ExactlyOnce):
    """The same on Spark 4.0 and 4.1, which tell a source less."""

    bare = True


class ExactlyOnceFromSeveralQueues(ExactlyOnce):
    """Three queues, of which two at most are asked at once."""

    queues: ClassVar[list[str]] = ["orders", "returns", "audits"]
    options: ClassVar[dict[str, str]] = {"receiveParallelism": "2"}


MACHINES = [ExactlyOnce, ExactlyOnceOnOldSpark, ExactlyOnceFromSeveralQueues]


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_once(machine: type[ExactlyOnce]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
