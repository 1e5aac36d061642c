"""Showing a record's messages: delays, marks, and what is told of those that are gone."""

from __future__ import annotations

import pytest
from log_stores import MemoryLogStore
from world.fates import Fate
from world.transactions import QUERY, WEEK, HiddenQueues, Process, of_service
from world.turns import Killed

from spark_azqueue.errors import QueueNotFound, ServiceUnavailable, TransactionExpired
from spark_azqueue.service.names import TRANSACTIONS
from spark_azqueue.sink.transaction import names, show
from spark_azqueue.sink.transaction.listing import Step
from spark_azqueue.sink.transaction.names import ObjectKind
from spark_azqueue.sink.transaction.task import Writer

ROWS = [("aaa", f"m{n}", 0) for n in range(6)]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> HiddenQueues:
    made = HiddenQueues()
    of_service(made, monkeypatch)
    monkeypatch.setattr(show, "MARK_EVERY", 2)
    return made


@pytest.fixture
def log() -> MemoryLogStore:
    return MemoryLogStore(kind=TRANSACTIONS)


def process(service: HiddenQueues, log: MemoryLogStore, *, lossy: bool = False) -> Process:
    return Process.of(service, log, Writer(QUERY, "1" * 32, 0), lossy=lossy)


def marks(log: MemoryLogStore) -> list[int]:
    found = names.all_parsed(sorted(log.objects))
    return [each.amount for each in found if each.kind is ObjectKind.MARK]


def die(service: HiddenQueues, log: MemoryLogStore, at: str) -> None:
    """The process is killed before it shows this row."""

    def before(row: str) -> None:
        if row == at:
            raise Killed

    service.before_show = before
    with pytest.raises(Killed):
        process(service, log).run(ROWS, 1)
    service.before_show = lambda row: None


def test_all_are_shown_at_once_or_when_they_are_due(
    service: HiddenQueues, log: MemoryLogStore
) -> None:
    one = process(service, log)
    plan = one.plan()
    given = one.tasks(plan, [("aaa", "now", 0), ("aaa", "soon", 10), ("aaa", "later", 100)])
    service.clock.advance(30)
    found = one.commit(plan, given)
    assert (found.step, found.shown.shown) == (Step.WRITE, 3)
    assert service.consumer("aaa", read_committed=True) == ["now", "soon"]
    service.clock.advance(69)
    assert "later" not in service.consumer("aaa", read_committed=True)
    service.clock.advance(2)
    assert "later" in service.consumer("aaa", read_committed=True)


@pytest.mark.parametrize("early", [-3600, 0, 1, 2, 59])
def test_a_delay_that_ends_with_the_message_leaves_it_visible_for_a_minute(
    service: HiddenQueues, log: MemoryLogStore, early: int
) -> None:
    """As with `visible_at` and a clock that goes wrong, or a record of an earlier release."""
    process(service, log).run([("aaa", "late", WEEK - early)], 1)
    service.clock.advance(WEEK - 61)
    assert not service.consumer("aaa", read_committed=True)
    service.clock.advance(1)
    assert service.consumer("aaa", read_committed=True) == ["late"]


def test_a_busy_service_stops_it_and_the_next_start_shows_the_rest(
    service: HiddenQueues, log: MemoryLogStore
) -> None:
    service.meet("update", None, None, Fate.BUSY)
    with pytest.raises(ServiceUnavailable):
        process(service, log).run(ROWS)
    process(service, log).run(ROWS)
    assert sorted(service.shown) == [row for _, row, _ in ROWS]


def test_what_was_cleared_after_the_record_is_counted_and_told(
    service: HiddenQueues, log: MemoryLogStore, caplog: pytest.LogCaptureFixture
) -> None:
    one = process(service, log)
    plan = one.plan()
    given = one.tasks(plan, ROWS)
    service.clear("aaa")
    found = one.commit(plan, given)
    assert (found.shown.shown, found.shown.vanished) == (0, 6)
    assert "6 of 6 messages were gone before they were shown" in caplog.text


def test_a_deleted_queue_raises_unless_loss_is_allowed(
    service: HiddenQueues, log: MemoryLogStore
) -> None:
    one = process(service, log)
    plan = one.plan()
    given = one.tasks(plan, [*ROWS, ("bbb", "of another queue", 0)])
    service.clear("aaa", delete=True)
    with pytest.raises(QueueNotFound):
        one.commit(plan, given)
    assert list(service.shown) == ["of another queue"]
    service.clear("aaa", delete=True)
    again = process(service, log, lossy=True)
    plan = again.plan()
    found = again.commit(plan, again.tasks(plan, ROWS))
    assert found.shown.vanished == 6


def test_what_expired_before_it_was_shown_raises_unless_loss_is_allowed(
    service: HiddenQueues, log: MemoryLogStore
) -> None:
    die(service, log, "m0")
    service.clock.advance(WEEK + 1)
    for _ in range(2):  # a start that is repeated is no leave to go on
        with pytest.raises(TransactionExpired, match="up to 6 of 6 messages expired before"):
            process(service, log).run(ROWS)
    found = process(service, log, lossy=True).run(ROWS)
    assert found.shown.expired == 6
    assert not service.shown


def test_what_would_expire_while_it_is_shown_is_not_recorded(
    service: HiddenQueues, log: MemoryLogStore
) -> None:
    one = process(service, log)
    plan = one.plan()
    given = one.tasks(plan, ROWS)
    service.clock.advance(WEEK - 30)
    with pytest.raises(TransactionExpired, match="so nothing was recorded"):
        one.commit(plan, given)
    assert not names.records_in(names.all_parsed(log.objects))
