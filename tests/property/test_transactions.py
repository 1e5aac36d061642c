"""The transactional sink: however its processes are killed, repeated and interleaved, no row is
visible twice, and a batch that Spark committed is visible in whole, unless the loss was told.

The real Transactions, log and show over a log and queues in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from budget import EXAMPLES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from log_stores import MemoryLogStore
from world.fates import Fate
from world.transactions import (
    QUERY,
    WEEK,
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
    LogConflict,
    LogDamaged,
    Outcome,
    QueueNotFound,
    ServiceError,
    TransactionConflict,
    TransactionExpired,
    TransactionUnknown,
)
from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.service import messages
from spark_azqueue.service.incoming import Answer
from spark_azqueue.service.messages import Message, QueueRef
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.sink.requests import EnqueueRow, HiddenRow
from spark_azqueue.sink.transaction import commit, names, record
from spark_azqueue.sink.transaction.commit import Transactions
from spark_azqueue.sink.transaction.listing import Listing, Step
from spark_azqueue.sink.transaction.log import TransactionLog
from spark_azqueue.sink.transaction.names import ObjectKind, RecordName, Transaction
from spark_azqueue.sink.transaction.task import Writer
from spark_azqueue.source.intake import backlog

QUEUES = ("aaa", "bbb", "ccc")
KEY = names.stream_key(QUERY)


def rows_of(query: str, batch: int) -> Rows:
    count = batch * 3 % 8
    return [(QUEUES[n % 3], f"{query}-{batch}-{n}", 3600 * (n % 4 == 3)) for n in range(count + 1)]


class Machine(Writes):
    """One query, and perhaps a copy of its checkpoint; each attempt is a process of its own."""

    queues = QUEUES

    def __init__(self) -> None:
        super().__init__(self.recorded)
        self.next = {"q": 0}
        self.run_of = {"q": self.new_id()}
        self.done: set[int] = set()
        self.lossy = False

    def writes_without(self, what: int) -> None:
        self.attempt("q")

    def recorded(self, row: str) -> None:
        """Nothing of a batch is shown that has no record."""
        number = int(row.split("-")[1])
        assert names.record(Transaction(KEY, number)) in self.log.objects

    def process(self, query: str) -> Process:
        writer = Writer(QUERY, self.run_of[query], self.next[query])
        return Process.of(self.service, self.log, writer, lossy=self.lossy)

    def attempt(
        self, query: str, kill: int = -1, zombie: int = -1, late: bool = False, abandoned: int = 0
    ) -> None:
        process, batch = self.process(query), self.next[query]
        if kill >= 0:
            process.steps.at(kill, self.kill)
        try:
            plan = process.plan()
            given = process.tasks(plan, rows_of(query, batch), 2 + batch % 2, abandoned)
            if zombie >= 0:
                process.steps.at(zombie, lambda: self.beside(query, zombie % 3))
            if late:
                parts = len(record.placed([c for p in given for c in p.chunks])[1])
                start = plan.listing.start(process.transaction(plan), process.writer.run) is None
                process.store.next_puts(*[None] * (parts + start), Fate.LATE)
            try:
                found = process.commit(plan, given)
            except AzQueueError:
                cleaner = self.process(query)
                if late:
                    cleaner.steps.at(1, process.store.land)
                cleaner.transactions.abort(plan, given, is_missing=False)
                process.store.land()
                raise
        except Killed:
            self.restart(query)
        except (TransactionExpired, QueueNotFound):
            self.told.add(batch)
            self.lossy = True
            self.restart(query)
        except TransactionUnknown:
            assert self.is_damaged, "the log has every batch"
            self.restart(query)
        except LogDamaged:
            assert self.is_damaged, "nothing was damaged"
            self.restart(query)
        except AzQueueError:
            self.restart(query)
        else:
            if self.next[query] != batch:
                return  # Spark's own log of commits stops the one that comes second
            self.next[query] = batch + 1
            self.lossy = False
            if found.shown.vanished or found.shown.expired:
                self.told.add(batch)
            if query == "q" and len(self.next) == 1:
                self.done.add(batch)
            if zombie < 0 and found.step is not Step.OVER:
                self.only_newest_is_left(batch)

    def kill(self) -> None:
        raise Killed

    def restart(self, query: str) -> None:
        self.run_of[query] = self.new_id()

    def beside(self, query: str, more: int) -> None:
        """While a process pauses, its successors do their work."""
        self.restart(query)
        for _ in range(1 + more):
            self.attempt(query)

    def only_newest_is_left(self, batch: int) -> None:
        left = names.all_parsed(self.log.objects)
        left = tuple(each for each in left if each.number not in self.forgiven)
        for each in left:
            if each.kind is not ObjectKind.START and each.number <= batch:
                assert each.number == batch, each
                assert each.kind is not ObjectKind.PART, each
        assert (
            len({each.tag for each in left if (each.kind, each.number) == (ObjectKind.MARK, batch)})
            < 2
        )

    @rule(abandoned=st.integers(0, 2))
    def batch(self, abandoned: int) -> None:
        self.attempt("q", abandoned=abandoned)

    @rule(kill=st.integers(0, 40))
    def killed(self, kill: int) -> None:
        self.attempt("q", kill=kill)

    @rule(zombie=st.integers(0, 40))
    def a_zombie(self, zombie: int) -> None:
        self.attempt("q", zombie=zombie)

    @rule()
    def commit_gets_no_answer(self) -> None:
        self.attempt("q", late=True)

    @rule()
    def a_task_fails(self) -> None:
        process = self.process("q")
        try:
            plan = process.plan()
            given = process.tasks(plan, rows_of("q", self.next["q"]))
            process.transactions.abort(plan, given[:1], is_missing=True)
        except TransactionConflict:
            assert len(self.next) == 2
            process.transactions.abort(plan, [], is_missing=True)
        except ServiceError:
            pass  # the log does not answer
        self.restart("q")

    @rule()
    def starts_again(self) -> None:
        self.restart("q")

    @rule(back=st.integers(1, 5))
    def rolls_back(self, back: int) -> None:
        self.next["q"] = max(0, self.next["q"] - back)
        self.restart("q")

    @rule()
    def is_copied(self) -> None:
        if "c" not in self.next:
            self.next["c"] = self.next["q"]
            self.restart("c")

    @rule()
    def the_copy_goes_on(self) -> None:
        if "c" in self.next and self.next["c"] <= self.newest() + 1:
            self.attempt("c")

    @rule(queue=st.sampled_from(QUEUES), delete=st.booleans())
    def is_cleared(self, queue: str, delete: bool) -> None:
        self.service.clear(queue, delete=delete)

    @rule(seconds=st.sampled_from([1, 3600, 86_400, 8 * 86_400]))
    def time_passes(self, seconds: int) -> None:
        self.service.pass_time(seconds)

    def newest(self) -> int:
        found = names.records_in(names.all_parsed(self.log.objects)).get(KEY)
        return found[-1] if found else -1

    @invariant()
    def no_row_is_visible_twice(self) -> None:
        assert not {row for row in twice(self.service) if self.is_promised(row)}

    def is_promised(self, row: str) -> bool:
        return int(row.split("-")[1]) not in self.forgiven

    @invariant()
    def what_spark_committed_is_visible(self) -> None:
        for batch in self.done - self.told - self.forgiven:
            for _, row, _ in rows_of("q", batch):
                assert self.service.shown.get(row) or row in self.service.destroyed, row


Machine.TestCase.settings = settings(max_examples=2 * EXAMPLES, stateful_step_count=40)
TestMachine = Machine.TestCase


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> HiddenQueues:
    made = HiddenQueues()
    small(monkeypatch)
    of_service(made, monkeypatch)
    return made


@pytest.fixture
def log() -> MemoryLogStore:
    return MemoryLogStore(kind=TRANSACTIONS)


RUN, OTHER = "1" * 32, "2" * 32


def process(
    service: HiddenQueues, log: MemoryLogStore, batch: int = 0, run: str = RUN, lossy: bool = False
) -> Process:
    return Process.of(service, log, Writer(QUERY, run, batch), lossy=lossy)


def six(batch: int = 0, who: str = "q", queues: tuple[str, ...] = QUEUES) -> Rows:
    return [(queues[n % len(queues)], f"{who}-{batch}-{n}", 0) for n in range(6)]


def test_who_misses_a_part_of_a_batch_that_is_over_is_not_told_of_damage(
    service: HiddenQueues, log: MemoryLogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = process(service, log)
    plan = late.plan()
    given = late.tasks(plan, six())

    def others() -> None:
        process(service, log, run=OTHER).run(six())
        process(service, log, 1, run=OTHER).run(six(1))

    real = TransactionLog.listing

    def listing(self: TransactionLog, prefix: str) -> Listing:
        found = real(self, prefix)
        late.steps.at(0, others)  # after its look, before it reads the parts
        monkeypatch.undo()
        small(monkeypatch)
        return found

    monkeypatch.setattr(TransactionLog, "listing", listing)
    with pytest.raises(TransactionConflict, match="a higher number than 0 was recorded"):
        late.commit(plan, given)

    assert not twice(service)
    assert len(service.shown) == 12


# ── each rule taken away: a scenario that holds with it fails without it ────────────────────────


def fresh() -> tuple[HiddenQueues, MemoryLogStore]:
    return HiddenQueues(), MemoryLogStore(kind=TRANSACTIONS)


def all_once(service: HiddenQueues, *batches: int) -> None:
    assert not twice(service)
    for batch in batches:
        assert all(row in service.shown for _, row, _ in six(batch)), batch


def beside(more: int) -> None:
    """A commit pauses before each of its calls, and another process ends `more` batches more."""
    for at in range(24):
        service, log = fresh()
        first = process(service, log)
        plan = first.plan()
        given = first.tasks(plan, six())

        def others(service: HiddenQueues = service, log: MemoryLogStore = log) -> None:
            for batch in range(1 + more):
                process(service, log, batch, OTHER).run(six(batch))

        first.steps.at(at, others)
        try:
            first.commit(plan, given)
        except TransactionConflict:
            assert more
        if first.steps.hooks:
            break
        all_once(service, *range(1 + more))


def replayed() -> None:
    beside(0)


def over() -> None:
    beside(1)


def killed() -> None:
    for at in range(40):
        service, log = fresh()
        first = process(service, log)
        first.steps.at(at, kill)
        try:
            first.run(six())
        except Killed:
            process(service, log, run=OTHER).run(six())
        all_once(service, 0)


def kill() -> None:
    raise Killed


def rolled_back() -> None:
    service, log = fresh()
    for batch in (0, 1, 2):
        process(service, log, batch).run(six(batch))
    assert process(service, log, 0, OTHER).run(six()).step is Step.OVER
    all_once(service, 0, 1, 2)


def record_lands_late() -> None:
    service, log = fresh()
    first = process(service, log)
    plan = first.plan()
    given = first.tasks(plan, six())
    parts = len(record.placed([chunk for each in given for chunk in each.chunks])[1])
    first.store.next_puts(*[None] * (1 + parts), Fate.LATE)
    with pytest.raises(AzQueueError):
        first.commit(plan, given)
    assert process(service, log).transactions.abort(plan, given, is_missing=False) is None
    first.store.land()
    process(service, log, run=OTHER).run(six())
    all_once(service, 0)


def aborted() -> None:
    record_lands_late()


def copied() -> None:
    service, log = fresh()
    process(service, log, 0).run(six())
    process(service, log, 1).run(six(1))
    process(service, log, 1, OTHER).run(six(1, "copy"))  # its first: not known yet
    process(service, log, 2).run(six(2))
    try:
        process(service, log, 2, OTHER).run(six(2, "copy"))
    except TransactionConflict:
        return
    raise AssertionError("the copy's rows were passed over, and nobody was told")


def emptied() -> None:
    service, log = fresh()
    try:
        process(service, log, 3).run(six(3))
    except TransactionUnknown:
        return
    raise AssertionError("an emptied log was not noticed")


def discarded() -> None:
    service, log = fresh()
    process(service, log).run(six())
    again = process(service, log, run=OTHER)
    plan = again.plan()
    given = again.tasks(plan, six())
    assert all(each.skipped for each in given)
    log.remove(names.record(again.transaction(plan)))
    try:
        again.commit(plan, given)
    except TransactionConflict:
        return
    raise AssertionError("a batch without rows was recorded")


def cleaned_halfway() -> None:
    for at in range(40):
        service, log = fresh()
        process(service, log).run(six())
        second = process(service, log, 1)
        second.steps.at(at, kill)
        try:
            second.run(six(1))
        except Killed:
            left = names.all_parsed(log.objects)
            kinds = {each.kind for each in left if not each.number}
            assert ObjectKind.RECORD not in kinds or ObjectKind.MARK in kinds, (
                "shown, and nobody knows it"
            )


def receipt_lost() -> None:
    service, log = fresh()
    first = process(service, log)
    plan = first.plan()
    put = [service.put(queue, row) for queue, row, _ in six()][1:]
    try:
        first.commit(plan, [first.writer.prepared(6, put, 0, plan.log)])
    except TransactionConflict:
        raise
    except AzQueueError:
        return
    all_once(service, 0)


def foreign_mark() -> None:
    service, log = fresh()
    late = names.progress_mark(Transaction(KEY, 0), "f" * 32, 6)
    process(service, log).plan()
    log.objects[late] = b"of a record that was removed"
    process(service, log, lossy=True).run(six())
    all_once(service, 0)


def always_missing(patch: pytest.MonkeyPatch) -> None:
    real = Transactions.abort
    patch.setattr(Transactions, "abort", lambda *a, is_missing: real(*a, is_missing=True))


def own_record(patch: pytest.MonkeyPatch) -> None:
    real = TransactionLog.put_head
    patch.setattr(TransactionLog, "put_head", lambda self, given: real(self, given) or True)


def overwritten(patch: pytest.MonkeyPatch) -> None:
    real = MemoryLogStore.put_new

    def put_new(self: MemoryLogStore, name: str, data: bytes) -> bool:
        self.objects.pop(name, None)
        return real(self, name, data)

    patch.setattr(MemoryLogStore, "put_new", put_new)


def without_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Listing, "step", lambda *a, **k: Step.WRITE)
    patch.setattr(Listing, "has_higher", lambda *a: False)


def marks_first(patch: pytest.MonkeyPatch) -> None:
    real = Listing.outlived_by
    patch.setattr(Listing, "outlived_by", lambda *a: real(*a)[::-1])


def any_mark(patch: pytest.MonkeyPatch) -> None:
    def marked(
        listed: Iterator[RecordName], transaction: Transaction, nonce: str, most: int
    ) -> int:
        return max((each.amount for each in listed if each.kind is ObjectKind.MARK), default=0)

    patch.setattr(names, "marked_in", marked)


def uncounted(patch: pytest.MonkeyPatch) -> None:
    real = Writer.prepared
    patch.setattr(
        Writer, "prepared", lambda self, rows, put, lost, log: real(self, len(put), put, lost, log)
    )


def unflagged(patch: pytest.MonkeyPatch) -> None:
    real = Transactions.commit
    patch.setattr(
        Transactions,
        "commit",
        lambda self, plan, given: real(self, plan, [replace(p, skipped=False) for p in given]),
    )


def whole_life(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(messages, "LAST_US", 0)


def no_receipt_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HiddenRow, "result", EnqueueRow.result)


def last_second() -> None:
    service, log = fresh()
    first = process(service, log)
    plan = first.plan()
    first.tasks(plan, six(), abandoned=1)
    service.clock.advance(WEEK - 1)
    assert len(service.consumer("aaa", read_committed=False)) == 3, "a plain reader may see them"
    reader = backlog.Isolation(IsolationLevel.READ_COMMITTED)
    for each in service.views("aaa"):
        ref = QueueRef("shop", "aaa")
        message = Message(ref, each.id, each.text, 1, int(each.expiration * 1_000_000), 1)
        assert reader.may_be_abandoned(message, int(service.clock.now() * 1_000_000)), (
            "it gives a row"
        )


def no_receipt() -> None:
    row = HiddenRow(QueueRef("shop", "aaa"), "text", 60, 61, row=0)
    empty = Answer(201, {}, b"", 0.0)
    outcome = None
    try:
        row.result(empty)
    except ServiceError as error:
        outcome = error.outcome
    assert outcome is Outcome.RETRY, "the message is not put again"


RULES: dict[str, tuple[Callable[[], None], Callable[[pytest.MonkeyPatch], None]]] = {
    "the last second gives no row": (last_second, whole_life),
    "a put without a receipt is put again": (no_receipt, no_receipt_taken),
    "the record wins": (replayed, own_record),
    "the newest wins": (
        rolled_back,
        without_over,
    ),
    "look again after the put": (
        over,
        lambda p: p.setattr(Listing, "has_higher", lambda *a: False),
    ),
    "abort deletes only if a message is missing": (aborted, always_missing),
    "nonces differ": (killed, lambda p: p.setattr(commit, "nonce_of", lambda given: "0" * 32)),
    "put if absent": (replayed, overwritten),
    "starts tell a stranger": (
        copied,
        lambda p: p.setattr(Listing, "check_stranger", lambda *a: None),
    ),
    "an unknown log raises": (
        emptied,
        lambda p: p.setattr(Listing, "gap", lambda *a: ""),
    ),
    "skipped tasks need a record": (discarded, unflagged),
    "heads go first": (cleaned_halfway, marks_first),
    "as many receipts as rows": (receipt_lost, uncounted),
    "marks name a nonce": (foreign_mark, any_mark),
}


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_needed(
    name: str, service: HiddenQueues, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, take_away = RULES[name]
    scenario()
    take_away(monkeypatch)
    with pytest.raises((AssertionError, AzQueueError)):
        scenario()


def test_a_flipped_byte_raises_and_nothing_is_shown(service: HiddenQueues) -> None:
    _, log = fresh()
    first = process(service, log)
    first.steps.at(12, kill)
    with pytest.raises(Killed):
        first.run(six())
    assert names.record(Transaction(KEY, 0)) in log.objects
    assert not service.shown
    whole = dict(log.objects)
    read = [name for name, data in whole.items() if not name.endswith(RUN)]
    assert len(read) > 2
    for name in read:
        for at in range(0, len(whole[name]), 7):
            damaged = MemoryLogStore(objects=dict(whole), kind=TRANSACTIONS)
            damaged.damage(name, at)
            with pytest.raises((LogDamaged, LogConflict)):
                process(service, damaged, run=OTHER).run(six())
            assert not service.shown


@pytest.mark.parametrize("kill_at", range(0, 36, 3))
def test_two_batch_writes_with_one_number_are_two_and_each_is_written_once(
    service: HiddenQueues, kill_at: int
) -> None:
    _, log = fresh()

    def write(queue: str, version: int, at: int = -1) -> None:
        named = {"queue": queue, "txnAppId": "app", "txnVersion": str(version)}
        one = Process.of(service, log, Writer(), **named)
        if at >= 0:
            one.steps.at(at, kill)
        one.run(six(version, queue, (queue,)))

    for version in (3, 3, 7, 3):
        for queue in ("aaa", "bbb"):
            try:
                write(queue, version, kill_at)
            except Killed:
                write(queue, version)
    assert not twice(service)
    wanted = {row for v in (3, 7) for queue in ("aaa", "bbb") for _, row, _ in six(v, queue)}
    assert set(service.shown) == wanted
    with pytest.raises(TransactionUnknown, match=r"txnVersion 5 .* is not known to be written"):
        write("aaa", 5)
    assert set(service.shown) == wanted
