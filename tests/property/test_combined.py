"""What users combine, under every order of events that hypothesis can think of.

As in test_exactly_once.py and test_log_poison.py, with a thread that renews, runs of availableNow,
lost checkpoints with new outputs, and options that change at any restart. In addition:

- what an availableNow run in peace says it has drained is drained: no message whose row the output
  has, or that a batch held which it gave up, is left for a run without the log;
- a start that is refused changes nothing for the right one;
- without a log: what was given out with deleteOnCommit=false is never deleted.
"""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from world.logged import Sink
from world.spark import BatchFailedError, FencedError, SparkLogs

from spark_azqueue.errors import CheckpointMismatch, LogConflict, LostSegment, ServiceError
from spark_azqueue.options.choices import DeleteAfter, LogStart

from .test_log_poison import Poisoned, messages_given_up
from .test_promises import Promises, SeveralQueues, planning_ahead, run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")

MOST_TRIGGERS = 400


class Combined(Poisoned):
    """Three queues, poison, renewals, another consumer, faults, kills, and changes of all kinds."""

    queues: ClassVar[list[str]] = ["orders", "returns", "audits"]
    options: ClassVar[dict[str, str]] = {"parallelism": "2", "maxDequeueCount": "2"}
    deletes_at_once = True  # at times

    def __init__(self) -> None:
        super().__init__()
        self.earlier_outputs: set[tuple[str, str]] = set()
        self.service.while_time_passes = self.spark.renew

    @rule(
        most=st.sampled_from(["3", "8"]),
        maximum=st.sampled_from([None, "1", "3"]),
        deletes=st.sampled_from(DeleteAfter),
        ahead=st.sampled_from(["true", "false"]),
        lease=st.sampled_from(["40", "100", "100", "400"]),
        start=st.sampled_from([None, *LogStart]),
    )
    def options_change(
        self,
        most: str,
        maximum: str | None,
        deletes: DeleteAfter,
        ahead: str,
        lease: str,
        start: LogStart | None,
    ) -> None:
        """Also options that are for another start than this one."""
        self.spark.store.forget_pauses()
        if maximum is not None:
            deletes = DeleteAfter.COMMIT
        if not self.spark.has_rows():  # else the option is for another start
            start = self.spark.settings.get("start")
        self.spark.settings = {"delete_after": deletes, "start": start}
        self.spark.options.pop("maxDequeueCount", None)
        more = {"maxDequeueCount": maximum} if maximum else {}
        more["visibilityTimeout"] = lease
        self.spark.restart_with(maxMessagesPerTrigger=most, dequeueAhead=ahead, **more)

    @rule(to_the_first=st.booleans(), batches=st.integers(1, 6))
    def the_checkpoint_is_rolled_back(self, to_the_first: bool, batches: int) -> None:
        """It replays, or says that it cannot: then the checkpoint is put back."""
        self.spark.store.forget_pauses()
        at = self.spark.checkpoint
        before = list(at.offsets), at.commits
        self.spark.roll_back(at.commits if to_the_first else batches)
        if not at.offsets:  # one has to stay: without any it counts as lost
            at.offsets, at.commits = before[0][:1], 0
        try:
            self.spark.trigger()
        except (CheckpointMismatch, LostSegment, ServiceError, LogConflict):
            self.spark.kill()
            at.offsets, at.commits = before

    @precondition(lambda self: self.spark.checkpoint.offsets)
    @rule(choice=st.sampled_from([None, *LogStart]), politely=st.booleans())
    def the_checkpoint_is_lost(self, choice: LogStart | None, politely: bool) -> None:
        """Without the option the old output stays, and the start may be refused.

        An old output fits only a query all of whose batches have rows (`docs/exactly-once.md`).
        """
        self.spark.store.forget_pauses()
        self.spark_ends(politely)
        spark = self.spark
        before = spark.checkpoint, spark.sink, spark.history, spark.settings
        has_gaps = spark.has_batches_without_rows()
        spark.checkpoint = SparkLogs()
        spark.settings = {**spark.settings, "start": choice}
        if choice is not None or has_gaps:
            spark.sink, spark.history = Sink(), {}
        try:
            spark.trigger()
        except CheckpointMismatch:
            assert choice is None
            spark.kill()
            spark.checkpoint, spark.sink, spark.history, spark.settings = before
        except (ServiceError, LogConflict):
            spark.stop()
            spark.checkpoint, spark.sink, spark.history, spark.settings = before
        else:
            if spark.sink is not before[1]:
                self.earlier_outputs |= set(before[1].rows())

    @precondition(lambda self: not self.bare and not self.service.is_late)
    @rule(politely=st.booleans())
    def a_run_in_peace_drains(self, politely: bool) -> None:
        """An availableNow run after a kill, without faults, that ends by itself."""
        self.service.end_faults()
        spark = self.spark
        spark.store.forget_pauses()
        spark.store.faults.clear()
        spark.store.land()
        self.spark_ends(politely)
        known, there = {row[0] for row in spark.sink.rows()}, self.there()
        given_up = messages_given_up(spark)
        spark.available_now = True
        spark.is_poison = lambda _: False  # else it comes to no end, without maxDequeueCount
        try:
            for _ in range(MOST_TRIGGERS):
                self.given_up |= messages_given_up(spark)
                try:
                    if not spark.trigger():
                        break
                except (LogConflict, FencedError, BatchFailedError, ServiceError):
                    spark.stop()
            else:
                raise AssertionError("it comes to no end")
        except CheckpointMismatch:
            return spark.kill()  # an option that changed is refused: nothing was said
        finally:
            spark.available_now = False
            spark.is_poison = self.makes_its_batch_fail
        known |= messages_given_up(spark) - given_up
        left = there & known & self.there() - self.others.touched
        assert not left, "it said that it has read all, and what it knows of is hidden"
        return spark.stop()

    @invariant()
    def nothing_is_lost(self) -> None:
        there = self.there() | self.elsewhere
        lost = {item for item in self.sent.items() if item[0] not in there}
        lost -= set(self.spark.sink.rows()) | self.earlier_outputs
        if lost:
            lost -= self.spark.logged_rows()
        if lost:
            aside = self.set_aside()
            lost = {item for item in lost if item[1] not in aside}
        assert not lost, "deleted, and neither the sink nor a poison queue has it"

    def largest_batch(self) -> int:
        """Batches that stand in the log keep their size when the option changes."""
        return max(8, super().largest_batch())

    def teardown(self) -> None:
        """The user corrects the code: a batch that deleteAfter=log has written is not given up."""
        self.spark.is_poison = lambda _: False
        if self.spark.has_rows():
            self.spark.settings = {**self.spark.settings, "start": None}
        super().teardown()


class CombinedOnOldSpark(Combined):
    """The same on Spark 4.0 and 4.1."""

    bare = True


class AcknowledgedByTheUser(SeveralQueues):
    """Without a log: deleteOnCommit changes at any restart, and each batch stays whose it was."""

    options: ClassVar[dict[str, str]] = {"parallelism": "2"}
    renewals_run = False

    def __init__(self) -> None:
        super().__init__()
        self.service.while_time_passes = self.spark.renew

    @rule(deletes=st.booleans(), politely=st.booleans())
    def the_option_changes(self, deletes: bool, politely: bool) -> None:
        self.spark_ends(politely)
        self.spark.next_start_with(deleteOnCommit=str(deletes).lower())

    @invariant()
    def nothing_is_lost(self) -> None:
        gone = {item for item in self.sent.items() if item[0] not in self.there() | self.elsewhere}
        assert not gone - self.spark.to_be_deleted, "deleted, though that was up to the user"

    @invariant()
    def once_in_one_run(self) -> None:
        """Not if the user does not delete."""

    def teardown(self) -> None:
        self.spark.stop()
        self.spark.next_start_with(deleteOnCommit="true")
        super().teardown()


class AcknowledgedByTheUserOnOldSpark(AcknowledgedByTheUser):
    """The same on Spark 4.0 and 4.1."""

    bare = True


MACHINES = [
    Combined,
    CombinedOnOldSpark,
    planning_ahead(Combined),
    AcknowledgedByTheUser,
    AcknowledgedByTheUserOnOldSpark,
]


@pytest.mark.parametrize("machine", MACHINES)
def test_combined(machine: type[Promises]) -> None:
    run_machine(machine)
