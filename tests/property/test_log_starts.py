"""Where a query with a write-ahead log starts: new, lost and rolled back checkpoints; refusals."""

from __future__ import annotations

from typing import Any

import pytest
from world.fates import Fate
from world.logged import LoggedSpark, Sink
from world.service import SOURCE, Service
from world.spark import VISIBILITY_S, Spark, SparkLogs

from spark_azqueue.errors import (
    CheckpointMismatch,
    LateSegment,
    LogConflict,
    LogDamaged,
    LostSegment,
)
from spark_azqueue.options.choices import DeleteAfter, LogStart
from spark_azqueue.running.supervisor import PERMANENT
from spark_azqueue.source.leases.timing import RENEWED_S

from .test_log_scenarios import a_query, bodies, drain, each_once, send

pytestmark = pytest.mark.usefixtures("simulated_time")

LOG = {"delete_after": DeleteAfter.LOG}
BARE = pytest.mark.parametrize("bare", [False, True], ids=["4.2", "4.0"])


def begin_anew(spark: LoggedSpark, **settings: Any) -> None:
    """Another checkpoint and output in front of a used log."""
    spark.stop()
    spark.checkpoint, spark.sink, spark.history = SparkLogs(), Sink(), {}
    spark.settings = {**spark.settings, **settings}


def names(spark: LoggedSpark, folder: str) -> set[str]:
    return {name for name in spark.store.objects if name.startswith(folder)}


@BARE
def test_a_start_that_is_refused_deletes_nothing(bare: bool) -> None:
    """4.0 asks for a batch before it says where it is: its messages wait for that."""
    service, spark = a_query(24, LOG)
    spark.bare = bare
    drain(spark)
    spark.stop()
    right = spark.checkpoint, spark.sink
    spark.checkpoint = SparkLogs()
    send(service, "new 1", "new 2")

    with pytest.raises(CheckpointMismatch, match="the checkpoint was lost"):
        spark.trigger()
    spark.stop()

    assert len(service.views()) == 2
    spark.checkpoint, spark.sink = right
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    assert bodies(spark) == [*each_once(24), "new 1", "new 2"]
    assert service.views() == []


@pytest.mark.parametrize("settings", [{}, LOG], ids=["commit", "log"])
def test_a_start_with_another_segment_is_refused_at_each_call_and_changes_nothing(
    settings: dict[str, Any],
) -> None:
    """The log is claimed by then; what follows the refusal, the end included, writes nothing."""
    service, spark = a_query(16, settings)
    spark.trigger()
    spark.kill()
    offset = {**spark.checkpoint.offsets[-1], "segment": "0" * 16}
    left, before = service.views(), {n for n in spark.store.objects if "claims/" not in n}
    spark.start_only_the_process()
    assert spark.consumer

    for _ in range(2):
        with pytest.raises(LogDamaged, match="not the segment that the checkpoint names"):
            spark.calls.latest(offset, 8)
    spark.stop()

    assert {n for n in spark.store.objects if "claims/" not in n} == before
    assert len(service.views()) == len(left)


def test_a_first_batch_of_another_log_is_refused() -> None:
    """A checkpoint from before the log names no log but in the batch that Spark asks for."""
    _, spark = a_query(16)
    spark.trigger(dies="after_log")
    spark.checkpoint.offsets[0] |= {"log": "0" * 32}

    with pytest.raises(CheckpointMismatch, match="belongs to another write-ahead log"):
        spark.start()


@pytest.mark.parametrize("more_s", [0, 1])
def test_a_restart_marks_only_that_it_leases_for_longer(more_s: int) -> None:
    """A process that comes after a kill waits for as long as the last one may have leased."""
    _, spark = a_query(16)
    spark.trigger()
    spark.kill()
    before = names(spark, "marks/")
    spark.next_start_with(visibilityTimeout=str(RENEWED_S + more_s))

    spark.start()
    assert spark.consumer
    spark.consumer.committed(spark.checkpoint.offsets[-1])

    assert (names(spark, "marks/") != before) == bool(more_s)


def test_what_a_new_checkpoint_leaves_out_is_said_once_and_a_restart_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, spark = a_query(24)
    drain(spark)
    spark.stop()
    drain(spark)
    assert "not delivered" not in caplog.text

    begin_anew(spark, start=LogStart.AFTER_COMMITTED)
    drain(spark)

    assert [text for text in caplog.messages if "not delivered" in text] == [
        "batches 1 to 3 are not delivered"
    ]


@BARE
@pytest.mark.parametrize("settings", [{}, LOG], ids=["commit", "log"])
def test_a_lost_checkpoint_gives_no_new_row_under_an_old_number(
    settings: dict[str, Any], bare: bool
) -> None:
    """Its output has batch 0, and the log has not heard of that commit."""
    service, spark = a_query(8, settings)
    spark.bare = bare
    spark.trigger(dies="after_sink")
    spark.checkpoint = SparkLogs()
    send(service, *(f"m{number}" for number in range(8, 16)))
    service.pass_time(2 * VISIBILITY_S)

    drain(spark)
    assert bodies(spark) == each_once(16)


@BARE
@pytest.mark.parametrize("choice", LogStart)
@pytest.mark.parametrize("later", ["kept", "removed", "changed"])
def test_a_rollback_to_the_first_batch_gives_its_rows_whatever_the_option_says(
    choice: LogStart, later: str, bare: bool
) -> None:
    service, spark = a_query(24)
    spark.bare = bare
    drain(spark)
    begin_anew(spark, start=choice)
    send(service, *(f"new {number}" for number in range(20)))
    drain(spark)
    before = dict(spark.sink.batches)
    assert len(before) >= 3
    spark.kill()
    if later == "removed":
        del spark.settings["start"]
    elif later == "changed":
        (spark.settings["start"],) = set(LogStart) - {choice}

    spark.checkpoint.commits, spark.sink.batches = 0, {}
    del spark.checkpoint.offsets[1:]
    drain(spark)

    assert spark.sink.rows() == Sink(before).rows()
    assert spark.sink.batches[0] == before[0]


def test_the_first_rollback_after_an_earlier_release_is_as_it_was() -> None:
    """Its log does not say where a checkpoint began: batch 1 of it is the first one."""
    service, spark = a_query(24, {"start": LogStart.AFTER_COMMITTED})
    drain(spark)
    before = dict(spark.sink.batches)
    spark.kill()
    spark.checkpoint.commits, spark.sink.batches = 0, {}
    del spark.checkpoint.offsets[1:]
    for name in names(spark, "marks/"):
        spark.store.remove(name)

    drain(spark)

    assert spark.sink.batches[0] == before[0]
    assert service.views() == []


@BARE
def test_a_refused_start_stops_no_query_that_runs(bare: bool) -> None:
    service, spark = a_query(24)
    spark.bare = bare
    spark.trigger()
    spark.trigger()
    claims = names(spark, "claims/")
    other = LoggedSpark(service, {}, bare=bare, store=spark.store.another(), checkpoint=SparkLogs())
    if bare:  # it says where it is, as after a restart
        other.checkpoint = SparkLogs([{**spark.checkpoint.offsets[0], "segment": "0" * 16}], 1)
        other.checkpoint.offsets[0]["log"] = "0" * 32

    with pytest.raises(CheckpointMismatch):
        other.trigger()
    other.stop()

    assert names(spark, "claims/") == claims
    drain(spark)
    assert bodies(spark) == each_once(24)


def test_a_start_with_another_queue_stops_no_query_that_runs() -> None:
    service, spark = a_query(24)
    spark.trigger()
    service.account.create("returns")
    other = LoggedSpark(
        service,
        {"queue": "returns"},
        store=spark.store.another(),
        checkpoint=SparkLogs(list(spark.checkpoint.offsets), 1),
    )

    with pytest.raises(CheckpointMismatch, match="another query"):
        other.trigger()
    other.stop()

    drain(spark)
    assert bodies(spark) == each_once(24)


def test_after_a_late_put_of_an_ended_process_another_start_goes_on() -> None:
    service, spark = a_query(8)
    spark.start()
    spark.store.next_puts(None, None, Fate.LATE)  # after the identity and the claim
    with pytest.raises(Exception, match="no answer"):
        spark.trigger()
    spark.kill()
    service.pass_time(2 * VISIBILITY_S)
    spark.start()
    spark.store.before_put_in("seg", lambda: spark.store.land() and None)

    with pytest.raises(LateSegment, match=r"segment 1 .*Start the query again") as caught:
        spark.trigger()
    spark.stop()

    assert isinstance(caught.value, LogConflict)
    assert type(caught.value).__name__ not in PERMANENT
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)
    assert bodies(spark) == each_once(8)
    assert service.views() == []


def test_a_number_of_a_checkpoint_that_no_log_ever_had_is_not_walked_up_to() -> None:
    service, spark = a_query(40, {"fail_on_data_loss": False})
    spark.trigger()
    spark.trigger(dies="after_log")
    spark.checkpoint.offsets[-1] |= {"batch": 10**12 - 20}

    drain(spark)
    service.pass_time(2 * VISIBILITY_S)
    send(service, "new")
    drain(spark)

    assert bodies(spark) == [*each_once(40), "new"]
    assert service.views() == []


def test_but_a_rollback_to_it_is_loud() -> None:
    _, spark = a_query(40)
    drain(spark)
    spark.roll_back(3)
    spark.store.remove("seg/000000000004")

    with pytest.raises(LostSegment, match=r"segment 4 .*write-ahead log"):
        drain(spark)


def test_a_lost_segment_that_is_needed_is_refused_with_the_option_s_name() -> None:
    _, spark = a_query(40)
    spark.trigger()
    spark.trigger()
    spark.trigger(dies="after_sink")
    spark.store.remove("seg/000000000003")

    with pytest.raises(LostSegment, match="failOnDataLoss=false"):
        spark.trigger()


@BARE
def test_earliest_gives_one_kept_batch_after_the_other(bare: bool) -> None:
    service, spark = a_query(80)
    spark.bare = bare
    drain(spark)
    begin_anew(spark, start=LogStart.EARLIEST)
    send(service, "new")

    drain(spark)

    assert max(map(len, spark.sink.batches.values())) == 8
    assert bodies(spark)[-1] == "new"
    assert len(bodies(spark)) > 40
    assert service.views() == []


@BARE
@pytest.mark.parametrize("choice", LogStart)
def test_a_rollback_to_before_the_log_loses_nothing_whatever_the_option_says(
    choice: LogStart, bare: bool
) -> None:
    """The log knows behind which batch of this checkpoint it began."""
    service = Service()
    service.account.create(SOURCE)
    send(service, *(f"m{number}" for number in range(40)))
    before = Spark(service, {}, bare=bare)
    before.trigger()
    before.trigger()
    before.stop()
    service.pass_time(2 * VISIBILITY_S)
    at = SparkLogs(list(before.offsets), before.checkpoint.commits)
    spark = LoggedSpark(service, {}, bare=bare, checkpoint=at, settings={"start": choice})
    drain(spark)
    rows = dict(spark.sink.batches)
    spark.kill()
    del at.offsets[2:]
    at.commits = 2
    send(service, *(f"new {number}" for number in range(8)))

    drain(spark)
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)

    assert {batch: spark.sink.batches[batch] for batch in rows} == rows
    assert [body for body in bodies(spark) if body[0] == "n"] == [f"new {n}" for n in range(8)]
    assert service.views() == []


@pytest.mark.parametrize("settings", [{}, LOG], ids=["commit", "log"])
def test_a_lost_checkpoint_of_one_batch_is_refused_though_its_queue_is_empty(
    settings: dict[str, Any],
) -> None:
    """The offset that 4.0 gets before it says where it is proves nothing of the checkpoint."""
    _, spark = a_query(8, settings)
    spark.bare = True
    spark.trigger(dies="after_sink")
    drain(spark)
    spark.stop()
    spark.checkpoint = SparkLogs()

    with pytest.raises(CheckpointMismatch, match="the checkpoint was lost"):
        drain(spark)


def test_a_new_checkpoint_that_was_killed_in_its_first_batch_is_known_without_the_option() -> None:
    """Its first batch was in the log already, so nothing new was written but a mark."""
    service, spark = a_query(16)
    spark.trigger()
    spark.trigger(dies="after_sink")
    begin_anew(spark, start=LogStart.AFTER_COMMITTED)
    spark.trigger(dies="planned")
    spark.settings = {}

    drain(spark)
    service.pass_time(2 * VISIBILITY_S)
    drain(spark)

    assert bodies(spark) == sorted(f"m{number}" for number in range(8, 16))
    assert service.views() == []


def test_a_checkpoint_that_is_lost_twice_is_refused_though_its_queue_is_empty() -> None:
    """The log knows where the first batch of the one that was tried in between began."""
    _, spark = a_query(16)
    spark.bare = True
    drain(spark)
    spark.kill()
    first = spark.sink, spark.history
    begin_anew(spark, start=LogStart.AFTER_COMMITTED)
    spark.start_only_the_process()
    end = spark.calls.latest(None, None)
    spark.calls.plan(spark.calls.initial, end)
    spark.kill()

    spark.checkpoint = SparkLogs()
    spark.sink, spark.history = first
    spark.settings = {}
    with pytest.raises(CheckpointMismatch, match="the checkpoint was lost"):
        spark.trigger()


@pytest.mark.parametrize("dies", ["", "after_log"], ids=["committed", "in the first batch"])
@pytest.mark.parametrize("bare", [False, True])
def test_a_log_that_was_deleted_is_told_to_be_empty_and_stays_so(dies: str, bare: bool) -> None:
    _, spark = a_query(8)
    spark.bare = bare
    spark.trigger(dies=dies)
    spark.kill()
    spark.store.objects.clear()

    for _ in range(2):
        with pytest.raises(CheckpointMismatch, match="memory:log is empty, and the checkpoint is"):
            spark.trigger()
        spark.kill()

    assert spark.store.objects == {}


# ── the newest segments are lost ──────────────────────────────────────────────────────────────────


def lose_newest(spark: LoggedSpark, left: int) -> None:
    """Somebody removes all segments but so many, and leaves the mark: a lifecycle rule, say."""
    spark.stop()
    for name in sorted(names(spark, "seg/"))[left:]:
        spark.store.remove(name)


def with_new_messages(service: Service, spark: LoggedSpark, dies: str) -> list[str] | None:
    """The query reads 24 new messages, with a kill. Returns their rows; None if it is refused."""
    send(service, *(f"new {number}" for number in range(24)))
    service.pass_time(2 * VISIBILITY_S)
    try:
        spark.trigger()
        if dies:
            spark.trigger(dies=dies)
        for _ in range(2):
            drain(spark)
            service.pass_time(2 * VISIBILITY_S)
        drain(spark)
    except (LostSegment, CheckpointMismatch):
        spark.stop()
        return None
    spark.stop()
    return sorted(body for body in bodies(spark) if body.startswith("new"))


NEW = sorted(f"new {number}" for number in range(24))
DIES = pytest.mark.parametrize("dies", ["", "after_log", "planned", "after_sink"])


@BARE
@DIES
@pytest.mark.parametrize("settings", [{}, LOG], ids=["commit", "log"])
@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("choice", list(LogStart))
def test_a_new_checkpoint_behind_lost_segments_loses_and_doubles_nothing(
    settings: dict[str, Any], bare: bool, left: int, choice: LogStart, dies: str
) -> None:
    """No number of a segment comes a second time, also if the newest ones were lost."""
    service, spark = a_query(24, settings)
    spark.bare = bare
    drain(spark)
    lose_newest(spark, left)
    begin_anew(spark, start=choice)

    rows = with_new_messages(service, spark, dies)
    if rows is None:
        spark.settings = {**spark.settings, "fail_on_data_loss": False}
        rows = with_new_messages(service, spark, dies)
        assert rows == sorted([*NEW, *NEW]), "those of both tries, once each"
    else:
        assert rows == NEW
    assert service.views() == []


@BARE
@DIES
@pytest.mark.parametrize("settings", [{}, LOG], ids=["commit", "log"])
@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_so_does_the_checkpoint_of_the_log(
    settings: dict[str, Any], bare: bool, is_rolled_back: bool, dies: str
) -> None:
    service, spark = a_query(24, settings)
    spark.bare = bare
    drain(spark)
    lose_newest(spark, 2)
    if is_rolled_back:
        del spark.checkpoint.offsets[2:]
        spark.checkpoint.commits = 2
        spark.sink.batches.pop(2)
    spark.history.clear()

    assert with_new_messages(service, spark, dies) is None
    spark.settings = {**spark.settings, "fail_on_data_loss": False}
    assert with_new_messages(service, spark, dies) == sorted([*NEW, *NEW])
    assert service.views() == []
