"""Small decisions about plans that larger tests do not notice."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace

import pytest
from doubles import AtOnce
from executors_query import WITH_BLOBS, Query, first_plan
from segments import a_message

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.journal.codec import HIGHEST, Damaged
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.options.log import MOST_STORED_BYTES
from spark_azqueue.service.blobs.references import Reference
from spark_azqueue.service.messages import MAX_VISIBILITY_S, MessageKey, QueueRef
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.source.executors import closing, names, objects
from spark_azqueue.source.executors.closing import Cleaning, Closing, Noting
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.objects import (
    Closed,
    Counts,
    Looked,
    SeenMessages,
    SlotHeader,
    SlotReport,
    SlotSegment,
)
from spark_azqueue.source.executors.plan import (
    MORE_THAN_BUDGET,
    MOST_MESSAGES,
    MOST_QUEUES_OF_PLAN,
    MOST_WAITING,
    Learned,
    Part,
    Plan,
    Slot,
    groups_from_json,
    learned,
    oldest,
)
from spark_azqueue.source.executors.recovery import PlanRecovery
from spark_azqueue.testing import FakeQueueService

ORDERS = QueueRef("acc", "orders")
AGAIN = Part(PlanId(1, "1" * 32), 0, 0, 5)
A_DAY_S = 86_400


def plan(*slots: Slot, lease_s: int = 90) -> Plan:
    """Plan 3 of a folder; its names have each digit."""
    number = PlanId(3, "fedcba9876543210" * 2)
    return Plan("acc", "0123456789abcdef" * 2, number, slots, 1_700_000_000, lease_s)


@pytest.mark.parametrize(("lease_s", "leasing_s"), [(3, 1.0), (30, 5.0), (60, 10.0), (600, 10.0)])
def test_a_task_leases_for_a_sixth_of_the_lease_and_ten_seconds_at_most(
    lease_s: int, leasing_s: float
) -> None:
    assert plan(Slot((ORDERS,), 1, 1), lease_s=lease_s).leasing_s == leasing_s


def test_a_plan_that_gives_messages_again_says_so() -> None:
    assert plan(Slot((), 5, 1, AGAIN), Slot((ORDERS,), 5, 1)).is_again
    assert not plan(Slot((ORDERS,), 5, 1)).is_again


@pytest.mark.parametrize(
    ("slot", "is_valid"),
    [
        (Slot((ORDERS,), MOST_MESSAGES, MOST_STORED_BYTES), True),
        (Slot((ORDERS,), MOST_MESSAGES + 1, 1), False),
        (Slot((ORDERS,), 1, MOST_STORED_BYTES + 1), False),
        (Slot((), MOST_MESSAGES + MORE_THAN_BUDGET, MOST_STORED_BYTES, AGAIN), True),
        (Slot((), HIGHEST, MOST_STORED_BYTES, AGAIN), False),
        (Slot((), 1, 1), False),
        (Slot((ORDERS,), 1, 1, AGAIN), False),
    ],
)
def test_a_slot_has_queues_or_gives_again_and_stays_in_its_bounds(
    slot: Slot, is_valid: bool
) -> None:
    offset = plan(slot).to_json()
    if is_valid:
        assert Plan.from_json(offset, account="acc") == plan(slot)
    else:
        with pytest.raises(CheckpointMismatch, match="a slot is not valid"):
            Plan.from_json(offset, account="acc")


@pytest.mark.parametrize("value", [None, [1], [0, None], [True, None], [10**6 + 1, None], [1, 0]])
def test_a_limit_that_no_task_learned_is_damaged(value: object) -> None:
    assert learned([10**6, 1]) == Learned(10**6, 1)
    with pytest.raises(Damaged, match="limits of a queue"):
        learned(value)


def test_a_checkpoint_of_a_driver_that_leased_has_a_condition_of_its_own() -> None:
    offset = {"version": 1, "batch": 4, "account": "acc"}
    with pytest.raises(CheckpointMismatch) as raised:
        Plan.from_json(offset, account="acc")

    assert raised.value.condition is Condition.LOG_CHECKPOINT_MISMATCH


def test_a_plan_leases_for_a_week_at_most() -> None:
    longest = plan(Slot((ORDERS,), 1, 1), lease_s=MAX_VISIBILITY_S)
    assert Plan.from_json(longest.to_json(), account="acc") == longest

    with pytest.raises(CheckpointMismatch, match="'lease'"):
        Plan.from_json(replace(longest, lease_s=MAX_VISIBILITY_S + 1).to_json(), account="acc")


def test_a_plan_reads_256_queues_at_most() -> None:
    queues = [QueueRef("acc", f"queue-{number}") for number in range(MOST_QUEUES_OF_PLAN + 1)]
    slots = [Slot(tuple(part), 1, 1) for part in (queues[:100], queues[100:])]
    with pytest.raises(CheckpointMismatch, match="its slots are not valid"):
        Plan.from_json(plan(*slots).to_json(), account="acc")

    slots[1] = Slot(tuple(queues[100:-1]), 1, 1)
    assert Plan.from_json(plan(*slots).to_json(), account="acc") == plan(*slots)


def test_groups_that_wait_are_read_in_their_bounds_and_none_is_empty() -> None:
    part, empty = AGAIN.to_json(), AGAIN._replace(end=0).to_json()
    assert groups_from_json([[part, empty]], 2)[0][1].messages == 0
    with pytest.raises(Damaged):
        groups_from_json([[part], []], 2)

    many = [[part] * 128] * (MOST_WAITING // 128)
    assert sum(map(len, groups_from_json(many, 2))) == MOST_WAITING
    with pytest.raises(Damaged):
        groups_from_json([*many, [part]], 2)


def test_the_oldest_plan_that_is_needed_is_kept() -> None:
    newer = AGAIN._replace(plan=PlanId(2, "1" * 32))

    assert oldest([(newer,), (newer, AGAIN)]) == 1
    assert oldest([]) is None


def folder_of(query: Query) -> PlanFolder:
    folder = PlanFolder(query.store, query.config.account.name)
    folder.open()
    return folder


class Removed:
    """In place of `Removals`: which blobs are deleted, and what was waited for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.waited: list[float] = []

    def begin(self, name: str) -> Future[None]:
        self.names.append(name)
        return Future()

    def wait(self, timeout_s: float) -> None:
        self.waited.append(timeout_s)

    def close(self) -> None:
        self.waited.append(-1.0)


def test_the_blob_of_a_known_message_stays_when_its_plan_is_removed(
    fake: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_for: list[int] = []
    monkeypatch.setattr(closing, "wait", lambda each, timeout_s: waited_for.append(len(each)))
    monkeypatch.setattr(closing, "CLEAN_EVERY", 1)
    query = Query(
        fake,
        executorSlots="1",
        **WITH_BLOBS,
    )
    blobs = [f"{number:032x}" for number in range(3)]
    fake.put_many("orders", [Reference("bodies", name, 70_000).text for name in blobs])
    driver, given = first_plan(query)
    query.rows(given)
    folder, removed = folder_of(query), Removed()
    received = folder.first_segment(given, 0)[0].received
    (known,) = (each for each in received if blobs[1] in each.message.text)
    cleaning = Cleaning(query.config, folder, 0, AtOnce(1, "clean"), removed)  # type: ignore[arg-type]
    cleaning.ended(given, [100])
    assert cleaning.bytes == 100

    cleaning.clean(1, SeenMessages([PendingDelete(known.message.key, 1, 0)]))
    cleaning.finish(5.0)

    assert sorted(removed.names) == [blobs[0], blobs[2]]
    assert removed.waited == [5.0, -1.0]
    assert waited_for == [2, 1], "for the deletes of blobs, then for all of it"
    assert (cleaning.plans, cleaning.bytes) == ([given.id], 0), "what follows it is kept"
    assert cleaning.floor == folder.floor() == 1
    driver.close()
    query.close()


def test_the_blobs_of_what_a_task_put_into_a_plan_that_was_gone_stay(
    fake: FakeQueueService,
) -> None:
    """Its messages are in their queue: it has deleted none."""
    query, removed = Query(fake, **WITH_BLOBS), Removed()
    folder = folder_of(query)
    gone = plan(Slot((QueueRef(folder.account, "orders"),), 1, 1))
    header = replace(HEADER, log=folder.uuid, plan=gone.id, account=folder.account, messages=1)
    message = a_message(text=Reference("bodies", "a" * 32, 70_000).text)
    folder.put_segment(SlotSegment(replace(header, queues=(message.lease.queue,)), (message,)))
    objects = {gone.id: {names.slot(gone.id, 0): 100}}
    for is_settled in (False, True):
        cleaning = Cleaning(query.config, folder, 0, AtOnce(1, "clean"), removed)  # type: ignore[arg-type]
        if is_settled:
            objects[gone.id][names.settled(gone.id, 0)] = 0
        cleaning.found(objects, gone.id.number + 1, {})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(folder, "remove", list)
            patch.setattr(closing, "wait", lambda each, timeout_s: None)
            cleaning.clean(gone.id.number, SeenMessages())
        assert removed.names == ["a" * 32] * is_settled
    query.close()


def test_what_says_that_a_slot_is_settled_goes_before_the_slot(query: Query) -> None:
    """When the name of the slot is free, nothing says any more that it was delivered."""
    removed = list[str]()
    folder = SimpleNamespace(remove=lambda given: removed.extend(given) or removed)
    cleaning = Cleaning(query.config, folder, 0, AtOnce(1, "clean"), None)  # type: ignore[arg-type]
    gone = plan(Slot((ORDERS,), 1, 1)).id
    attempt = names.plan_attempt(gone, "a" * 32)
    found = [attempt, names.slot(gone, 0), names.settled(gone, 0)]
    cleaning.found({gone: dict.fromkeys(found, 1)}, gone.number + 1, {})

    cleaning.clean(gone.number, SeenMessages())

    assert removed == found[::-1]


def test_what_a_tombstone_should_have_given_comes_again_however_often_its_plan_is_closed(
    query: Query,
) -> None:
    client = query.client()
    folder = folder_of(query)
    again, new = Slot((), 5, 1, AGAIN), Slot((QueueRef(folder.account, "orders"),), 5, 1)
    given = replace(plan(again, new), account=folder.account, log=folder.uuid)
    closes = Closing(query.config, folder, client, AtOnce(1, "slots"))

    for _ in range(2):  # the first process ends before the next plan follows
        closed = closes.close(given, folder.listed(given.id))
        assert closed.slots == (None, None)
        assert closed.waiting == ((AGAIN,),)


def test_messages_that_were_given_again_are_not_deleted_a_second_time(
    query: Query,
) -> None:
    """They were, in the plan that was given up: a refusal would count as a delete that is owed."""
    query.fake.put("orders", "a")
    client = query.client()
    folder = folder_of(query)
    given = replace(plan(Slot((), 1, 1, AGAIN)), account=folder.account, log=folder.uuid)
    received = client.now(Dequeue(QueueRef(folder.account, "orders"), 1, 60)).received
    header = replace(HEADER, log=folder.uuid, plan=given.id, account=folder.account, messages=1)
    header = replace(header, queues=tuple(lease.queue for _, lease in received))
    folder.put_segment(SlotSegment(header, received))

    closed = Closing(query.config, folder, client, AtOnce(1, "slots")).close(
        given, folder.listed(given.id)
    )

    assert [(each.messages, each.deleted, each.pending) for each in closed.settled] == [(1, 0, ())]
    assert query.fake.requests["delete"] == 0


def test_plans_go_though_somebody_removed_what_a_slot_gave(
    fake: FakeQueueService, caplog: pytest.LogCaptureFixture
) -> None:
    query, removed = Query(fake, **WITH_BLOBS), Removed()
    folder = folder_of(query)
    cleaning = Cleaning(query.config, folder, 0, AtOnce(1, "clean"), removed)  # type: ignore[arg-type]
    first = plan(Slot((ORDERS,), 1, 1)).id
    for number in range(closing.CLEAN_EVERY):
        each = replace(plan(Slot((ORDERS,), 1, 1)), id=first._replace(number=number + 1))
        cleaning.ended(each, [100])

    cleaning.clean(closing.CLEAN_EVERY, SeenMessages())
    cleaning.finish(5.0)

    assert [each.number for each in cleaning.plans] == [closing.CLEAN_EVERY]
    assert caplog.text == ""
    query.close()


def test_of_what_a_plan_has_only_what_its_slots_gave_counts_as_bytes(
    fake: FakeQueueService,
) -> None:
    query = Query(fake)
    folder = PlanFolder(query.store, query.config.account.name)
    cleaning = Cleaning(query.config, folder, 0, AtOnce(1, "clean"), None)  # type: ignore[arg-type]

    cleaning.ended(replace(plan(Slot((ORDERS,), 1, 1)), has_known=True), [100], ["more"])

    assert cleaning.bytes == 100
    query.close()


def test_messages_that_are_seen_again_count_as_new_and_a_day_after_they_expired_as_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With too many of them the oldest are forgotten."""
    monkeypatch.setattr(objects, "KNOWN_AT_MOST", 2)
    first, second, third = (
        PendingDelete(MessageKey(ORDERS, name), 1, expires)
        for name, expires in (("first", 0), ("second", 100), ("third", 101))
    )

    known, evicted = SeenMessages([first, second]).after([SlotReport(pending=(third, first))], 0)
    assert evicted == 1
    assert [each.key in known for each in (first, second, third)] == [True, False, True]

    known, evicted = SeenMessages([first, second]).after([], 100 + A_DAY_S)
    assert (len(known), evicted) == (2, 0)
    known, evicted = known.after([SlotReport(pending=(third,))], 101 + A_DAY_S)
    assert (len(known), evicted) == (2, 0)
    assert second.key not in known


def test_an_idle_query_notes_a_commit_ten_seconds_after_it_closed_the_plan_or_at_its_end() -> None:
    now, noted = [0.0], list[PlanId]()
    folder = SimpleNamespace(mark_committed=noted.append)
    recovery, cleaning = SimpleNamespace(followed=None), SimpleNamespace(add=lambda *_: None)
    noting = Noting(folder, recovery, cleaning, lambda: now[0])  # type: ignore[arg-type]
    first, second, third = (PlanId(number, "1" * 32) for number in (1, 2, 3))
    now[0] = 100.0
    noting.closed()

    for plan, now[0], ends in (
        (START, 200.0, True),
        (first, 109.9, False),
        (first, 110.0, False),
        (first, 200.0, True),
    ):
        noting.idle(plan, ends=ends)
    assert noted == [first]

    noting.closed()
    noting.idle(second, ends=False)
    assert noted == [first]
    noting.idle(second, ends=True)
    assert noted == [first, second]

    recovery.followed = third
    noting.idle(third, ends=True)
    assert noted == [first, second], "what follows it says that it is committed"


def test_plans_are_not_removed_a_second_time_while_that_is_under_way(
    fake: FakeQueueService,
) -> None:
    query, begun = Query(fake), list[Future[None]]()

    def submit(*_: object) -> Future[None]:
        begun.append(Future())
        return begun[-1]

    workers = SimpleNamespace(submit=submit)
    folder = PlanFolder(query.store, query.config.account.name)
    cleaning = Cleaning(query.config, folder, 0, workers, None)  # type: ignore[arg-type]
    for _ in range(2):
        cleaning.clean(closing.CLEAN_EVERY, SeenMessages())
    assert len(begun) == 1
    begun[0].set_result(None)
    cleaning.clean(closing.CLEAN_EVERY, SeenMessages())
    assert len(begun) == 2
    begun[1].set_result(None)
    cleaning.clean(closing.CLEAN_EVERY - 1, SeenMessages())
    assert len(begun) == 2
    query.close()


def test_what_an_earlier_run_left_below_the_floor_is_removed(
    fake: FakeQueueService,
) -> None:
    query, begun = Query(fake), list[tuple[object, ...]]()
    workers = SimpleNamespace(submit=lambda *given: begun.append(given))
    folder = PlanFolder(query.store, query.config.account.name)
    cleaning = Cleaning(query.config, folder, 0, workers, None)  # type: ignore[arg-type]
    left, last, kept = (PlanId(number, "1" * 32) for number in (4, 5, 9))
    objects = {left: {"a": 1}, last: {"b": 0}, kept: {"c": 2}}
    cleaning.found({plan: objects[plan] for plan in (last, kept)}, 5, {})
    cleaning.clean(3, SeenMessages())
    assert begun == []

    cleaning.found(objects, 5, {})
    cleaning.clean(3, SeenMessages())
    assert [given[1:3] for given in begun] == [(5, {left: {"a": 1}, last: {"b": 0}})]
    query.close()


def test_a_checkpoint_of_another_folder_is_refused_as_such(fake: FakeQueueService) -> None:
    query = Query(fake)
    fake.put_many("orders", ["a", "b"])
    driver, given = first_plan(query)
    query.rows(given)
    driver.close()
    another = query.driver()

    with pytest.raises(CheckpointMismatch, match="belongs to another write-ahead log"):
        another.latest(replace(given, log="0" * 32).to_json(), None)
    another.close()
    query.close()


def test_a_new_checkpoint_goes_on_in_no_folder_of_other_queues(
    fake: FakeQueueService,
) -> None:
    query = Query(fake)
    fake.put_many("orders", ["a", "b"])
    driver, given = first_plan(query)
    query.rows(given)
    driver.latest(given.to_json(), None)
    driver.close()
    other = Query(fake, queue="others", writeAheadLogStart="afterCommitted")
    fake.create_queue("others")
    other.store = query.store
    another = other.driver()

    with pytest.raises(CheckpointMismatch, match="orders"):
        another.latest(another.initial, None)
    for each in (another, query, other):
        each.close()


def test_a_batch_behind_the_floor_goes_on_and_several_plans_only_before_the_first_answer(
    fake: FakeQueueService,
) -> None:
    query = Query(fake)
    fake.put_many("orders", ["a"])
    driver, one = first_plan(query)
    query.rows(one)
    plans = [one]
    for body in "bc":
        fake.put_many("orders", [body])
        plans.append(query.plan(driver.latest(plans[-1].to_json(), None)))
        query.rows(plans[-1])
    driver.close()
    _, two, three = plans
    folder = PlanFolder(query.store, query.config.account.name)
    folder.identify()
    folder.open()
    folder.raise_floor(one.number)
    assert query.config.write_ahead_log
    recovery = PlanRecovery(folder, query.config.write_ahead_log, query.config.selection)

    assert recovery.take(one, two) is None
    assert recovery.behind(one, three) == [two, three]
    with pytest.raises(CheckpointMismatch, match="batch 2 follows"):
        recovery.behind(one, three, has_answered=True)
    assert recovery.behind(two, three, has_answered=True) == [three]
    assert recovery.stands(three.id)
    unknown = replace(three, id=three.id._replace(nonce="f" * 32))
    assert not recovery.stands(unknown.id)
    recovery = PlanRecovery(folder, query.config.write_ahead_log, query.config.selection)
    with pytest.raises(CheckpointMismatch, match="is behind the checkpoint"):
        recovery.take(unknown)
    assert not recovery.is_done
    query.close()


HEADER = SlotHeader(
    log="0" * 32,
    plan=PlanId(3, "1" * 32),
    slot=0,
    account="acc",
    attempt="2" * 32,
    messages=4,
    repeated=True,
    oldest=5,
    expires=6,
    looked={"orders": Looked(4, drained=True)},
    counts=Counts(dequeued=4, duplicates_suppressed=1),
)


def test_a_report_begins_with_what_the_segment_says() -> None:
    expected = {"messages": 4, "size": 7, "repeated": True, "oldest": 5, "expires": 6}
    same = {"looked": HEADER.looked, "counts": HEADER.counts}

    assert SlotReport.of(HEADER, 7) == SlotReport(**expected, **same)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [7, {"0": 1, "1": True, "2": None}, [1, True], [1, 1, None]])
def test_what_no_task_says_of_a_queue_is_damaged(value: object) -> None:
    with pytest.raises(Damaged, match="what it says of a queue"):
        Looked.from_json(value)


def test_a_segment_or_report_that_looked_at_too_many_queues_is_damaged() -> None:
    looked = {f"queue-{number}": Looked(1) for number in range(MOST_QUEUES_OF_PLAN)}
    most = replace(HEADER, looked=looked)
    assert SlotHeader.from_bytes(most.to_bytes()) == most

    with pytest.raises(Damaged, match="too many queues"):
        SlotHeader.from_bytes(replace(most, looked=looked | {"more": Looked(1)}).to_bytes())
    report = SlotReport(looked=looked | {"more": Looked(1)})
    with pytest.raises(Damaged, match="too many queues"):
        SlotReport.from_bytes(report.to_bytes(), "acc")


def test_a_closed_plan_says_what_its_slots_gave_and_what_comes_again() -> None:
    empty = AGAIN._replace(end=0)
    given = plan(Slot((), 5, 1, AGAIN), Slot((), 1, 1, empty), Slot((ORDERS,), 5, 1))
    closed = Closed(given, (None, None, SlotReport(messages=2)))

    assert closed.stored == [Part(given.id, 2, 0, 2)]
    assert closed.sizes == [0, 0, 0]
    assert replace(closed, slots=(None, None, SlotReport(size=7))).sizes == [0, 0, 7]
    assert closed.waiting == ((AGAIN,),)
    assert Closed(given, (SlotReport(), None, None)).waiting == ()
