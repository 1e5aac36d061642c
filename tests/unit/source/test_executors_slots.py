"""What tasks and drivers do with one folder, over the real client and the strict fake."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from executors_query import Query, fill, first_plan
from log_stores import MemoryLogStore
from refs import ref
from replayed_log import rows_in
from world.fates import Fate

from spark_azqueue.errors import (
    CheckpointMismatch,
    LogConflict,
    LostSegment,
    ServiceError,
    UndecodableBody,
)
from spark_azqueue.options.choices import LogStart, OnUndecodable
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.encoding import BodyType, Encoding
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.service.queues.calls import Dequeue, Update
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.objects import SeenMessages
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.source.executors.slot import SlotTask
from spark_azqueue.testing import FakeQueueService

SOON = 30.0


def test_who_comes_second_gives_the_rows_of_the_first_and_gives_back_its_own(query: Query) -> None:
    sent = fill(query, 40)
    _, plan = first_plan(query)
    _late, store = query.task(plan)
    store.before_put_in(names.SLOTS, lambda: query.fake.clock.advance(0))
    first = query.task(plan)[0].segment()
    query.fake.put_many("orders", ["newer"])

    class Blind(PlanFolder):
        """Does not see the first look's answer."""

        looks = 0

        def segment(self, of, slot):  # type: ignore[no-untyped-def]
            self.looks += 1
            return None if self.looks == 1 else super().segment(of, slot)

    folder = Blind(store, query.config.account.name)
    second = SlotTask(query.config, plan, 0, folder, query.clients[0]).segment()
    assert second == first
    assert query.fake.visible("orders") == 1, "it is back at once"
    assert sorted(m.text for m, _ in first.received) == [b for b in sent if int(b[1:]) % 2 == 0]


@pytest.mark.parametrize("text", ["as it was", "updated"])
def test_who_comes_second_deletes_what_the_first_holds_but_no_message_that_was_updated_since(
    query: Query, text: str
) -> None:
    """The lease of the first has ended, and another program has had the message meanwhile."""
    query.fake.put("orders", "as it was")
    driver, plan = first_plan(query)
    frozen, goes_on = threading.Event(), threading.Event()
    (first, its_store), (second, store) = query.task(plan), query.task(plan)
    thread = threading.Thread(target=first.segment)

    def freezes() -> None:
        frozen.set()
        goes_on.wait(SOON)

    def the_first_puts() -> None:
        goes_on.set()
        thread.join(SOON)

    its_store.before_put_in(names.SLOTS, freezes)
    store.before_put_in(names.SLOTS, the_first_puts)
    thread.start()
    assert frozen.wait(SOON)
    query.fake.clock.advance(plan.lease_s + 1)
    ((_, lease),) = query.clients[0].now(Dequeue(ref("orders"), 1, 30)).received
    query.clients[0].now(Update(lease, 0, text))

    rows = [message.text for message, _ in second.segment().received]
    following = query.plan(driver.latest(plan.to_json(), None)) if text == "updated" else None
    if following:
        rows += query.rows(following)

    assert rows == ["as it was", *(["updated"] if following else [])]
    assert query.fake.count("orders") == 0
    driver.close()


def test_a_put_whose_answer_is_lost_is_known_by_its_attempt(query: Query) -> None:
    fill(query, 8)
    _, plan = first_plan(query)
    task, store = query.task(plan)
    store.faults.append(Fate.LOST_AFTER)
    with pytest.raises(ServiceError):
        task.segment()
    assert query.fake.visible("orders") == 0, "nothing is released: the put may stand"
    before = query.fake.count("orders")
    segment = query.task(plan)[0].segment()
    assert len(segment.received) == before == 4
    assert query.fake.count("orders") == 0


def test_after_a_refused_put_everything_is_given_back(query: Query) -> None:
    fill(query, 8)
    _, plan = first_plan(query)
    task, store = query.task(plan)
    store.faults.append(Fate.REFUSED)
    with pytest.raises(ServiceError):
        task.segment()
    assert query.fake.visible("orders") == 4


def test_a_task_that_comes_after_the_close_finds_a_tombstone(query: Query) -> None:
    sent = fill(query, 8)
    driver, plan = first_plan(query)
    following = query.plan(driver.latest(plan.to_json(), None))
    assert following.number == 2
    assert query.rows(plan) == []
    assert query.left() == len(sent)
    assert query.rows(following) == sent


def test_a_message_that_somebody_else_has_since_is_known_and_gives_no_second_row(
    query: Query,
) -> None:
    sent = fill(query, 2)
    driver, plan = first_plan(query)
    _task, store = query.task(plan)
    folder = PlanFolder(store, query.config.account.name)
    deleting = folder.settled

    def late(*arguments: object) -> object:
        query.fake.clock.advance(100)  # the lease ends, and another consumer has the message
        page = query.clients[0].now(Dequeue(ref("orders"), 1, 30))
        assert len(page.received) == 1
        return deleting(*arguments)  # type: ignore[arg-type]

    folder.settled = late  # type: ignore[assignment,method-assign]
    segment = SlotTask(query.config, plan, 0, folder, query.clients[0]).segment()
    assert [message.text for message, _ in segment.received] == sent[:1]
    assert query.fake.count("orders") == 1, "owed"
    query.task(plan, 1)[0].segment()
    query.fake.clock.advance(40)  # it comes again
    following = query.plan(driver.latest(plan.to_json(), None))
    assert following.has_known
    assert query.rows(following) == []
    assert query.left() == 0
    assert driver.latest(following.to_json(), None) == following.to_json()
    assert driver.report().unconfirmed_deletes == 0


def test_a_plan_that_is_cleaned_deletes_nothing(query: Query) -> None:
    fill(query, 8)
    _, plan = first_plan(query)
    folder = PlanFolder(query.store.another(), query.config.account.name)
    task, store = query.task(plan)
    store.before_put_in(names.SLOTS, lambda: folder.raise_floor(1))
    with pytest.raises(LostSegment, match="was removed while this task was at work"):
        task.segment()
    assert query.left() == 8
    with pytest.raises(LostSegment, match="is no longer in the write-ahead log"):
        query.task(plan, 1)[0].segment()


def test_a_lost_object_of_a_closed_plan_is_never_leased_anew(query: Query) -> None:
    sent = fill(query, 8)
    driver, plan = first_plan(query)
    assert query.rows(plan) == sent
    fill(query, 2, "n")
    driver.latest(plan.to_json(), None)
    query.store.delete(names.slot(plan.id, 0))
    with pytest.raises(LostSegment, match="slot 0 of batch 1 is no longer"):
        query.task(plan)[0].segment()
    assert query.left() == 2


def test_two_drivers_on_one_checkpoint_follow_one_chain(query: Query) -> None:
    sent = fill(query, 8)
    first, plan = first_plan(query)
    assert query.rows(plan) == sent
    more = fill(query, 2, "n")
    second = query.driver()
    following = second.latest(plan.to_json(), None)
    with pytest.raises(LogConflict, match="another process writes"):
        first.latest(plan.to_json(), None)
    assert query.rows(query.plan(following)) == more
    third = query.driver()
    assert third.latest(plan.to_json(), None) == following, "rolled back by one"


def test_a_start_that_died_before_its_first_offset_loses_nothing_and_gives_nothing_twice(
    query: Query,
) -> None:
    sent = fill(query, 8)
    _, unused = first_plan(query)
    _, plan = first_plan(query)
    assert (unused.number, plan.number) == (1, 2)
    restarted = query.driver()
    initial = restarted.initial
    assert len(restarted.plan(initial, plan.to_json())) == len(plan.slots), "before any task ran"
    assert query.rows(unused) == []
    assert query.rows(plan) == sent
    with pytest.raises(CheckpointMismatch, match="the checkpoint does not know it"):
        first_plan(query)
    other = Plan(plan.account, plan.log, names.PlanId(9, "f" * 32), plan.slots).to_json()
    with pytest.raises(CheckpointMismatch, match="is behind the checkpoint"):
        query.driver().plan(initial, other)


@pytest.mark.parametrize("choice", ["earliest", "afterCommitted"])
def test_a_new_checkpoint_begins_with_an_old_plan(query: Query, choice: str) -> None:
    sent = fill(query, 8)
    driver, plan = first_plan(query)
    assert query.rows(plan) == sent
    more = fill(query, 2, "n")
    newest = query.plan(driver.latest(plan.to_json(), None))
    assert query.rows(newest) == more
    stray = names.PlanId(1, "0" * 31 + "1")  # of a driver that came second
    PlanFolder(query.store, query.config.account.name).put_known(stray, SeenMessages())
    assert query.config.write_ahead_log
    log = replace(query.config.write_ahead_log, start=LogStart(choice))
    query.config = replace(query.config, write_ahead_log=log)

    again = query.driver()
    first = query.plan(again.latest(again.initial, None))

    assert first == (plan if choice == "earliest" else newest), "a kill: the newest may come again"
    if choice == "earliest":
        assert again.latest(first.to_json(), None) == newest.to_json()


def test_a_new_checkpoint_begins_behind_what_was_committed(query: Query) -> None:
    sent = fill(query, 8)
    driver, plan = first_plan(query)
    assert query.rows(plan) == sent
    assert driver.latest(plan.to_json(), None) == plan.to_json()
    driver.close()
    more = fill(query, 2, "n")
    assert query.config.write_ahead_log
    log = replace(query.config.write_ahead_log, start=LogStart.AFTER_COMMITTED)
    query.config = replace(query.config, write_ahead_log=log)

    again = query.driver()
    first = query.plan(again.latest(again.initial, None))

    assert (first.number, query.rows(first)) == (2, more)
    restarted = query.driver()
    assert restarted.plan(restarted.initial, first.to_json())


def logged_rows(query: Query) -> list[str]:
    """What `readLog` gives, of batches that are known to be committed."""
    return sorted(body for rows in rows_in(query.store.another()).values() for _, body in rows)


def test_a_run_whose_process_is_killed_has_noted_its_last_batch(query: Query) -> None:
    """Spark ends the source's process when a run is over, and does not wait for its last words."""
    sent = fill(query, 8)
    driver = query.driver()
    driver.freeze_cutoff()
    plan = query.plan(driver.latest(driver.initial, None))
    assert query.rows(plan) == sent
    while (end := query.plan(driver.latest(plan.to_json(), None))).number > plan.number:
        plan = end
        query.rows(plan)
    assert logged_rows(query) == sent


def test_with_fail_nothing_is_stored_and_a_restart_with_other_options_goes_on(
    fake: FakeQueueService,
) -> None:
    query = Query(fake, messageEncoding="base64", onUndecodable="fail", executorSlots="1")
    fake.create_queue("orders-poison")
    fake.put_many("orders", ["YWI=", "not base64!"])
    driver, plan = first_plan(query)
    for _ in range(2):
        with pytest.raises(UndecodableBody, match="It goes back into the queue, as does all"):
            query.rows(plan)
        assert names.slot(plan.id, 0) not in query.store.objects
        assert fake.visible("orders") == 2, "both were released"
    driver.close()

    query.config = replace(query.config, encoding=Encoding.NONE)
    driver = query.driver()
    assert query.rows(plan) == []
    following = query.plan(driver.latest(plan.to_json(), None))
    assert query.rows(following) == ["YWI=", "not base64!"]
    driver.latest(following.to_json(), None)
    driver.close()

    assert fake.count("orders-poison") == 0
    assert logged_rows(query) == ["YWI=", "not base64!"]
    query.close()


TEXTS = ["YWI=", "/w==", "not base64!"]
"""Text in base64, bytes in base64, and neither."""
READINGS = [(encoding, kind) for encoding in Encoding for kind in BodyType]


@pytest.mark.parametrize("logged_wish", OnUndecodable)
@pytest.mark.parametrize("logged", READINGS, ids=str)
def test_a_slot_keeps_its_rows_whatever_changes(
    fake: FakeQueueService, logged: tuple[Encoding, BodyType], logged_wish: OnUndecodable
) -> None:
    """With a body or without one, and no copy is made; once decided, it stays. A body that the new
    column cannot hold stops the query, until the old type is back."""
    query = Query(fake)
    fake.create_queue("orders-poison")
    fake.put_many("orders", TEXTS)
    query.config = decoding(query, logged, logged_wish)
    driver, plan = first_plan(query)
    try:
        before = query.raw(plan)
    except UndecodableBody:
        assert logged_wish is OnUndecodable.FAIL
        return
    copies = fake.count("orders-poison")
    assert len(before) + copies == len(TEXTS)

    for changed in READINGS:
        for wish in OnUndecodable:
            query.config = decoding(query, changed, wish)
            fits = changed[1] is BodyType.BINARY or b"\xff" not in before
            if fits:
                assert query.raw(plan) == [as_a(changed[1], body) for body in before]
            else:
                with pytest.raises(UndecodableBody, match="binary: set bodyType=binary again"):
                    query.raw(plan)
    assert fake.count("orders-poison") == copies

    driver.latest(plan.to_json(), None)
    driver.close()
    assert [len(rows) for rows in rows_in(query.store.another()).values()] == [len(before)]
    query.close()


def decoding(query: Query, way: tuple[Encoding, BodyType], wish: OnUndecodable) -> SourceConfig:
    encoding, kind = way
    return replace(query.config, encoding=encoding, body_type=kind, on_undecodable=wish)


def as_a(kind: BodyType, body: str | bytes | None) -> str | bytes | None:
    """A body in a column of this type; None if that cannot be."""
    if kind is BodyType.BINARY:
        return body.encode() if isinstance(body, str) else body
    if isinstance(body, bytes):
        return None if body == b"\xff" else body.decode()
    return body


def test_an_emptied_folder_is_told(query: Query) -> None:
    fill(query, 2)
    _, plan = first_plan(query)
    query.store.objects.clear()
    with pytest.raises(CheckpointMismatch, match="is empty, and the checkpoint is at batch 1"):
        query.driver().latest(plan.to_json(), None)
    assert query.store.objects == {}


def test_a_store_that_is_not_the_drivers_is_told_by_the_task(query: Query) -> None:
    fill(query, 2)
    _, plan = first_plan(query)
    elsewhere = MemoryLogStore(kind=EXECUTORS)
    with pytest.raises(CheckpointMismatch, match="is empty here, and the driver writes its log"):
        query.task(plan, 0, elsewhere)[0].segment()
    assert query.fake.requests["dequeue"] == 0


def test_how_long_a_task_took_has_its_deletes(query: Query) -> None:
    """Else the tasks of a queue at its limit seem too short to tell how many run at once."""
    fill(query, 40)
    _, plan = first_plan(query)
    folder = PlanFolder(query.store.another(), query.config.account.name)

    def deletes() -> float:
        return float(query.fake.requests["delete"])

    SlotTask(query.config, plan, 0, folder, query.clients[0], clock=deletes).segment()

    settled = folder.settled(plan, 0)
    assert settled
    assert settled.counts.took_cs == 20 * 100
