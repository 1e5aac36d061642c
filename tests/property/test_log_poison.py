"""Poison messages in a query with a write-ahead log.

As in test_exactly_once.py, and some messages make their batch fail, for ever. After each step:

1. a message is gone only if the sink has its row, a poison queue has its copy, or somebody else
   deleted it;
2. no message gives a row twice, unless a batch that held it was given up;
3. a batch that is asked for again gives the same rows, or none if it was given up;
and at the end everything is processed and the queue is empty.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from budget import more, some
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from world.fates import Fate
from world.logged import LoggedSpark
from world.process import Simulated
from world.service import POISON, SOURCE, Service
from world.spark import VISIBILITY_S, FencedError

from spark_azqueue.errors import AccessDenied, LogConflict, LogDamaged, ServiceError, TooManyPoison
from spark_azqueue.journal.codec import sealed, unsealed
from spark_azqueue.options.choices import DeleteAfter
from spark_azqueue.options.parsers import Retention
from spark_azqueue.source.log.segment import decode_segment
from spark_azqueue.source.suspects import REPEATS

from .test_exactly_once import ExactlyOnce, TwoDrivers, WithSurprises
from .test_promises import planning_ahead, run_machine

pytestmark = pytest.mark.usefixtures("simulated_time")


def messages_given_up(spark: LoggedSpark) -> set[str]:
    """Ids of the messages in segments that were given up, as long as the log keeps these."""
    found = set()
    for number in spark.given_up():
        if data := spark.store.objects.get(f"seg/{number:012d}"):
            found |= {message.message_id for message in decode_segment(data).messages}
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
    """Three queues; options change, checkpoints are rolled back."""

    options: ClassVar[dict[str, str]] = {"parallelism": "2", "maxDequeueCount": "2"}

    @rule(batches=st.integers(1, 14))
    def the_checkpoint_is_rolled_back(self, batches: int) -> None:
        self.spark.store.forget_pauses()  # killed in between, it would stay rolled back
        super().the_checkpoint_is_rolled_back(batches)

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


MACHINES = [
    Poisoned,
    PoisonedOnOldSpark,
    planning_ahead(Poisoned),
    planning_ahead(Poisoned, 1),
    PoisonedWithSurprises,
    PoisonedWithTwoDrivers,
]


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
        assert spark.runs <= max(maximum, 5) + 8


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


@pytest.mark.parametrize("after_a_put", [False, *more(True)], ids=["before a call", "after a put"])
def test_killed_at_any_step_nothing_is_lost_and_the_guilty_is_found(after_a_put: bool) -> None:
    calls, _ = run_to_the_end(None)
    for kill_at in some(range(calls)):
        run_to_the_end(kill_at, after_a_put=after_a_put)


# ── what was given up, and what never is ──────────────────────────────────────────────────────────


def outcomes(spark: LoggedSpark) -> dict[int, str]:
    """The verdicts in the log, by batch."""
    return {
        int(name.removeprefix("outcomes/")): str(unsealed(data)["outcome"])  # type: ignore[index]
        for name, data in spark.store.objects.items()
        if name.startswith("outcomes/")
    }


def fail_until_given_up(spark: LoggedSpark) -> None:
    for _ in range(20):
        if spark.given_up():
            return
        spark.trigger()
    raise AssertionError("nothing is given up")


def keep_failing(service: Service, spark: LoggedSpark) -> None:
    """Whatever the batch does now, it is not given up; then it is corrected."""
    for _ in range(6):
        spark.trigger()
    assert spark.given_up() == set()

    spark.is_poison = lambda _: False
    drain(service, spark)

    assert written(spark) == [f"m{number}" for number in range(8)]


def roll_back_and_keep_failing(service: Service, spark: LoggedSpark) -> None:
    spark.checkpoint.commits, spark.sink.batches = 0, {}
    spark.is_poison = lambda body: body == "m3"
    keep_failing(service, spark)


def test_a_batch_that_was_given_up_is_told(caplog: Any) -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1")

    drain(service, spark)

    assert "batch 1 of the write-ahead log memory:log (segment " in caplog.text
    assert f"failed {REPEATS} times and is abandoned" in caplog.text
    assert "its 8 messages come again" in caplog.text
    assert "was dead-lettered in 'orders-poison': 10 batches with it failed in a" in caplog.text
    assert {"split", "poison", "committed"} == set(outcomes(spark).values())


@pytest.mark.parametrize("fault", Fate)
def test_nothing_is_released_before_the_verdict_is_durable(fault: Fate) -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1")
    for _ in range(REPEATS):
        spark.trigger()
    spark.store.before_put_in("outcomes", lambda: spark.store.next_puts(fault))

    with pytest.raises(ServiceError):
        spark.trigger()

    assert service.releases == 0
    spark.kill()
    spark.store.land()
    service.pass_time(2 * VISIBILITY_S)
    drain(service, spark)
    assert aside(service) == ["m3"]
    assert len(written(spark)) == 7


def keep_triggering(spark: LoggedSpark) -> None:
    for _ in range(20):
        spark.trigger()


def test_nothing_is_deleted_or_noted_before_the_copy() -> None:
    service, spark = a_query(1, "m0", maxDequeueCount="1")
    service.meet("put", Fate.BUSY, times=1_000)

    with pytest.raises(ServiceError, match="could not put into queue 'orders-poison'"):
        keep_triggering(spark)

    assert len(service.views()) == 1
    assert "poison" not in outcomes(spark).values()
    spark.kill()
    service.end_faults()
    drain(service, spark)
    assert aside(service) == ["m0"]
    assert service.views() == []


def test_a_batch_that_gets_another_try_keeps_its_rows_in_that_run() -> None:
    """Whatever other processes leave in the log meanwhile."""
    _, spark = a_query(8, maxDequeueCount="2")
    spark.trigger(dies="after_log")
    spark.start_only_the_process()
    rows = spark.planned(0)
    assert sum(map(len, rows)) == 8

    for number in range(3):
        spark.store.put_new(f"attempts/000000000001-{number:032x}", sealed({}))

    assert spark.planned(0) == rows
    assert outcomes(spark) == {}


@pytest.mark.parametrize("notes", ["noted", "killed at once"])
def test_a_batch_that_was_committed_is_not_given_up_after_a_rollback(notes: str) -> None:
    """Its messages are deleted: they could not come again."""
    service, spark = a_query(8, maxDequeueCount="1")
    spark.trigger()
    assert spark.consumer
    spark.consumer.committed(spark.checkpoint.offsets[0])
    spark.consumer.engine.wait(10.0)
    assert service.views() == []
    spark.stop() if notes == "noted" else spark.kill()
    roll_back_and_keep_failing(service, spark)


def test_nor_one_with_tries_that_was_committed_without_a_maximum() -> None:
    """The maximum is removed after a failure, and set again later: its messages are deleted."""
    service, spark = a_query(8, "m3", maxDequeueCount="1")
    spark.trigger()
    spark.trigger()  # one try; the next one would give it up
    del spark.options["maxDequeueCount"]
    spark.restart_with()
    spark.is_poison = lambda _: False
    spark.start()
    assert spark.consumer
    spark.consumer.committed(spark.checkpoint.offsets[0])
    spark.consumer.engine.wait(10.0)
    assert service.views() == []
    assert outcomes(spark) == {1: "committed"}

    spark.kill()  # before it notes that
    spark.next_start_with(maxDequeueCount="1")
    roll_back_and_keep_failing(service, spark)


def test_a_batch_that_another_process_has_given_up_is_not_deleted_by_who_gave_it_out() -> None:
    """It was believed dead in the middle of the batch, and comes back when the others are gone."""
    service, first = a_query(8, maxDequeueCount="1")
    others = LoggedSpark(
        service,
        dict(first.options),
        store=first.store.another(),
        checkpoint=first.checkpoint,
        sink=first.sink,
        history=first.history,
        is_poison=lambda _: True,  # so that none of what comes again is committed
    )

    def meanwhile() -> None:
        fail_until_given_up(others)
        assert first.sink.batches[0] == [], "the others have written it, without a row"
        others.kill()
        first.checkpoint.commits = 0  # before they could commit it

    assert first.trigger(meanwhile=meanwhile), "it commits the batch, of which the sink has no row"
    with pytest.raises(LogConflict):
        first.trigger()
    first.kill()

    assert len(service.views()) == 8
    service.pass_time(2 * VISIBILITY_S)
    others.is_poison = lambda _: False
    drain(service, others)
    assert written(others) == [f"m{number}" for number in range(8)]


def test_nor_when_the_log_does_not_keep_that_verdict_any_more() -> None:
    """It renews its leases, so only a look at the claim keeps it from deleting them."""
    service, first = a_query(8, maxDequeueCount="1")
    first.settings = {"retention": Retention(1)}
    others = LoggedSpark(
        service,
        dict(first.options),
        settings=first.settings,
        store=first.store.another(),
        checkpoint=first.checkpoint,
        sink=first.sink,
        history=first.history,
        is_poison=lambda body: body == "m3",
    )

    def meanwhile() -> None:
        service.pass_time(VISIBILITY_S / 2 + 1)
        first.renew()  # the receipts in the log are void now
        consumer, offset = first.consumer, first.checkpoint.offsets[0]
        fail_until_given_up(others)
        for number in range(5):
            service.account.queue(SOURCE).put(f"new {number}", now=service.clock.now())
            others.trigger()
        others.kill()
        assert "outcomes/000000000001" not in first.store.objects

        assert consumer
        with pytest.raises(LogConflict):
            consumer.committed(offset)
        consumer.engine.wait(10.0)

    with pytest.raises(FencedError):
        first.trigger(meanwhile=meanwhile)

    assert {f"m{number}" for number in range(8)} <= {view.text for view in service.views()}


def test_deletes_after_log_leave_what_was_given_up() -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1")
    fail_until_given_up(spark)
    spark.kill()
    del spark.options["maxDequeueCount"]
    spark.settings = {"delete_after": DeleteAfter.LOG}
    spark.restart_with()
    spark.is_poison = lambda _: False

    drain(service, spark)

    assert written(spark) == [f"m{number}" for number in range(8)]
    assert service.views() == []


@pytest.mark.parametrize("written_by", DeleteAfter)
def test_what_deletes_after_log_have_deleted_is_not_given_up(
    written_by: DeleteAfter, caplog: pytest.LogCaptureFixture
) -> None:
    service, spark = a_query(8, "m3")
    del spark.options["maxDequeueCount"]
    spark.settings = {"delete_after": written_by}
    spark.restart_with()
    spark.trigger()
    if written_by is DeleteAfter.COMMIT:
        spark.settings = {"delete_after": DeleteAfter.LOG}
        spark.trigger()
    assert spark.consumer is None
    spark.settings = {}
    spark.restart_with(maxDequeueCount="1")
    assert service.views() == []
    keep_failing(service, spark)
    assert "maxDequeueCount cannot abandon batch 1, which runs again" in caplog.text


def test_a_suspect_that_was_never_given_out_is_not_poison() -> None:
    """It is alone in a segment, and the process was killed before Spark heard of it."""
    service, spark = a_query(2, "m0", "m1", maxDequeueCount="1")
    for _ in range(REPEATS + 1):
        spark.trigger()
    assert outcomes(spark)[1] == "split"
    spark.is_poison = lambda _: False
    spark.dies_at(0, after_a_put=True)
    while spark.consumer is not None or not spark.store.objects.get("seg/000000000002"):
        spark.dies_at(0, after_a_put=True)
        spark.trigger()

    drain(service, spark)

    assert aside(service) == []
    assert written(spark) == ["m0", "m1"]


def test_the_search_goes_on_after_a_restart() -> None:
    service, spark = a_query(64, "m40", maxDequeueCount="3", maxMessagesPerTrigger="64")
    fail_until_given_up(spark)
    spark.kill()
    spark.is_poison = lambda _: False  # so that each batch is in the sink
    service.pass_time(VISIBILITY_S + 1)
    while spark.trigger():
        spark.stop()  # for whatever reason, after each batch

    sizes = [len(rows) for rows in spark.sink.batches.values()]
    assert max(sizes) < 32


def test_an_available_now_run_gives_up_and_comes_to_an_end() -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1")
    spark.available_now = True

    drain(service, spark)

    assert aside(service) == ["m3"]
    assert len(written(spark)) == 7


@pytest.mark.parametrize("how", ["a byte", "another word"])
def test_a_verdict_that_cannot_be_read_stops_the_query(how: str) -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1")
    fail_until_given_up(spark)
    spark.kill()
    spark.checkpoint.commits = 0
    name = "outcomes/000000000001"
    if how == "a byte":
        spark.store.damage(name)
    else:
        spark.store.objects[name] = sealed({"outcome": "perhaps"})

    with pytest.raises(LogDamaged, match=f"'{name}' in the write-ahead log memory:log is not as"):
        spark.trigger()

    assert len(service.views()) == 8


# ── the brake, and what outlives a restart ────────────────────────────────────────────────────────


def test_too_many_poison_messages_end_the_query_and_none_is_moved() -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1", maxPoisonMessages="0")

    with pytest.raises(TooManyPoison, match="'maxPoisonMessages'"):
        drain(service, spark)
    spark.kill()
    with pytest.raises(TooManyPoison):
        drain(service, spark)

    assert aside(service) == []
    spark.kill()
    spark.next_start_with(maxPoisonMessages="100")
    drain(service, spark)
    assert aside(service) == ["m3"]
    assert written(spark) == sorted({f"m{number}" for number in range(8)} - {"m3"})


def test_after_too_many_the_corrected_code_runs_once_without_the_maximum() -> None:
    service, spark = a_query(8, "m3", maxDequeueCount="1", maxPoisonMessages="0")
    with pytest.raises(TooManyPoison, match="start once with maxDequeueCount=none"):
        drain(service, spark)
    spark.kill()
    spark.is_poison = lambda _: False
    del spark.options["maxDequeueCount"], spark.options["maxPoisonMessages"]
    spark.next_start_with()
    drain(service, spark)
    assert aside(service) == []
    assert written(spark) == sorted(f"m{number}" for number in range(8))


def test_a_sink_that_is_down_convicts_nothing() -> None:
    service, spark = a_query(40, maxDequeueCount="2", maxMessagesPerTrigger="40")
    spark.is_poison = lambda _: True
    for _ in range(60):
        spark.trigger()
        service.pass_time(1)
    assert len(aside(service)) <= 1

    spark.is_poison = lambda _: False
    drain(service, spark)

    assert len(written(spark)) + len(aside(service)) == 40
    assert len(aside(service)) <= 1


def test_histories_are_in_the_log_and_outlive_each_process() -> None:
    service, spark = a_query(64, "m7", maxDequeueCount="2")
    for _ in range(REPEATS + 1):
        spark.trigger()
    names = sorted(name for name in spark.store.objects if name.startswith("outcomes/"))
    known = unsealed(spark.store.objects[names[-1]])
    assert isinstance(known, dict)
    assert known["suspects"]["suspects"]
    drain(service, spark)
    assert aside(service) == ["m7"]


def test_without_the_right_to_its_poison_queue_a_message_blocks_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is delivered again, and fails again, with other messages between."""

    def denied(*_: object) -> None:
        raise AccessDenied("could not create queue 'orders-poison': HTTP 403", status=403)

    real = LoggedSpark.config
    monkeypatch.setattr(Simulated, "create", denied)
    monkeypatch.setattr(  # as with the default, which a start without the right only warns of
        LoggedSpark, "config", lambda self: replace(real(self), asks_for_poison=False)
    )
    service = Service()
    service.account.create(SOURCE)
    for each in range(8):
        service.account.queue(SOURCE).put(f"m{each}", now=service.clock.now())
    spark = LoggedSpark(service, {"maxDequeueCount": "5"}, is_poison="m3".__eq__)
    number = 8
    for step in range(300):
        if step % 4 == 0 and number < 40:
            service.account.queue(SOURCE).put(f"m{number}", now=service.clock.now())
            number += 1
        spark.trigger()
        service.pass_time(5)
    good = sorted(f"m{each}" for each in range(40) if each != 3)
    assert sorted(body for _, body in spark.sink.rows().elements()) == good
    assert any(view.text == "m3" for view in service.views()), "it is still there"
