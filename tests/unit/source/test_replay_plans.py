"""A log of leaseOn=executors, as who only reads it sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS, ref
from replayed_log import log_in, read, rows
from segments import a_message

from spark_azqueue.errors import LogDamaged, LostSegment
from spark_azqueue.journal.journal import Journal
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SlotHeader, SlotSegment
from spark_azqueue.source.executors.plan import Part, Plan, Slot
from spark_azqueue.source.replay.survey import history_of


class Writer:
    """The driver and the tasks of the query that writes the log, with two slots a plan."""

    def __init__(self, store: MemoryLogStore) -> None:
        self.store = store
        self.folder = PlanFolder(store, ACCOUNT)
        self.folder.open()
        self.plans = [Plan.start(ACCOUNT, self.folder.uuid)]

    def plan(self) -> Plan:
        """Close the newest plan, and put another one behind it."""
        number = len(self.plans)
        nonce = f"{number:032x}"
        slots = (Slot((ORDERS,), 10, 1000), Slot((ref("returns"),), 10, 1000))
        plan = Plan(ACCOUNT, self.folder.uuid, PlanId(number, nonce), slots)
        self.folder.put_following(self.plans[-1].id, plan)
        self.plans.append(plan)
        return plan

    def give(self, plan: Plan, slot: int, *texts: str, **reading: str) -> None:
        messages = tuple(a_message(each, text=text) for each, text in enumerate(texts))
        header = SlotHeader(
            plan.log,
            plan.id,
            slot,
            ACCOUNT,
            "0" * 32,
            len(messages),
            queues=(ORDERS,),
            reading=reading,
        )
        self.folder.put_segment(SlotSegment(header, messages))

    def batch(self, number: int, **reading: str) -> None:
        """A plan whose second slot had no task."""
        plan = self.plan()
        assert plan.number == number
        self.give(plan, 0, f"m{number}", **reading)
        self.folder.put_segment(tombstone(plan, 1, "0" * 32))

    def clean(self, number: int) -> None:
        """Remove plans up to this one, as `closing.py` does."""
        self.folder.raise_floor(number)
        for plan, objects in self.folder.objects().items():
            kept = names.following(plan) if plan.number == number else ""
            if plan.number <= number:
                self.folder.remove(name for name in objects if name != kept)


@pytest.fixture
def store() -> MemoryLogStore:
    return MemoryLogStore(kind=EXECUTORS)


@pytest.fixture
def writer(store: MemoryLogStore) -> Writer:
    return Writer(store.another())


@pytest.fixture
def log(store: MemoryLogStore, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Journal]:
    return log_in(store, monkeypatch)


def test_only_closed_plans_are_read(store, writer, log):
    for number in (1, 2, 3):
        writer.batch(number)
    assert read(log) == rows(1, 2), "nothing follows plan 3, so tasks may still be at work with it"
    writer.folder.mark_committed(writer.plans[3].id)
    assert read(log) == rows(1, 2, 3)
    assert {method for method, _ in store.calls} <= {"get", "names", "close"}, "it writes nothing"


def test_an_empty_log_has_no_rows(writer, log):
    assert read(log) == []
    writer.plan()
    assert read(log) == []


@pytest.mark.parametrize("pause", range(24))
def test_whatever_the_writer_does_meanwhile_no_batch_is_halved(store, writer, log, pause):
    for number in (1, 2, 3, 4):
        writer.batch(number)

    def goes_on() -> None:
        writer.clean(2)
        writer.batch(5)
        writer.plan()

    store.pause(pause, goes_on)
    found = read(log)

    assert found == rows(*[number for number, _ in found])
    kept = [number for number, _ in found if number > 2]
    assert kept in ([3], [3, 4], [3, 4, 5])


def given_up(writer: Writer, number: int) -> None:
    """A plan that was asked for again, and the next one that gives its message again."""
    writer.batch(number)
    failed = writer.plans[-1]
    writer.folder.note_attempt(failed.id, "a" * 32)
    part = Part(failed.id, 0, 0, 1)
    again = Plan(
        failed.account,
        failed.log,
        PlanId(number + 1, f"{number + 1:032x}"),
        (Slot((), 1, 1, part),),
        gave_up=True,
    )
    writer.folder.put_following(failed.id, again)
    writer.plans.append(again)
    writer.give(again, 0, f"m{number}")


def test_what_was_given_up_has_no_rows_and_no_batch_is_missing(writer, log):
    writer.batch(1)
    given_up(writer, 2)
    writer.batch(4)
    writer.plan()
    assert read(log) == [(1, "m1"), (3, "m2"), (4, "m4")]
    assert read(log, startingAt="2", endingAt="2") == []


def test_what_was_asked_for_again_and_committed_has_its_rows(writer, log):
    writer.batch(1)
    writer.folder.note_attempt(writer.plans[-1].id, "a" * 32)
    writer.batch(2)
    writer.plan()
    assert read(log) == rows(1, 2)


@pytest.mark.parametrize("pause", range(30))
def test_what_was_given_up_has_no_rows_while_it_is_removed(store, writer, log, pause):
    given_up(writer, 1)
    for number in (3, 4, 5):
        writer.batch(number)
    writer.plan()
    store.pause(pause, lambda: writer.clean(2))
    found = read(log)
    assert (1, "m1") not in found
    assert found in ([(2, "m1"), *rows(3, 4, 5)], rows(3, 4, 5))


def test_what_the_writer_removes_meanwhile_is_left_out_or_told(writer, log, caplog):
    for number in range(1, 7):
        writer.batch(number)
    assert read(log, between=lambda: writer.clean(2)) == rows(3, 4, 5)
    assert "batch 2 was removed" in caplog.text
    with pytest.raises(LostSegment, match=r"batch 3 was removed .* while it was read"):
        read(log, startingAt="3", between=lambda: writer.clean(3))
    with pytest.raises(LostSegment, match="batches 2 to 3 were removed"):
        read(log, startingAt="2")


def test_a_slot_that_somebody_else_removes_is_told(store, writer, log):
    for number in range(1, 5):
        writer.batch(number)
    store.remove(names.slot(writer.plans[2].id, 1))
    with pytest.raises(LostSegment, match=r"batch 2 is missing .* or a part of it"):
        read(log)
    store.remove(names.slot(writer.plans[2].id, 0))
    with pytest.raises(LostSegment, match="batch 2 is missing"):
        read(log)
    assert read(log, failOnDataLoss="false") == rows(1, 3)


def test_a_plan_that_the_folder_does_not_name_is_told(store, writer, log):
    for number in (1, 2, 3):
        writer.batch(number)
    other = Writer(MemoryLogStore(kind=EXECUTORS))
    other.folder.uuid = writer.folder.uuid
    alien = Plan(ACCOUNT, writer.folder.uuid, PlanId(2, "f" * 32), writer.plans[2].slots)
    other.folder.put_following(PlanId(1, writer.plans[1].id.nonce), alien)
    name = names.following(writer.plans[1].id)
    store.objects[name] = other.store.objects[name]
    with pytest.raises(LogDamaged, match="not the plan whose slots are there"):
        read(log, startingAt="2")


def test_the_time_of_a_batch_is_that_of_its_first_object(store, writer, log):
    for number in (1, 2, 3):
        writer.batch(number)
    writer.plan()
    for number in (1, 2, 3):
        for slot in (0, 1):
            name = names.slot(writer.plans[number].id, slot)
            store.times[name] = 1_800_000_000 + number * 60 + slot * 30
    at_2 = {"startingAt": "2027-01-15T08:02:00Z"}
    assert read(log, **at_2, endingAt="2027-01-15T08:02:00Z") == rows(2)
    assert read(log, **at_2) == rows(2, 3)


def test_news_are_seen_from_the_names_of_the_next_plan(writer, log):
    writer.batch(1)
    history = history_of(log())
    found = history.survey()
    assert not history.has_new_batches(found)
    writer.batch(2)
    assert history.has_new_batches(found)
    found = history.survey()
    assert (found.committed, history.has_new_batches(found)) == (1, False)
    writer.folder.mark_committed(writer.plans[2].id)
    assert history.has_new_batches(found)
