"""Batches that outlast their leases, and what becomes of them at a restart, without a log.

While such a batch runs its leases are renewed, so most receipts in its offset are dead. In a clean
restart each message gives one row all the same. After a crash, or a replay, none is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    invariant,
    precondition,
    rule,
)
from world.disturbances import DISTURBANCES, Disturbed
from world.fates import NEVER
from world.others import Others
from world.service import POISON, SOURCE, Service
from world.spark import VISIBILITY_S, Spark

from spark_azqueue.errors import ServiceError
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.source.leases.timing import LONGEST_S
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.testing import MessageView

from .test_promises import run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")

BARE = pytest.mark.parametrize("bare", [False, True], ids=["once", "4.0"])


def long_work(spark: Spark, halves: int = 3) -> Callable[[], None]:
    """A batch that takes so many half leases; they are renewed meanwhile."""

    def work() -> None:
        for _ in range(halves):
            spark.service.pass_time((spark.config().visibility_timeout or 0) / 2 + 1)
            spark.renew()

    return work


class CleanRestarts(Disturbed):
    """Each end is an orderly one between two batches; other programs update texts."""

    bare = True
    one_batch: ClassVar[bool] = True
    """A run is one batch, as with availableNow on Spark 4.0 and 4.1."""
    without: ClassVar[dict[str, str]] = dict.fromkeys(
        [name for name, each in DISTURBANCES.items() if each.of == "requests"]
        + ["another program dequeues", "a page is delivered twice"],
        "the proof of a batch is one message, and who takes or hides it takes the proof",
    )

    def __init__(self) -> None:
        super().__init__()
        self.service = Service((SOURCE, "returns", POISON, "returns-poison"))
        self.others = Others(self.service)
        self.others.renames = lambda *_: self.new_text()
        options = {"queue": f"{SOURCE},returns"}
        self.spark = Spark(self.service, options, bare=self.bare, once=self.one_batch)
        self.number = 0
        self.may_be_taken = False
        """The witness of the last batch may be visible: who takes it takes the proof."""

    def names(self) -> Sequence[str]:
        return SOURCE, "returns"

    def new_text(self) -> str:
        self.number += 1
        return f"m{self.number}"

    def another_sends(self, queue: str) -> None:
        self.others.send(queue, self.new_text())

    @rule(count=st.integers(1, 12), name=st.sampled_from([SOURCE, "returns"]))
    def somebody_sends(self, count: int, name: str) -> None:
        for _ in range(count):
            self.another_sends(name)

    @rule(halves=st.sampled_from([0, 0, 1, 3, 20]), ends=st.booleans())
    def spark_triggers(self, halves: int, ends: bool) -> None:
        self.may_be_taken = False

        def work() -> None:
            """Long is the first batch of a run alone (docs/delivery.md)."""
            if halves and "expires" in self.spark.offsets[-1]:
                self.may_be_taken = True
                long_work(self.spark, halves)()

        self.triggers(work)
        if ends or self.one_batch:
            self.spark.stop()

    def triggers(self, work: Callable[[], None] | None = None) -> bool:
        return self.spark.trigger(meanwhile=work)

    @rule(maximum=st.sampled_from(["0", "3"]), visibility_s=st.sampled_from([20, VISIBILITY_S]))
    def it_is_started_with_other_options(self, maximum: str, visibility_s: int) -> None:
        self.spark.stop()
        self.spark.next_start_with(visibilityTimeout=str(visibility_s))
        self.spark.options.pop("maxDequeueCount", None)
        if maximum != "0":
            self.spark.next_start_with(maxDequeueCount=maximum)

    @rule(seconds=st.sampled_from([1, 60, VISIBILITY_S, 5 * VISIBILITY_S]))
    def time_passes(self, seconds: int) -> None:
        self.service.pass_time(seconds)

    @precondition(lambda self: not self.may_be_taken)
    @rule()
    def somebody_updates_one(self) -> None:
        """A message that waits, or one whose row was delivered and that came back."""
        self.others.dequeue(SOURCE, visibility_s=1)
        self.others.ends(0, "updates")

    @invariant()
    def each_text_gives_one_row(self) -> None:
        assert max(self.spark.committed_texts.values(), default=1) == 1

    @invariant()
    def nothing_is_lost(self) -> None:
        there = {view.id for name in self.names() for view in self.service.views(name)}
        gone = self.others.sent.keys() - there - self.others.deleted
        assert {self.others.sent[each] for each in gone} <= self.spark.committed_texts.keys()

    def teardown(self) -> None:
        self.service.end_faults()
        self.spark.stop()
        for _ in range(3):
            self.service.pass_time(LONGEST_S)
            while self.triggers():
                if self.one_batch:
                    self.spark.stop()
            self.spark.stop()
        assert not self.service.views()
        assert not self.service.views("returns")
        self.nothing_is_lost()
        super().teardown()


class DisturbedRestarts(CleanRestarts):
    """Each end is orderly, and all else may happen: rows may come twice, and none is lost."""

    without: ClassVar[dict[str, str]] = {}

    @invariant()
    def each_text_gives_one_row(self) -> None:
        """Not with what happens here."""

    def triggers(self, work: Callable[[], None] | None = None) -> bool:
        try:
            return super().triggers(work)
        except ServiceError:
            self.spark.stop()
            return True


class CleanRestartsOfOldStreams(CleanRestarts):
    """Runs of several batches on Spark 4.0 and 4.1."""

    one_batch = False


class CleanRestartsOfOnce(CleanRestarts):
    """trigger(once=True) on Spark 4.2 and later."""

    bare = False


MACHINES = [CleanRestarts, CleanRestartsOfOldStreams, CleanRestartsOfOnce, DisturbedRestarts]


@pytest.mark.parametrize("machine", MACHINES)
def test_a_clean_restart_gives_no_row_twice(machine: type[CleanRestarts]) -> None:
    run_machine(machine)


# ── one history each ──────────────────────────────────────────────────────────────────────────────


def a_query(count: int = 8, *, bare: bool = True, **options: str) -> tuple[Service, Spark]:
    service = Service()
    for name in (SOURCE, POISON, "returns"):
        service.account.create(name)
    for number in range(count):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    return service, Spark(service, options, bare=bare, once=True)


def each(count: int, times: int = 1) -> Counter[str]:
    return Counter({f"m{number}": times for number in range(count)})


def reads_all(spark: Spark) -> None:
    """Run after run, until the queue has nothing for it."""
    for _ in range(3):
        spark.service.pass_time(LONGEST_S)
        while spark.trigger():
            pass
        spark.stop()


def pending(spark: Spark) -> int:
    return len(QueueOffset.from_json(spark.offsets[-1], account="memory").pending)


@BARE
@pytest.mark.parametrize("starts", [1, 2, 5], ids=lambda count: f"{count} starts")
def test_a_long_batch_is_deleted_by_later_runs_however_soon_they_start(
    bare: bool, starts: int
) -> None:
    """All its messages are hidden then, and each of those runs ends before they come back."""
    service, spark = a_query(bare=bare)
    assert spark.trigger(meanwhile=long_work(spark))
    spark.stop()

    for _ in range(starts):
        spark.trigger()
        spark.stop()
    assert pending(spark) == 7, "but the witness, which is deleted"
    assert len(spark.offsets) == 2, "written down once"
    reads_all(spark)

    assert spark.committed_texts == each(8)
    assert service.views() == []
    assert (len(spark.offsets), pending(spark)) == (3, 0), "and once when all are deleted"


@BARE
def test_what_is_pending_goes_from_offset_to_offset_until_it_is_deleted(bare: bool) -> None:
    service, spark = a_query(bare=bare)
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    for number in range(8, 10):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
        spark.trigger()
        spark.stop()
        assert pending(spark) == 7

    reads_all(spark)
    service.account.queue(SOURCE).put("m10", now=service.clock.now())
    spark.trigger()

    assert pending(spark) == 0
    assert spark.committed_texts == each(11)


@BARE
@pytest.mark.parametrize("dies", ["after_log", "after_sink", "batch"])
def test_the_offset_of_a_batch_that_failed_names_what_was_pending_before_it(
    bare: bool, dies: str
) -> None:
    service, spark = a_query(bare=bare)
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    service.account.queue(SOURCE).put("m8", now=service.clock.now())
    spark.trigger(dies=dies)

    reads_all(spark)

    assert spark.committed_texts == each(9)
    assert service.views() == []


@BARE
@pytest.mark.parametrize("dies", ["after_log", "after_sink", "batch"])
@pytest.mark.parametrize("starts", [0, 1, 2])
def test_a_replayed_batch_gave_no_rows_so_none_of_it_is_remembered(
    bare: bool, dies: str, starts: int
) -> None:
    """Its receipts are dead, like those of a long batch, and Spark commits it without rows."""
    service, spark = a_query(bare=bare)
    spark.trigger(dies=dies, meanwhile=long_work(spark))
    spark.start()  # it replays the batch, and ends
    spark.stop()
    assert spark.checkpoint.commits == 1
    for _ in range(starts):
        spark.trigger()
        spark.stop()

    reads_all(spark)

    assert spark.committed_texts == each(8)
    assert service.views() == []


@BARE
@pytest.mark.parametrize("back_by", [1, 2])
def test_a_rollback_reads_again_what_was_pending(bare: bool, back_by: int) -> None:
    """The checkpoint of before the long batch, or of before that was known to be pending."""
    service, spark = a_query(bare=bare)
    spark.trigger()
    spark.stop()
    for number in range(8, 16):
        service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    spark.trigger()
    spark.stop()
    assert (len(spark.offsets), pending(spark)) == (3, 7)

    del spark.offsets[-back_by:]
    spark.checkpoint.commits -= back_by
    reads_all(spark)

    twice = {text for text, count in spark.committed_texts.items() if count == 2}
    assert len(twice) == 7
    assert twice < each(16).keys() - each(8).keys()
    assert service.views() == []


@BARE
def test_an_updated_message_is_a_new_one(bare: bool) -> None:
    service, spark = a_query(bare=bare)
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    spark.trigger()
    spark.stop()
    service.pass_time(2 * VISIBILITY_S)
    now, queue = service.clock.now(), service.account.queue(SOURCE)
    (view,) = queue.dequeue(now=now, count=1, visibility=1)
    queue.update(view.id, view.receipt, now=now, visibility=0, text="updated")

    reads_all(spark)

    assert spark.committed_texts == each(8) + Counter(["updated"])
    assert service.views() == []


@BARE
def test_with_delete_on_commit_false_nothing_is_deleted_that_an_offset_names(bare: bool) -> None:
    service, spark = a_query(bare=bare)
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    spark.trigger()
    spark.stop()
    assert pending(spark) == 7
    spark.next_start_with(deleteOnCommit="false")
    service.pass_time(LONGEST_S)

    spark.trigger()

    assert sorted(spark.committed_texts.values()) == [1, *[2] * 7], "as docs/delivery.md says"
    assert len(service.views()) == 7
    assert pending(spark) == 0


@BARE
@pytest.mark.parametrize("noted", [False, True], ids=["in the batch", "as pending"])
def test_a_queue_that_is_not_named_any_more_gets_no_request(bare: bool, noted: bool) -> None:
    service, spark = a_query(bare=bare)
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    if noted:
        spark.trigger()
        spark.stop()
    before = service.views()
    spark.next_start_with(queue="returns")
    service.account.queue("returns").put("m8", now=service.clock.now())

    reads_all(spark)

    assert [view.id for view in service.views()] == [view.id for view in before]
    assert spark.committed_texts == each(9)
    assert pending(spark) == 0


def test_a_long_batch_of_a_run_of_several_may_come_twice() -> None:
    """All its leases are renewed, as no other consumer is to get a message of it."""
    service, spark = a_query(bare=False)
    spark.once = False
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()

    reads_all(spark)

    assert spark.committed_texts == each(8, times=2)
    assert service.views() == []


@BARE
def test_what_was_deleted_before_the_service_failed_is_proof(
    bare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call does not find the witness any more, and remembers the others."""
    service, spark = a_query(bare=bare)
    spark.trigger(meanwhile=long_work(spark))
    spark.stop()
    monkeypatch.setattr("spark_azqueue.source.leases.worker.REPLAY", RetryPolicy(1.0))
    service.meet("delete", NEVER)
    with pytest.raises(ServiceError):
        spark.trigger()
    assert len(service.views()) == 7

    spark.trigger()

    assert pending(spark) == 7


def test_if_another_consumer_has_taken_the_witness_the_batch_comes_twice_and_none_is_lost() -> None:
    """In a run of one batch the witness is not renewed: it is there when its lease ends."""
    service, spark = a_query()
    taken: list[MessageView] = []

    def work() -> None:
        long_work(spark)()
        taken.extend(service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32))

    spark.trigger(meanwhile=work)
    spark.stop()
    assert len(taken) == 1

    reads_all(spark)

    assert spark.committed_texts == each(8, times=2)
    assert service.views() == []


def test_in_the_next_batch_of_a_run_each_lease_is_renewed() -> None:
    service, spark = a_query(16)
    renewed: list[int] = []

    def work() -> None:
        before = service.updates
        long_work(spark, 1)()
        renewed.append(service.updates - before)

    spark.trigger(meanwhile=work)
    spark.trigger(meanwhile=work)

    assert renewed == [7, 8]


def test_what_was_deleted_of_one_batch_is_no_proof_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, spark = a_query()
    spark.start()
    assert spark.consumer
    holder = spark.consumer.engine.holder
    one, other = (Lease(QueueRef("memory", SOURCE), text, "receipt") for text in "ab")

    def fails(leases: Sequence[Lease], deleted: list[Lease]) -> None:
        deleted += leases
        raise ServiceError("another one had no answer")

    with monkeypatch.context() as patch:
        patch.setattr(holder.worker, "delete_restored", fails)
        with pytest.raises(ServiceError):
            holder.settle_restored([one], {})

    monkeypatch.setattr(holder.worker, "delete_restored", lambda leases, deleted: None)
    assert holder.settle_restored([other], {}) == frozenset()


def test_the_next_batch_of_a_run_has_no_witness_and_a_small_offset() -> None:
    _, spark = a_query(16)
    spark.trigger()
    spark.trigger()
    spark.stop()

    first, second = spark.offsets
    assert first["queues"][SOURCE].keys() - second["queues"][SOURCE].keys() == {"texts"}
    assert "expires" not in second


@BARE
def test_with_delete_on_commit_false_there_is_no_witness(bare: bool) -> None:
    service, spark = a_query(bare=bare, deleteOnCommit="false")
    spark.trigger(meanwhile=long_work(spark, 1))

    assert service.updates == 8
    assert "texts" not in spark.offsets[0]["queues"][SOURCE]
