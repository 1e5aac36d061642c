"""A query with a write-ahead log: scenarios that a test of random steps meets too seldom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from log_stores import MemoryLogStore
from segments import a_message
from world.fates import Fate
from world.logged import LoggedSpark, Sink
from world.service import SOURCE, Service
from world.spark import VISIBILITY_S, Spark, SparkLogs

from spark_azqueue.errors import (
    CheckpointMismatch,
    LogConflict,
    LogDamaged,
    LostSegment,
    ServiceError,
)
from spark_azqueue.options.choices import DeleteAfter, LogStart
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.log.segment import decode_segment

pytestmark = pytest.mark.usefixtures("simulated_time")


def a_query(
    texts: int = 8, settings: dict[str, Any] | None = None, **options: str
) -> tuple[Service, LoggedSpark]:
    service = Service()
    service.account.create(SOURCE)
    send(service, *(f"m{number}" for number in range(texts)))
    return service, LoggedSpark(service, options, settings=settings or {})


def send(service: Service, *texts: str) -> None:
    for text in texts:
        service.account.queue(SOURCE).put(text, now=service.clock.now())


def drain(spark: LoggedSpark) -> None:
    while spark.trigger():
        pass


def bodies(spark: LoggedSpark) -> list[str]:
    return sorted(body for _, body in spark.sink.rows().elements())


def each_once(count: int) -> list[str]:
    return sorted(f"m{number}" for number in range(count))


@pytest.mark.parametrize("fault", [Fate.LOST_BEFORE, Fate.LOST_AFTER, Fate.LATE])
def test_nothing_is_released_after_a_put_without_an_answer(fault: Fate) -> None:
    """The segment may stand, or appear later: what is in it belongs to it."""
    service, spark = a_query()
    spark.start()
    spark.store.next_puts(None, None, fault)  # after the identity and the claim

    with pytest.raises(ServiceError):
        spark.trigger()
    spark.stop()

    assert service.releases == 0
    assert [view.visible for view in service.views()] == [False] * 8
    landed = spark.store.land()
    assert len(landed) == (fault is Fate.LATE)
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    assert bodies(spark) == each_once(8)
    assert service.views() == []


@pytest.mark.parametrize("fault", [Fate.REFUSED, Fate.BUSY])
def test_after_a_refused_put_the_messages_are_there_for_others_at_once(fault: Fate) -> None:
    service, spark = a_query()
    spark.start()
    spark.store.next_puts(None, None, fault)

    with pytest.raises(ServiceError):
        spark.trigger()

    assert [view.visible for view in service.views()] == [True] * 8
    spark.stop()
    drain(spark)
    assert bodies(spark) == each_once(8)


def test_only_after_the_commit_a_message_is_deleted() -> None:
    service, spark = a_query()

    spark.trigger(meanwhile=lambda: spark.consumer and spark.consumer.engine.wait(10.0))

    assert len(service.views()) == 8
    assert not spark.trigger()
    assert service.views() == []


def test_a_restart_reads_the_batch_that_it_repeats_once() -> None:
    _, spark = a_query()
    spark.trigger(dies="after_log")
    before = len(spark.store.calls)

    spark.start_only_the_process()
    assert len(spark.replays()) == 1

    reads = [call for call in spark.store.calls[before:] if call == ("get", "seg/000000000001")]
    assert len(reads) == 2, "its header, then all of it"
    assert spark.replays() == spark.replays()


@pytest.mark.parametrize("bare", [False, True], ids=["4.2", "4.0"])
@pytest.mark.parametrize("dies", ["", "after_log", "after_sink"])
def test_a_checkpoint_from_before_the_log_goes_on(dies: str, bare: bool) -> None:
    service = Service()
    service.account.create(SOURCE)
    send(service, *(f"m{number}" for number in range(20)))
    before = Spark(service, {}, bare=bare)
    before.trigger()
    before.trigger(dies=dies)
    before.kill()
    committed = set(before.committed_texts)
    service.pass_time(2 * VISIBILITY_S)  # what was leased ahead comes back

    at = SparkLogs(list(before.offsets), before.checkpoint.commits)
    spark = LoggedSpark(service, {}, bare=bare, checkpoint=at)
    drain(spark)

    assert service.views() == []
    assert sorted({*committed, *bodies(spark)}) == each_once(20)
    assert len(bodies(spark)) + len(committed) == 20
    assert at.offsets[-1]["version"] == 2
    numbers = [offset["batch"] for offset in at.offsets]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("bare", [False, True], ids=["4.2", "4.0"])
def test_a_log_over_a_checkpoint_without_deleting_deletes_nothing_of_it(bare: bool) -> None:
    service = Service()
    service.account.create(SOURCE)
    send(service, *(f"m{number}" for number in range(8)))
    before = Spark(service, {"deleteOnCommit": "false"}, bare=bare)
    before.trigger()
    before.stop()

    at = SparkLogs(list(before.offsets), before.checkpoint.commits)
    spark = LoggedSpark(service, {}, bare=bare, checkpoint=at)
    drain(spark)

    assert len(service.views()) == 8, "whether the user has acknowledged them is not known"


def test_a_checkpoint_with_a_log_is_refused_without_it() -> None:
    service, spark = a_query()
    spark.trigger()
    spark.kill()
    without = Spark(service, {}, checkpoint=SparkLogs(spark.checkpoint.offsets, 1))

    with pytest.raises(CheckpointMismatch, match=r"'writeAheadLog' is not set.*availableNow"):
        without.trigger()

    assert len(service.views()) == 8, "nothing was deleted"


def test_an_offset_is_small_and_holds_no_receipt() -> None:
    service, spark = a_query()
    spark.trigger()

    (offset,) = spark.checkpoint.offsets

    assert len(json.dumps(offset)) < 220
    assert not any(view.receipt in json.dumps(offset) for view in service.views())


@pytest.mark.parametrize("when", ["before the start", "before the plan"])
def test_with_fail_on_data_loss_false_a_lost_segment_is_empty_and_comes_again(when: str) -> None:
    service, spark = a_query(24, {"fail_on_data_loss": False})
    spark.trigger()
    spark.trigger(dies="planned")
    spark.start_only_the_process()
    if when == "before the plan":
        assert spark.replays()
        spark.history.clear()
    spark.store.remove("seg/000000000002")

    assert spark.replays() == []
    spark.history.clear()
    spark.start()
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)

    assert spark.sink.batches[1] == []
    assert bodies(spark) == each_once(24)
    assert service.views() == []
    spark.stop()
    send(service, "new")
    drain(spark)
    assert bodies(spark)[-1] == "new", "the gap is no news at the next start"


def test_a_new_checkpoint_in_front_of_a_used_log_is_refused() -> None:
    _, spark = a_query(16)
    drain(spark)
    spark.stop()
    spark.checkpoint, spark.sink, spark.history = SparkLogs(), Sink(), {}

    with pytest.raises(CheckpointMismatch, match=r"memory:log.*writeAheadLogStart=afterCommitted"):
        spark.trigger()


def test_a_refused_start_is_refused_again_and_changes_nothing_for_the_right_one() -> None:
    service, spark = a_query(16)
    drain(spark)
    spark.stop()
    right = spark.checkpoint, spark.sink, spark.history
    send(service, "new")
    marks = {name for name in spark.store.objects if not name.startswith("claims/")}

    for _ in range(3):  # as a supervisor does
        spark.checkpoint, spark.sink, spark.history = SparkLogs(), Sink(), {}
        with pytest.raises(CheckpointMismatch, match="the checkpoint was lost"):
            spark.trigger()
        with pytest.raises(CheckpointMismatch, match="the checkpoint was lost"):
            spark.trigger()
        spark.stop()

    assert {name for name in spark.store.objects if not name.startswith("claims/")} == marks
    spark.checkpoint, spark.sink, spark.history = right
    drain(spark)
    assert sorted(bodies(spark)) == sorted([*each_once(16), "new"])


@pytest.mark.parametrize(
    ("choice", "expected"), [(LogStart.EARLIEST, 16), (LogStart.AFTER_COMMITTED, 0)]
)
def test_or_it_gets_what_the_option_says(choice: LogStart, expected: int) -> None:
    service, spark = a_query(16)
    drain(spark)
    spark.stop()
    spark.checkpoint, spark.sink, spark.history = SparkLogs(), Sink(), {}
    spark.settings = {"start": choice}
    send(service, "new 1", "new 2")

    drain(spark)
    drain(spark)

    found = bodies(spark)
    assert len(found) == expected + 2
    assert found[-2:] == ["new 1", "new 2"]
    assert service.views() == []


def test_a_rollback_within_the_retention_gives_the_same_batches_again() -> None:
    service, spark = a_query(96)
    drain(spark)
    assert spark.checkpoint.commits == 12
    before = dict(spark.sink.batches)
    spark.roll_back(9)
    spark.sink.batches = {batch: rows for batch, rows in before.items() if batch < 3}
    send(service, "new")

    drain(spark)

    assert {batch: spark.sink.batches[batch] for batch in before} == before
    assert [body for _, body in spark.sink.batches[12]] == ["new"]
    assert service.views() == []


@pytest.mark.parametrize("is_ours", [False, True])
def test_the_messages_of_a_put_that_found_its_name_taken_are_given_back(is_ours: bool) -> None:
    """Unless the put has worked, and only the claim is gone: then the next run gives them out."""
    service, spark = a_query()
    spark.start()
    other = WriteAheadLog(spark.store.another(), "memory", 10)

    def somebody_claims_the_log() -> None:
        queue = QueueRef("memory", SOURCE)
        other.open()
        other.claim(0)
        if not is_ours:
            other.put(Contents([a_message(queue=queue)], (1,), None, (queue,), {}), LogProgress())

    spark.store.before_put_in("seg", somebody_claims_the_log)

    with pytest.raises(LogConflict):
        spark.trigger()

    assert [view.visible for view in service.views()] == [not is_ours] * 8


def test_a_rollback_beyond_the_retention_is_loud() -> None:
    _, spark = a_query(8 * 40)
    drain(spark)
    spark.roll_back(30)

    with pytest.raises(LostSegment, match=r"were removed \(see writeAheadLogRetention\)"):
        spark.trigger()


def test_or_goes_on_behind_what_was_removed() -> None:
    service, spark = a_query(8 * 40, {"fail_on_data_loss": False})
    drain(spark)
    kept = sorted(name for name in spark.store.objects if name.startswith("seg/"))
    spark.roll_back(30)
    spark.sink, spark.history = Sink(), {}

    drain(spark)

    assert len(spark.sink.batches) == len(kept)
    assert service.views() == []


def test_the_folder_of_a_query_of_other_queues_is_refused() -> None:
    service, spark = a_query()
    drain(spark)
    spark.stop()
    service.account.create("returns")
    spark.restart_with(queue="returns")

    with pytest.raises(CheckpointMismatch, match=r"\['orders'\].*another query"):
        spark.trigger()


def test_available_now_gives_out_what_stands_in_the_log() -> None:
    service, spark = a_query()
    spark.trigger(dies="before_log")
    spark.available_now = True
    spark.start()
    service.pass_time(5)
    send(service, "later")

    drain(spark)

    assert bodies(spark) == each_once(8)


def test_a_query_that_is_restarted_again_and_again_owes_nothing() -> None:
    service, spark = a_query(0)
    for run in range(60):
        send(service, f"m{run}")
        drain(spark)
        spark.stop()

    assert bodies(spark) == each_once(60)
    newest = max(name for name in spark.store.objects if name.startswith("seg/"))
    assert decode_segment(spark.store.objects[newest]).header.progress.pending == ()
    assert sum(name.startswith("seg/") for name in spark.store.objects) <= 13
    assert sum(name.startswith("claims/") for name in spark.store.objects) == 1
    assert sum(name.startswith("marks/") for name in spark.store.objects) <= 1


def test_a_restart_reads_only_what_is_not_done() -> None:
    """One list, one header, and the segments above `done`: not the whole log."""
    _, spark = a_query(8 * 40)
    drain(spark)
    spark.stop()
    spark.store.calls.clear()

    spark.trigger()

    read = {name for method, name in spark.store.calls if method == "get" and "seg/" in name}
    assert len(read) <= 2


def test_a_queue_whose_messages_are_not_deleted_yet_is_not_left_out() -> None:
    service = Service()
    for name in (SOURCE, "returns"):
        service.account.create(name)
        service.account.queue(name).put(f"from {name}", now=service.clock.now())
    spark = LoggedSpark(service, {"queue": f"{SOURCE},returns"})
    spark.trigger(dies="after_sink")
    spark.restart_with(queue=SOURCE)

    with pytest.raises(CheckpointMismatch, match=r"\['returns'\], which are not deleted yet"):
        spark.trigger()

    spark.kill()
    spark.restart_with(queue=f"{SOURCE},returns")
    drain(spark)
    spark.restart_with(queue=SOURCE)
    drain(spark)
    assert service.views("returns") == []


def test_another_segment_under_the_number_that_the_checkpoint_names_is_loud() -> None:
    """As after a backup was restored: rows of one would be given out for the other."""
    service, spark = a_query()
    spark.trigger(dies="after_log")
    elsewhere = MemoryLogStore()
    elsewhere.objects["log.json"] = spark.store.objects["log.json"]
    other = WriteAheadLog(elsewhere, "memory", 10)
    other.open()
    other.claim(0)
    queue = QueueRef("memory", SOURCE)
    other.put(Contents([a_message(queue=queue)], (1,), None, (queue,), {}), LogProgress())
    spark.store.objects["seg/000000000001"] = elsewhere.objects["seg/000000000001"]

    with pytest.raises(LogDamaged, match="not the segment that the checkpoint names"):
        spark.trigger()

    assert len(service.views()) == 8


def newest_pending(spark: LoggedSpark) -> list[int]:
    """When the messages expire that the newest header or mark owes: seconds since 1970."""
    found = [LogProgress()]
    for name, data in spark.store.objects.items():
        if name.startswith("seg/"):
            found.append(decode_segment(data).header.progress)
        elif name.startswith("marks/"):
            found.append(LogProgress.from_mark(data, account="memory"))
    return [pending.expires for pending in max(found, key=lambda each: each.age).pending]


def test_an_owed_delete_is_forgotten_a_day_after_its_message_has_expired() -> None:
    service, spark = a_query(0)
    began, hour = int(service.clock.now()), 3_600
    service.account.queue(SOURCE).put("short", now=began, ttl=hour)
    spark.trigger()
    service.pass_time(2 * hour)
    drain(spark)  # its delete is refused: the message has expired
    spark.stop()
    assert newest_pending(spark) == [began + hour]

    service.pass_time(10 * hour)
    send(service, "m0")
    drain(spark)
    spark.stop()
    assert newest_pending(spark) == [began + hour], "the service's clock and ours may differ"

    service.pass_time(20 * hour)
    spark.start()
    assert spark.consumer
    spark.calls.latest(spark.checkpoint.offsets[-1], None)
    assert (log := spark.consumer.report().log)
    assert log.pending_deletes == 0, "an idle query knows it, too"
    send(service, "m1")
    drain(spark)
    spark.stop()
    assert newest_pending(spark) == []
    assert bodies(spark) == ["m0", "m1", "short"]


def test_the_log_reports_what_it_holds() -> None:
    service, spark = a_query(20)
    spark.start()
    assert spark.consumer
    assert spark.consumer.report().log is None, "nothing was claimed"
    spark.trigger()
    spark.trigger(meanwhile=lambda: spark.consumer and spark.consumer.engine.wait(10.0))

    report = spark.consumer.report().log

    sizes = {n: len(d) for n, d in spark.store.objects.items() if n.startswith("seg/")}
    assert report
    assert (report.segments, report.bytes) == (3, sum(sizes.values())), "one was written ahead"
    assert (report.uncommitted, report.seen, report.pending_deletes) == (2, 12, 0)
    assert report.put_seconds == 0.0

    spark.kill()
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    report = spark.consumer.report().log
    assert report
    assert (report.segments, report.uncommitted, report.seen) == (3, 0, 0)
    assert report.bytes == sum(sizes.values()), "what was listed at the start counts"


def test_what_the_log_holds_stays_within_the_retention() -> None:
    _, spark = a_query(8 * 40)
    drain(spark)

    assert spark.consumer
    report = spark.consumer.report().log
    segments = [data for name, data in spark.store.objects.items() if name.startswith("seg/")]
    assert report
    assert (report.segments, report.bytes) == (len(segments), sum(map(len, segments)))
    assert report.segments < 14


@pytest.mark.parametrize("settings", [{"delete_after": each} for each in DeleteAfter], ids=str)
def test_after_a_kill_one_line_says_how_many_messages_are_leased_no_more(
    settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """A healthy batch of a run that was killed. With deleteAfter=log none is leased on."""
    service, spark = a_query(8, settings)
    spark.trigger(dies="planned")
    service.pass_time(2 * VISIBILITY_S)
    service.account.queue(SOURCE).dequeue(now=service.clock.now(), count=8, visibility=1)
    spark.start_only_the_process()
    spark.replays()

    spark.renew()

    assert "was lost" not in caplog.text
    told = [
        each
        for each in caplog.messages
        if "8 messages of logged batches were no longer leased" in each
    ]
    assert len(told) == (settings["delete_after"] is DeleteAfter.COMMIT)
    assert all("no action is needed" in each for each in told)
    spark.kill()
    drain(spark)
    assert bodies(spark) == each_once(8)
