"""deleteAfter=log, and segments that are written ahead: scenarios at each crash point."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from doubles import AtOnce
from world.fates import Fate
from world.logged import LoggedSpark
from world.service import SOURCE, Service
from world.spark import VISIBILITY_S, Spark, SparkLogs

from spark_azqueue.errors import CheckpointMismatch, LogConflict, ServiceError
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.service.workers import Submits, Workers
from spark_azqueue.source.log.segment import decode_segment

from .test_log_scenarios import a_query, bodies, drain, each_once, send

pytestmark = pytest.mark.usefixtures("simulated_time")

LOG = {"delete_after": DeleteAfter.LOG}
COMMIT = {"delete_after": DeleteAfter.COMMIT}
CRASHES = ["before_log", "after_log", "planned", "batch", "after_sink"]


def segments(spark: LoggedSpark) -> list[int]:
    names = sorted(name for name in spark.store.objects if name.startswith("seg/"))
    return [int(name[4:]) for name in names]


def is_over(service: Service, spark: LoggedSpark, count: int) -> None:
    assert bodies(spark) == each_once(count)
    assert service.views() == []


@pytest.mark.parametrize("bare", [False, True], ids=["4.2", "4.0"])
@pytest.mark.parametrize("pause", [0, 10 * VISIBILITY_S])
@pytest.mark.parametrize("batches", [0, 1, 3])
@pytest.mark.parametrize("dies", CRASHES)
@pytest.mark.parametrize("settings", [COMMIT, LOG], ids=["commit", "log"])
def test_wherever_it_is_killed_each_row_comes_once(
    settings: dict[str, Any], dies: str, batches: int, pause: int, bare: bool
) -> None:
    service, spark = a_query(60, settings)
    spark.bare = bare
    for _ in range(batches):
        spark.trigger()
    spark.trigger(dies=dies)
    service.pass_time(pause)

    drain(spark)
    service.pass_time(2 * VISIBILITY_S)  # what was leased and not written
    drain(spark)

    is_over(service, spark, 60)


@pytest.mark.parametrize("dies", CRASHES)
@pytest.mark.parametrize(("before", "after"), [(COMMIT, LOG), (LOG, COMMIT)])
def test_the_mode_may_change_at_any_restart(
    before: dict[str, Any], after: dict[str, Any], dies: str
) -> None:
    service, spark = a_query(60, before)
    spark.trigger()
    spark.trigger()
    spark.trigger(dies=dies)
    spark.settings = after

    spark.trigger()
    spark.trigger(dies=dies)
    spark.settings = before
    drain(spark)
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)

    is_over(service, spark, 60)


@pytest.mark.parametrize("fault", [Fate.LOST_BEFORE, Fate.LOST_AFTER, Fate.LATE])
def test_nothing_is_deleted_after_a_put_without_an_answer(fault: Fate) -> None:
    service, spark = a_query(8, LOG)
    spark.start()
    spark.store.next_puts(None, None, fault)  # after the identity and the claim

    with pytest.raises(ServiceError):
        spark.trigger()
    spark.stop()

    assert len(service.views()) == 8
    spark.store.land()
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    is_over(service, spark, 8)


def test_nothing_is_deleted_by_a_process_that_lost_its_claim_before_its_put() -> None:
    """The newer one has listed the segments without this one, and may write its number."""
    service, spark = a_query(8, LOG)
    spark.start()
    other = LoggedSpark(service, {}, store=spark.store.another(), settings=LOG)

    def the_other_starts() -> None:
        other.start_only_the_process()
        assert other.consumer
        assert other.calls.latest(other.calls.initial, 8) == other.calls.initial

    spark.store.pause(_calls_before_the_first_segment(), the_other_starts)
    with pytest.raises(LogConflict):
        spark.trigger()
    assert segments(spark) == [1]
    spark.stop()

    assert len(service.views()) == 8
    service.pass_time(2 * VISIBILITY_S)
    with pytest.raises(LogConflict):
        other.trigger()
    other.stop()
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    is_over(service, spark, 8)


def _calls_before_the_first_segment() -> int:
    _, spark = a_query(8, LOG)
    spark.start()
    before = len(spark.store.calls)
    spark.trigger()
    return spark.store.calls[before:].index(("put_new", "seg/000000000001"))


def test_a_start_deletes_what_an_earlier_run_wrote_and_did_not_delete() -> None:
    service, spark = a_query(8, COMMIT)
    spark.trigger(dies="after_log")
    assert len(service.views()) == 8
    spark.settings = LOG

    def nothing_is_left() -> None:
        assert spark.consumer
        spark.consumer.engine.wait(10.0)
        assert service.views() == []

    spark.run_replay(nothing_is_left)

    assert bodies(spark) == each_once(8)


def test_what_is_deleted_already_is_not_owed_after_a_clean_stop() -> None:
    service, spark = a_query(0, LOG)
    for run in range(60):
        send(service, f"m{run}")
        drain(spark)
        spark.stop()

    is_over(service, spark, 60)
    newest = decode_segment(spark.store.objects[f"seg/{segments(spark)[-1]:012d}"]).header
    assert newest.progress.pending == ()
    assert len(segments(spark)) <= 13


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("settings", [COMMIT, LOG], ids=["commit", "log"])
def test_the_next_batch_is_written_while_spark_works_and_one_at_most(
    settings: dict[str, Any], *, bare: bool
) -> None:
    service, spark = a_query(80, settings)
    spark.bare = bare
    heads = []

    def look() -> None:
        heads.append(segments(spark)[-1])

    while spark.trigger(meanwhile=look):
        pass

    assert heads[0] == 1, "nothing ahead of the first batch"
    assert heads[1:-1] == [number + 1 for number in range(2, len(heads))]
    is_over(service, spark, 80)


def test_nothing_is_written_ahead_if_the_user_says_so() -> None:
    _, spark = a_query(80, LOG, dequeueAhead="false")

    def look() -> None:
        assert segments(spark)[-1] == spark.checkpoint.commits + 1

    while spark.trigger(meanwhile=look):
        pass


def test_runs_of_one_batch_leave_none_behind() -> None:
    service, spark = a_query(40, LOG)
    for _ in range(5):
        spark.trigger()
        spark.stop()
        assert segments(spark)[-1] == spark.checkpoint.commits
    drain(spark)
    is_over(service, spark, 40)


@pytest.mark.parametrize("fault", list(Fate))
@pytest.mark.parametrize("settings", [COMMIT, LOG], ids=["commit", "log"])
def test_a_put_ahead_that_fails_stops_the_query_at_the_next_call(
    settings: dict[str, Any], fault: Fate
) -> None:
    service, spark = a_query(24, settings)
    spark.trigger()
    spark.store.next_puts(None, fault)  # that of batch 2, and that of batch 3
    spark.trigger()
    assert spark.checkpoint.commits == 2, "the batch that ran is not harmed"

    with pytest.raises(ServiceError):
        spark.trigger()

    spark.stop()
    visible = [view.visible for view in service.views()]
    assert any(visible) is (fault in (Fate.REFUSED, Fate.BUSY)), "unknown: nothing is released"
    spark.store.land()
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    is_over(service, spark, 24)


def test_a_lost_segment_of_deleted_messages_is_called_lost(caplog: Any) -> None:
    _, spark = a_query(8, {**LOG, "fail_on_data_loss": False})
    spark.trigger(dies="planned")
    spark.start_only_the_process()
    assert spark.replays()
    spark.store.remove("seg/000000000001")
    spark.kill()
    spark.start_only_the_process()

    assert spark.replays() == []
    assert "its messages were deleted" in caplog.text


class Hung(AtOnce):
    """A thread that never ends the second call that it was given."""

    given = 0

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        self.given += 1
        return super().submit(call, *arguments) if self.given == 1 else Future()


def test_a_query_that_stops_while_a_batch_is_written_ahead_marks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two threads would use the log. A mark only saves work."""
    _, spark = a_query(60, LOG)
    make = spark.make_workers

    def make_workers(count: int, name: str) -> AtOnce:
        return Hung(count, name) if name == "prefetch" else make(count, name)

    monkeypatch.setattr(spark, "make_workers", make_workers)
    spark.start_only_the_process()
    consumer = spark.calls
    first = consumer.latest(consumer.initial, 8)
    assert consumer.plan(consumer.initial, first)
    second = consumer.latest(first, 8)
    assert consumer.plan(first, second)

    consumer.close()

    assert not [name for name in spark.store.objects if name.startswith("marks/")]


def test_what_waits_for_its_segment_is_renewed_for_as_long_as_a_batch_runs() -> None:
    service, spark = a_query(16, LOG)
    taken: list[Any] = []

    def long_work() -> None:
        assert len(service.views()) == 8, "leased ahead, and in no segment yet"
        for _ in range(5 * VISIBILITY_S // 10):
            spark.renew()
            service.pass_time(10)
            taken.extend(service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=32))

    spark.trigger(meanwhile=long_work)

    assert taken == []
    drain(spark)
    is_over(service, spark, 16)


def test_a_segment_has_the_receipts_of_what_was_renewed_while_it_waited() -> None:
    """So a process that is killed then leaves receipts behind that work."""
    service, spark = a_query(16)

    def long_work() -> None:
        for _ in range(5):
            service.pass_time(VISIBILITY_S / 2)
            spark.renew()

    spark.trigger(meanwhile=long_work)
    spark.trigger(dies="after_log")

    segment = decode_segment(spark.store.objects[f"seg/{segments(spark)[-1]:012d}"])
    assert len(segment.received) == 8
    receipts = {lease.pop_receipt for _, lease in segment.received}
    assert receipts == {view.receipt for view in service.views()}


def test_without_the_option_nothing_that_is_only_in_the_log_is_passed_over() -> None:
    service, spark = a_query(80, LOG)
    for _ in range(3):
        spark.trigger()
    spark.kill()
    assert segments(spark)[-1] == spark.checkpoint.commits + 1, "one is ahead"
    without = Spark(service, {}, checkpoint=SparkLogs(spark.checkpoint.offsets, 3))

    with pytest.raises(CheckpointMismatch, match="'writeAheadLog' is not set"):
        without.trigger()

    drain(spark)
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    is_over(service, spark, 80)


def test_a_store_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark kills a source that takes longer than some seconds. A mark only saves work."""
    _, spark = a_query(8, LOG)
    make = spark.make_workers

    def make_workers(count: int, name: str) -> Submits:
        return Workers(count, name) if name == "mark" else make(count, name)

    monkeypatch.setattr(spark, "make_workers", make_workers)
    spark.trigger()
    assert spark.consumer
    goes_on = threading.Event()
    spark.store.pause(0, lambda: goes_on.wait(30) and None)
    monkeypatch.setattr("spark_azqueue.source.log.consumer.LAST_WORDS_S", 0.05)

    spark.consumer.close()

    assert not goes_on.is_set()
    assert not [name for name in spark.store.objects if name.startswith("marks/")]
    goes_on.set()
