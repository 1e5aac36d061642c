"""Batch writes with numbers (`txnVersion`): whatever is killed, skipped, repeated or run beside
another, a write that ends without an error is visible in whole and once, and what was recorded is
visible, or its record is there for `finish`.

The real Transactions, log and show over a log and queues in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from budget import EXAMPLES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from log_stores import MemoryLogStore
from world.fates import Fate
from world.transactions import (
    QUERY,
    HiddenQueues,
    Process,
    Rows,
    of_service,
    small,
    twice,
)
from world.turns import Killed
from world.writes import Writes

from spark_azqueue.errors import (
    AzQueueError,
    LogDamaged,
    QueueNotFound,
    ServiceError,
    TransactionExpired,
    TransactionUnknown,
)
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.sink.transaction import commit, names, task
from spark_azqueue.sink.transaction.commit import Committed, Transactions
from spark_azqueue.sink.transaction.inspect import discard, finish, records
from spark_azqueue.sink.transaction.listing import Listing, Step
from spark_azqueue.sink.transaction.log import TransactionLog
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.task import Writer

QUEUE = "aaa"
KEY = names.batch_key("shop", QUEUE, "app")


def rows_of(number: int) -> Rows:
    return [(QUEUE, f"{number}-{n}", 3600 * (n % 4 == 3)) for n in range(1 + number * 3 % 8)]


class Machine(Writes):
    """One `txnAppId`, whose numbers grow; each attempt is a process of its own.

    It may go on with a higher number whatever became of the one before, as a nightly job does, and
    a foreachBatch that catches errors.
    """

    queues = (QUEUE,)

    def __init__(self) -> None:
        super().__init__()
        self.newest = 0
        self.run = self.new_id()
        self.recorded: set[int] = set()
        self.succeeded: set[int] = set()

    def writes_without(self, what: int) -> None:
        self.attempt(self.newest + what % 2)

    def process(self, number: int, *, each_batch: bool, lossy: bool = False) -> Process:
        writer = Writer(QUERY, self.run, number) if each_batch else Writer()
        named = {"queue": QUEUE, "txnAppId": "app", "txnVersion": str(number)}
        return Process.of(self.service, self.log, writer, lossy=lossy, **named)

    def attempt(
        self,
        number: int,
        *,
        kill: int = -1,
        beside: tuple[int, Callable[[], None]] | None = None,
        late: bool = False,
        each_batch: bool = False,
        lossy: bool = False,
    ) -> None:
        self.newest = max(self.newest, number)
        process = self.process(number, each_batch=each_batch, lossy=lossy)
        if kill >= 0:
            process.steps.at(kill, self.kill)
        if beside:
            process.steps.at(*beside)
        if late:
            process.store.next_puts(*[None] * (number % 4), Fate.LATE)
        below = self.standing()
        try:
            plan = process.plan()
            given = process.tasks(plan, rows_of(number))
            try:
                process.commit(plan, given)
            except AzQueueError:
                process.transactions.abort(plan, given, is_missing=False)
                raise
        except (TransactionExpired, QueueNotFound):
            self.told |= {number} | below
        except LogDamaged:
            assert self.is_damaged, "nothing was damaged"
        except (Killed, AzQueueError):
            pass
        else:
            self.succeeded.add(number)
            if lossy:
                self.told |= {number} | below
        self.recorded |= self.standing()

    def standing(self) -> set[int]:
        return set(names.records_in(names.all_parsed(self.log.objects)).get(KEY, ()))

    def kill(self) -> None:
        raise Killed

    @rule(more=st.integers(1, 3), each_batch=st.booleans())
    def a_write(self, more: int, each_batch: bool) -> None:
        self.attempt(self.newest + more, each_batch=each_batch)

    @rule(more=st.integers(1, 2), kill=st.integers(0, 30), each_batch=st.booleans())
    def is_killed(self, more: int, kill: int, each_batch: bool) -> None:
        self.attempt(self.newest + more, kill=kill, each_batch=each_batch)

    @rule(back=st.integers(0, 4), kill=st.integers(-1, 20), each_batch=st.booleans())
    def is_repeated(self, back: int, kill: int, each_batch: bool) -> None:
        if self.newest - back > 0:
            self.attempt(self.newest - back, kill=kill, each_batch=each_batch)

    @rule(at=st.integers(0, 30), more=st.integers(1, 2), kill=st.integers(-1, 25))
    def the_next_begins_beside_it(self, at: int, more: int, kill: int) -> None:
        number = self.newest + 1
        self.attempt(number, beside=(at, lambda: self.attempt(number + more, kill=kill)))

    @rule(at=st.integers(0, 30))
    def runs_twice(self, at: int) -> None:
        number = self.newest + 1
        self.attempt(number, beside=(at, lambda: self.attempt(number)))

    @rule(more=st.integers(1, 2))
    def a_put_into_the_log_gets_no_answer(self, more: int) -> None:
        self.attempt(self.newest + more, late=True)

    @rule()
    def starts_again(self) -> None:
        self.run = self.new_id()

    @rule(back=st.integers(0, 1))
    def goes_on_without(self, back: int) -> None:
        if self.newest - back > 0:
            self.attempt(self.newest - back, lossy=True)

    @rule(discards=st.booleans())
    def an_operator_finishes(self, discards: bool) -> None:
        process = self.process(self.newest, each_batch=False)
        config, client = process.config, process.client
        log = TransactionLog(process.store, "shop")
        for each in records(log):
            if each.is_finished:
                continue
            try:
                if discards:
                    self.told.add(each.record.head.transaction.number)
                    discard(config, log, client, each)
                elif each.is_newest:
                    finish(config, log, client, each)
            except (TransactionExpired, QueueNotFound):
                self.told.add(each.record.head.transaction.number)
            except ServiceError:
                pass  # the next operator finishes it

    @rule(delete=st.booleans())
    def is_cleared(self, delete: bool) -> None:
        self.service.clear(QUEUE, delete=delete)

    @rule(seconds=st.sampled_from([1, 3600, 86_400, 8 * 86_400]))
    def time_passes(self, seconds: int) -> None:
        self.service.pass_time(seconds)

    def is_visible(self, number: int) -> bool:
        return all(
            self.service.shown.get(row) or row in self.service.destroyed
            for _, row, _ in rows_of(number)
        )

    @invariant()
    def no_row_is_visible_twice(self) -> None:
        assert not {row for row in twice(self.service) if self.is_promised(row)}

    def is_promised(self, row: str) -> bool:
        return int(row.split("-")[0]) not in self.forgiven

    @invariant()
    def what_ended_without_an_error_is_visible(self) -> None:
        for number in self.succeeded - self.told - self.forgiven:
            assert self.is_visible(number), number

    @invariant()
    def what_was_recorded_is_visible_or_its_record_is_there(self) -> None:
        self.recorded |= self.standing()
        for number in self.recorded - self.told - self.standing() - self.forgiven:
            assert self.is_visible(number), number


Machine.TestCase.settings = settings(max_examples=2 * EXAMPLES, stateful_step_count=30)
TestMachine = Machine.TestCase


# ── each rule taken away: a scenario that holds with it fails without it ──────────────────────────


class Writes:
    """Writes of one `txnAppId`, each by a process of its own."""

    def __init__(self) -> None:
        self.service = HiddenQueues()
        self.log = MemoryLogStore(kind=TRANSACTIONS)

    def process(self, number: int, writer: Writer | None = None, **options: str) -> Process:
        named = {"queue": QUEUE, "txnAppId": "app", "txnVersion": str(number)}
        return Process.of(self.service, self.log, writer or Writer(), **named | options)

    def write(self, number: int, kill: int = -1) -> Committed | None:
        """None if it was killed before this call."""
        process = self.process(number)
        if kill >= 0:
            process.steps.at(kill, killed)
        try:
            return process.run(rows_of(number))
        except Killed:
            return None

    def are_visible(self, *numbers: int) -> None:
        assert not twice(self.service)
        for number in numbers:
            assert all(row in self.service.shown for _, row, _ in rows_of(number)), number


def killed() -> None:
    raise Killed


def the_next_number_after_a_kill() -> None:
    for kill in range(30):
        writes = Writes()
        done = writes.write(5, kill)
        is_recorded = names.record(Transaction(KEY, 5)) in writes.log.objects
        assert writes.write(6)
        writes.are_visible(6, *([5] if done or is_recorded else []))


def an_older_number_that_never_was() -> None:
    for kill in (-1, 0, 2):
        writes = Writes()
        if kill >= 0:
            writes.write(5, kill)
        writes.write(6)
        try:
            writes.write(5)
        except TransactionUnknown as error:
            is_told = error.condition is Condition.TRANSACTION_NOT_WRITTEN
        else:
            is_told = False
        assert is_told, "it ended without an error, and nothing of it is visible"


def an_older_number_that_is_written() -> None:
    writes = Writes()
    for number in (1, 2, 5, 6):
        writes.write(number)
    for number in (1, 2, 5):
        done = writes.write(number)
        assert done
        assert (done.step, done.is_skipped) == (Step.OVER, True)
        assert "this txnVersion was written before" in done.in_words()
    writes.are_visible(1, 2, 5, 6)


def two_numbers_at_once() -> None:
    """The process of 6 has looked for a record below; then that of 5 records, and is killed."""
    record = names.record(Transaction(KEY, 5))
    stayed = 0
    for at in range(12):
        for kill in range(12):
            writes = Writes()
            later = writes.process(6)
            plan = later.plan()
            given = later.tasks(plan, rows_of(6))

            def five(writes: Writes = writes, kill: int = kill) -> None:
                with suppress(TransactionUnknown):  # if 6 was recorded before it began
                    writes.write(5, kill)

            later.steps.at(at, five)
            later.commit(plan, given)
            was_recorded = record in writes.log.objects
            writes.write(7)
            is_there = record in writes.log.objects
            stayed += is_there
            if was_recorded and not is_there:
                writes.are_visible(5)
            writes.are_visible(6, 7)
    assert stayed


def repeated_within_a_batch_of_its_stream() -> None:
    """A foreachBatch that tries again after an error: this very run wrote the record."""
    for kill in range(20):
        writes = Writes()
        for number in (4, 5, 5):
            one = writes.process(number, Writer(QUERY, "1" * 32, number))
            if number == 5:
                one.steps.at(kill, killed)
                kill = 99
            with suppress(Killed):
                one.run(rows_of(number))
        writes.are_visible(4, 5)


def never_finished(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transactions, "finish_below", lambda *a: None)


def all_are_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "is_known", lambda *a: True)


def none_is_known(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task, "holds", lambda *a: False)


def all_are_cleaned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionLog, "finished", lambda *a: set(range(10)))


def any_record_is_a_strangers(patch: pytest.MonkeyPatch) -> None:
    real = Listing.check_stranger
    patch.setattr(Listing, "check_stranger", lambda self, one, run, _: real(self, one, run, ""))


RULES: dict[str, tuple[Callable[[], None], Callable[[pytest.MonkeyPatch], None]]] = {
    "the newest is finished before a higher one is recorded": (
        *(the_next_number_after_a_kill, never_finished),
    ),
    "an older number is not known to be written": (an_older_number_that_never_was, all_are_written),
    "a record knows what is written": (an_older_number_that_is_written, none_is_known),
    "a record without its final mark stays": (two_numbers_at_once, all_are_cleaned),
    "a run knows its own record": (
        *(repeated_within_a_batch_of_its_stream, any_record_is_a_strangers),
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    of_service(HiddenQueues(), monkeypatch)
    scenario, take_away = RULES[name]
    scenario()
    take_away(monkeypatch)
    with pytest.raises((AssertionError, AzQueueError)):
        scenario()


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("is_new_run", [False, True])
def test_a_number_whose_record_was_lost_is_not_written_a_second_time(
    is_new_run: bool,
    is_stream: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody removed the newest record, and left its mark."""
    small(monkeypatch)
    service = HiddenQueues()
    of_service(service, monkeypatch)
    log, first = MemoryLogStore(kind=TRANSACTIONS), "1" * 32

    def write(number: int, run: str, **given: str) -> Committed:
        if is_stream:
            process = Process.of(service, log, Writer(QUERY, run, number), queue=QUEUE, **given)
        else:
            more = {"txnAppId": "app", "txnVersion": str(number), **given}
            process = Process.of(service, log, Writer(), queue=QUEUE, **more)
        return process.run(rows_of(number))

    for number in range(4):
        write(number, first)
    key = names.stream_key(QUERY) if is_stream else KEY
    del log.objects[names.record(Transaction(key, 3))]
    run = "2" * 32 if is_new_run else first

    for number in (2, 3):
        with pytest.raises(
            TransactionUnknown, match=r"number 3 was recorded .* its record is missing"
        ):
            write(number, run)
    assert not twice(service)
    with caplog.at_level("WARNING"):
        write(3, run, failOnDataLoss="false")
    assert "its record is missing" in caplog.text
    assert twice(service), "as the option says"
