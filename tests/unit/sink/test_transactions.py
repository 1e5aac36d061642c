"""Transactions step by step over the fake: who may show what, and each rule taken away once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from transactions import NOW, QUERY, Process, WrittenQueue
from world.fates import Fate
from world.turns import Killed

from spark_azqueue.errors import ServiceError, TransactionConflict, TransactionUnknown
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.transaction import commit as committing
from spark_azqueue.sink.transaction import listing as listings
from spark_azqueue.sink.transaction import log as logs
from spark_azqueue.sink.transaction import show as showing
from spark_azqueue.sink.transaction.commit import Transactions
from spark_azqueue.sink.transaction.inspect import discard, records
from spark_azqueue.sink.transaction.listing import Step
from spark_azqueue.sink.transaction.log import TransactionLog, TransactionRecord
from spark_azqueue.sink.transaction.names import HIGHEST_TXN_VERSION, Transaction, stream_key
from spark_azqueue.sink.transaction.record import Hidden, RecordHead
from spark_azqueue.sink.transaction.task import Writer
from spark_azqueue.testing import FakeClock, FakeQueueService, Fault


@pytest.fixture
def world() -> Iterator[WrittenQueue]:
    with FakeQueueService(FakeClock(NOW, frozen=True)) as fake:
        fake.create_queue("orders")
        yield WrittenQueue(fake)


def dies_after_recording(process: Process) -> None:
    """The process ends right after its next put into the log."""
    original = process.store.put_new

    def put_new(name: str, data: bytes) -> bool:
        created = original(name, data)
        if name.count("-") == 1:
            raise Killed
        return created

    process.store.put_new = put_new  # type: ignore[method-assign]


def meanwhile(process: Process, happens: Callable[[], object]) -> None:
    """This happens once, right after the process has written its record."""
    original = process.store.put_new

    def put_new(name: str, data: bytes) -> bool:
        created = original(name, data)
        if name.count("-") == 1:
            process.store.put_new = original  # type: ignore[method-assign]
            happens()
        return created

    process.store.put_new = put_new  # type: ignore[method-assign]


# ── the ordinary way ──────────────────────────────────────────────────────────────────────────────


def test_nothing_is_visible_before_the_record(world: WrittenQueue) -> None:
    process = world.process()
    plan = process.plan()
    prepared = process.tasks(0, ["a", "b"], ["c"], [], plan=plan)
    assert (world.visible(), world.hidden()) == ([], 3)

    done = process.commit(prepared, plan)
    assert (done.step, done.rows, done.shown.shown) == (Step.WRITE, 3, 3)
    assert world.visible() == ["a", "b", "c"]


def test_only_the_newest_record_and_its_mark_stay(world: WrittenQueue) -> None:
    process = world.process()
    for batch in range(4):
        process.write(batch, [f"m{batch}"])
    names = [name for name in world.store.objects if name != "log.json"]
    assert sorted(name.count("-") for name in names) == [1, 2, 3], "a head, the run's start, a mark"
    assert world.visible() == ["m0", "m1", "m2", "m3"]


def test_the_head_says_when_the_first_message_expires(world: WrittenQueue) -> None:
    """Whichever task put it, and at whichever place."""
    for lives in ([[60, 30, 90], [600]], [[600], [90, 30]], [[30], []], [[], [90, 30, 60]]):
        one = world.process()
        plan = one.plan()
        queue = QueueRef("fakeaccount", "orders")
        prepared = []
        for task in lives:
            hidden = [
                Hidden(Lease(queue, f"id-{life}", "receipt"), 0, NOW + 86_400 + life)
                for life in task
            ]
            writer = Writer(QUERY, one.run, 0)
            prepared.append(writer.prepared(len(hidden), hidden, 0, plan.log))
        one.commit(prepared, plan)
        newest = next(iter(records(TransactionLog(world.store.another(), "fakeaccount"))))
        assert newest.record.head.expires == NOW + 86_400 + 30
        world.store.objects.clear()


def test_parts_chunks_and_marks_of_a_large_batch(
    world: WrittenQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_azqueue.sink.transaction import record

    monkeypatch.setattr(logs, "CHUNK_ROWS", 5)
    monkeypatch.setattr(record, "INLINE_AT_MOST", 10)
    monkeypatch.setattr(record, "PART_BYTES", 500)
    monkeypatch.setattr(showing, "MARK_EVERY", 7)
    sent = [f"m{number}" for number in range(60)]
    first = world.process()
    plan = first.plan()
    prepared = first.tasks(0, sent[:33], sent[33:], plan=plan)
    marks = []
    original = first.store.put_new

    def put_new(name: str, data: bytes) -> bool:
        if "-m" in name:
            marks.append(name)
            if len(marks) == 3:
                raise Killed
        return original(name, data)

    first.store.put_new = put_new  # type: ignore[method-assign]
    with pytest.raises(Killed):
        first.commit(prepared, plan)
    assert any("-p" in name for name in world.store.objects)
    assert 14 <= len(world.visible()) < 60

    second = world.process(run=1)
    done = second.write(0, sent[:33], sent[33:])
    assert world.visible() == sorted(sent)
    assert done.step is Step.SHOW
    marked = int(marks[1].partition("-m")[2])  # answers come in any order, so 14 at least
    assert marked >= 14
    assert done.shown.shown + done.shown.before == 60 - marked, "the marked ones are left alone"
    assert not any("-p" in name for name in world.store.objects), "parts go when all is shown"


def test_a_delay_begins_with_the_put(world: WrittenQueue) -> None:
    process = world.process(visibilityDelay="100")
    plan = process.plan()
    prepared = process.tasks(0, ["a"], plan=plan)
    world.fake.clock.advance(60)
    world.process(visibilityDelay="100").commit(prepared, plan)
    assert world.visible() == []
    world.fake.clock.advance(42)
    assert world.visible() == ["a"]


def test_a_put_without_a_receipt_is_put_again(world: WrittenQueue) -> None:
    world.fake.faults.add(Fault("put", "reply_lost", nth=2))
    process = world.process()
    done = process.write(0, ["a", "b", "c"])
    assert world.visible() == ["a", "b", "c"]
    assert (done.abandoned, world.hidden()) == (1, 1)


@pytest.mark.parametrize(
    ("puts", "hidden"),
    [
        ((Fate.REFUSED,), 0),  # the start of the run
        ((None, Fate.REFUSED), 0),  # the record
        ((None, Fate.BUSY), 0),
        ((None, Fate.LOST_BEFORE), 2),
        ((None, Fate.LATE), 2),
        ((None, Fate.LOST_AFTER), 2),
    ],
)
def test_what_no_record_can_hold_is_deleted(
    world: WrittenQueue, puts: tuple[Fate | None, ...], hidden: int
) -> None:
    """As on a full disk; what may be recorded after all is left alone."""
    process = world.process()
    plan = process.plan()
    prepared = process.tasks(0, ["a", "b"], plan=plan)
    process.store.next_puts(*puts)
    with pytest.raises(ServiceError):
        process.commit(prepared, plan)
    assert world.fake.count("orders") == hidden
    assert (process.transactions.may_be_recorded, process.transactions.left) == (hidden > 0, 0)


# ── repeated, late, beside each other ─────────────────────────────────────────────────────────────


def a_late_record_of_an_old_batch(world: WrittenQueue) -> None:
    """It lands when the query is two batches further: nobody ever shows it."""
    first = world.process()
    plan = first.plan()
    prepared = first.tasks(0, ["a"], plan=plan)
    first.store.next_puts(None, Fate.LATE)
    with pytest.raises(ServiceError):
        first.commit(prepared, plan)
    second = world.process(run=1)
    for batch, body in enumerate("abc"):
        second.write(batch, [body])
    first.store.land()
    for newest in records(TransactionLog(world.store.another(), "fakeaccount")):
        assert newest.is_finished
    world.process(run=2).write(0, ["a"])
    assert world.visible() == ["a", "b", "c"]


def a_task_failed(world: WrittenQueue) -> None:
    process = world.process()
    plan = process.plan()
    prepared = process.tasks(0, ["a"], plan=plan)
    assert world.process().transactions.abort(plan, prepared, is_missing=True) == 0
    assert world.fake.count("orders") == 0
    process.write(0, ["a"], ["b"])
    assert world.visible() == ["a", "b"]


def an_answer_of_the_head_is_lost(world: WrittenQueue) -> None:
    """The store's put is repeated, and finds its own object."""
    process = world.process()
    original = process.store.put_new

    def put_new(name: str, data: bytes) -> bool:
        original(name, data)
        return name.count("-") != 1

    process.store.put_new = put_new  # type: ignore[method-assign]
    assert process.write(0, ["a"]).step is Step.WRITE
    assert world.visible() == ["a"]


def stale_tasks_of_an_old_batch(world: WrittenQueue) -> None:
    """They were planned before it was recorded, and are committed two batches later."""
    late = world.process()
    plan = late.plan()
    prepared = late.tasks(0, ["a"], plan=plan)
    process = world.process(run=1)
    process.write(0, ["a"])
    process.write(1, ["b"])
    with pytest.raises(TransactionConflict):
        late.commit(prepared, plan)
    assert world.visible() == ["a", "b"]


def a_discarded_record(world: WrittenQueue) -> None:
    """Half of it is visible; the rest is deleted, and a repeated batch puts nothing anew."""
    first = world.process()
    plan = first.plan()
    prepared = first.tasks(0, ["a"], ["b"], plan=plan)
    dies_after_recording(first)
    with pytest.raises(Killed):
        first.commit(prepared, plan)
    log = TransactionLog(world.store.another(), "fakeaccount")
    client = QueueClient(first.config.account)
    (newest,) = records(log)
    found = discard(first.config, log, client, newest)
    assert (found.deleted, found.left) == (2, 0)
    world.process(run=1).write(0, ["a"], ["b"])
    world.process(run=1).write(1, ["c"])
    assert world.visible() == ["c"]
    client.close()


SCENARIOS = [
    a_late_record_of_an_old_batch,
    a_task_failed,
    an_answer_of_the_head_is_lost,
    stale_tasks_of_an_old_batch,
    a_discarded_record,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.__name__)
def test_each_row_is_visible_once(
    world: WrittenQueue, scenario: Callable[[WrittenQueue], None]
) -> None:
    scenario(world)


# ── each rule taken away ──────────────────────────────────────────────────────────────────────────


def _abort_never_deletes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "abort", lambda *_, **__: 0)


def _no_nonce(patch: pytest.MonkeyPatch) -> None:
    """A record that was found is taken for a stranger's, and the own messages are deleted."""
    numbers = iter(range(10**6))
    patch.setattr(committing, "nonce_of", lambda _: f"{next(numbers):032x}")

    def show_nothing(*_: Any, **__: Any) -> showing.Shown:
        return showing.Shown()

    original = committing.show

    def show(*args: Any, is_ours: bool, **more: Any) -> showing.Shown:
        if not is_ours:
            return show_nothing()
        return original(*args, is_ours=is_ours, **more)

    patch.setattr(committing, "show", show)


def _discard_removes_the_head(patch: pytest.MonkeyPatch) -> None:
    def mark(self: TransactionLog, head: Any, count: int, told: Any) -> None:
        if "discarded" in told:
            self.store.delete(logs.names.record(head.transaction))

    patch.setattr(TransactionLog, "mark", mark)


TAKEN_AWAY = [
    (_abort_never_deletes, a_task_failed),
    (_no_nonce, an_answer_of_the_head_is_lost),
    (_discard_removes_the_head, a_discarded_record),
]


@pytest.mark.parametrize(("take_away", "scenario"), TAKEN_AWAY, ids=lambda each: each.__name__)
def test_without_the_rule_it_fails(
    world: WrittenQueue,
    monkeypatch: pytest.MonkeyPatch,
    take_away: Callable[[pytest.MonkeyPatch], None],
    scenario: Callable[[WrittenQueue], None],
) -> None:
    take_away(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, TransactionConflict)):
        scenario(world)


# ── a log that is emptied beside writers, and starts of runs that last ────────────────────────────


def test_a_log_that_is_emptied_between_plan_and_commit_shows_nothing(world: WrittenQueue) -> None:
    """The first process records and shows; then the folder is emptied; the second knows the old."""
    world.process().write(0, ["a"])
    first, second = world.process(run=1), world.process(run=2)
    plans = first.plan(), second.plan()
    prepared = [
        each.tasks(1, ["b"], plan=plan) for each, plan in zip((first, second), plans, strict=True)
    ]
    first.commit(prepared[0], plans[0])
    world.store.objects.clear()
    late = world.process(run=2, failOnDataLoss="false")
    with pytest.raises(TransactionUnknown, match="was emptied or replaced"):
        late.commit(prepared[1], late.plan())
    assert world.visible() == ["a", "b"]


def test_a_log_that_is_emptied_behind_the_record_shows_nothing(world: WrittenQueue) -> None:
    process = world.process()
    plan = process.plan()
    prepared = process.tasks(0, ["a"], plan=plan)
    meanwhile(process, world.store.objects.clear)
    with pytest.raises(TransactionUnknown, match="was emptied or replaced"):
        process.commit(prepared, plan)
    assert world.visible() == []


def test_a_run_that_lasts_keeps_a_start(
    world: WrittenQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listings, "START_EVERY", 2)
    monkeypatch.setattr(listings, "STARTS_KEPT", 4)
    process, copy = world.process(), world.process(run=1)
    for batch in range(12):
        process.write(batch, [])
    copy.write(11, ["lost, as a replay"])
    copy.write(12, ["x"])
    starts = listings.Listing.of("", world.store.names("txn")).starts
    assert len(starts) == 2
    with pytest.raises(TransactionConflict, match="copied checkpoint"):
        process.write(12, ["y"])


def test_a_record_with_a_far_number_does_not_say_that_later_batches_are_written(
    world: WrittenQueue,
) -> None:
    """Anyone who may write into the folder can put one: batches would be passed over for ever."""
    world.process().write(0, ["a"])
    log = TransactionLog(world.store.another(), "fakeaccount")
    log.open()
    head = RecordHead(
        Transaction(stream_key(QUERY), HIGHEST_TXN_VERSION),
        "9" * 32,
        "",
        log.account,
        QUERY,
        0,
        0,
        0,
        0,
        (),
    )
    assert log.put_head(TransactionRecord(head, b""))

    with pytest.raises(TransactionUnknown, match=r"does not say that batch 1 .* Nothing was sent"):
        world.process(1).write(1, ["b"])
    assert world.visible() == ["a"]
    passed_over = world.process(2, failOnDataLoss="false").write(1, ["b"])
    assert (passed_over.step, world.visible()) == (Step.OVER, ["a"])
