"""Transactions under kills, late records, zombies, rollbacks and operators, in any order.

The steps drive the real classes over the fake and a log in memory. Whatever happens, no row is
visible twice, and each row of a batch that Spark committed is visible once, unless an operator
discarded its batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from budget import EXAMPLES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from log_stores import MemoryLogStore
from transactions import NOW, Process, WrittenQueue
from world.fates import Fate
from world.turns import Killed

from spark_azqueue.errors import ServiceError, TransactionConflict
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.transaction import log as logs
from spark_azqueue.sink.transaction import record
from spark_azqueue.sink.transaction import show as showing
from spark_azqueue.sink.transaction.inspect import discard, finish, records
from spark_azqueue.sink.transaction.log import TransactionLog
from spark_azqueue.sink.transaction.record import Prepared
from spark_azqueue.sink.transaction.task import WritePlan
from spark_azqueue.testing import FakeClock, FakeQueueService, Fault

ROWS = 7
"""Of each batch, in two tasks; with small chunks, parts and distances between marks."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "CHUNK_ROWS", 2)
    monkeypatch.setattr(record, "INLINE_AT_MOST", 10)
    monkeypatch.setattr(record, "PART_BYTES", 200)
    monkeypatch.setattr(showing, "MARK_EVERY", 2)


def rows(batch: int) -> tuple[list[str], list[str]]:
    bodies = [f"{batch}-{row}" for row in range(ROWS)]
    return bodies[:4], bodies[4:]


class Machine(RuleBasedStateMachine):
    """One query: Spark's driver, its predecessors that go on, an operator, and the store."""

    @initialize()
    def begin(self) -> None:
        self.fake = FakeQueueService(FakeClock(NOW, frozen=True)).start()
        self.fake.create_queue("orders")
        self.world = WrittenQueue(self.fake)
        self.stores: list[MemoryLogStore] = []
        self.runs = 0
        self.next = 0  # the batch that Spark runs next
        self.highest = 0  # batches below were committed at some time
        self.discarded: set[int] = set()
        self.zombies: list[tuple[Process, list[Prepared], WritePlan]] = []
        self.overtaken_to = -1  # the newest batch that a predecessor recorded in this run's time
        self.driver = self.restarted()

    def restarted(self) -> Process:
        """A new run of the query."""
        self.runs += 1
        self.overtaken_to = -1
        return self.another_process(self.runs)

    def another_process(self, run: int) -> Process:
        process = self.world.process(run)
        self.stores.append(process.store)
        return process

    def teardown(self) -> None:
        if hasattr(self, "fake"):
            self.fake.stop()

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def prepared(self, tasks: int = 2) -> tuple[list[Prepared], WritePlan]:
        """The driver's next batch. A run that was overtaken may be refused; the next one is not."""
        try:
            return self.prepared_by_driver(tasks)
        except TransactionConflict:
            assert self.next <= self.overtaken_to
            self.driver = self.restarted()
            return self.prepared_by_driver(tasks)

    def prepared_by_driver(self, tasks: int) -> tuple[list[Prepared], WritePlan]:
        plan = self.driver.plan()
        return self.driver.tasks(self.next, *rows(self.next)[:tasks], plan=plan), plan

    @contextmanager
    def predecessors_write(self) -> Iterator[None]:
        """With a checkpoint that was rolled back, they may record a batch that the run has yet to.

        To the run that looks like another query with a copied checkpoint, so it is refused.
        """
        before = self.newest()
        yield
        if (newest := self.newest()) > before:
            self.overtaken_to = newest

    def newest(self) -> int:
        """The highest batch that is recorded; -1 if none is."""
        log = TransactionLog(self.world.store.another(), self.driver.config.account.name)
        return max(log.listing("").newest.values(), default=-1)

    def committed(self) -> None:
        self.next += 1
        self.highest = max(self.highest, self.next)

    @rule()
    def a_batch(self) -> None:
        prepared, plan = self.prepared()
        self.driver.commit(prepared, plan)
        self.committed()

    @rule(calls=st.integers(0, 14))
    def a_batch_whose_driver_is_killed(self, calls: int) -> None:
        prepared, plan = self.prepared()

        def die() -> None:
            raise Killed

        self.driver.store.pause(calls, die)
        try:
            self.driver.commit(prepared, plan)
        except Killed:
            self.driver = self.restarted()
        else:
            self.driver.store.forget_pauses()
            self.committed()

    @rule(place=st.integers(0, 6), fault=st.sampled_from([*Fate]))
    def a_batch_whose_commit_raises(self, place: int, fault: Fate) -> None:
        """Spark aborts beside it, and the query starts again."""
        prepared, plan = self.prepared()
        self.driver.store.next_puts(*([None] * place), fault)
        try:
            self.driver.commit(prepared, plan)
        except ServiceError:
            aborting = self.another_process(self.runs)
            aborting.transactions.abort(aborting.plan(), prepared, is_missing=False)
            self.driver = self.restarted()
        else:
            self.driver.store.faults.clear()
            self.committed()

    @rule()
    def a_task_that_fails(self) -> None:
        prepared, plan = self.prepared(tasks=1)
        self.driver.transactions.abort(plan, prepared, is_missing=True)
        self.driver = self.restarted()

    @rule()
    def a_driver_that_pauses_before_its_commit(self) -> None:
        prepared, plan = self.prepared()
        self.zombies.append((self.driver, prepared, plan))
        self.driver = self.restarted()

    @precondition(lambda self: self.zombies)
    @rule(which=st.integers(0, 5))
    def a_zombie_goes_on(self, which: int) -> None:
        process, prepared, plan = self.zombies.pop(which % len(self.zombies))
        with self.predecessors_write(), suppress(TransactionConflict):
            process.commit(prepared, plan)

    @rule(calls=st.integers(0, 10))
    def a_driver_that_pauses_while_its_successor_works(self, calls: int) -> None:
        prepared, plan = self.prepared()
        first = self.driver
        self.driver = self.restarted()

        def successor() -> None:
            self.a_batch()

        first.store.pause(calls, successor)
        with suppress(TransactionConflict):
            first.commit(prepared, plan)
        first.store.forget_pauses()

    @rule()
    def late_puts_land(self) -> None:
        with self.predecessors_write():
            for store in self.stores:
                store.land()

    @rule(batches=st.integers(1, 5))
    def the_checkpoint_is_rolled_back(self, batches: int) -> None:
        self.next = max(0, self.next - batches)
        self.driver = self.restarted()

    @rule(op=st.sampled_from(["put", "update"]), every=st.integers(3, 9))
    def answers_are_lost(self, op: str, every: int) -> None:
        self.fake.faults.add(Fault(op, "reply_lost", every=every, times=3))

    @rule(hours=st.integers(1, 5))
    def time_passes(self, hours: int) -> None:
        self.fake.clock.advance(hours * 60)

    @rule(discards=st.booleans())
    def an_operator_finishes(self, discards: bool) -> None:
        config = self.driver.config
        log = TransactionLog(self.world.store.another(), config.account.name)
        with closing(QueueClient(config.account)) as client:
            for newest in records(log):
                if newest.is_finished:
                    continue
                if discards:
                    discard(config, log, client, newest)
                    self.discarded.add(newest.record.head.transaction.number)
                else:
                    finish(config, log, client, newest)

    # ── what holds ────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def each_row_is_visible_once(self) -> None:
        if not hasattr(self, "world"):
            return
        found = Counter(self.world.visible())
        assert not [body for body, times in found.items() if times > 1]
        for batch in range(self.highest):
            if batch not in self.discarded:
                assert all(found[body] for task in rows(batch) for body in task), batch

    @invariant()
    def nothing_is_visible_before_its_batch_began(self) -> None:
        if hasattr(self, "world"):
            began = {int(body.split("-")[0]) for body in self.world.visible()}
            assert not began or max(began) <= self.highest


@pytest.mark.usefixtures("small")
def test_each_row_is_visible_once_whatever_happens() -> None:
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        Machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=25)
    )
