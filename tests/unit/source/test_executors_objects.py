"""Objects in the folder of leaseOn=executors: what goes in comes out, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS, ref
from segments import a_message

from spark_azqueue.errors import LogDamaged, LogUnavailable
from spark_azqueue.journal.codec import LATEST, Damaged, sealed, unsealed
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.messages import MessageKey
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.source.executors import names
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import (
    KNOWN_AT_MOST,
    KNOWN_BYTES_AT_MOST,
    MORE_THAN_BUDGET,
    Counts,
    Looked,
    SeenMessages,
    SlotHeader,
    SlotReport,
    SlotSegment,
    decode_slot,
    encode_slot,
    report_bytes_at_most,
)
from spark_azqueue.source.executors.plan import Learned, Plan, Slot

LOG = "a" * 32
PLAN = PlanId(7, "b" * 32)
LOOKED = {"orders": Looked(3, drained=True, limits=Learned(24, 1950))}
HEADER = SlotHeader(
    LOG,
    PLAN,
    2,
    ACCOUNT,
    "c" * 32,
    messages=3,
    until=1_790_000_000,
    repeated=True,
    oldest=1_780_000_000,
    expires=1_795_000_000,
    queues=(ORDERS,),
    reading={"bodyType": "string"},
    looked=LOOKED,
    counts=Counts(dequeued=4, duplicates_suppressed=1, began_cs=179_000_000_000, took_cs=250),
)
RECEIVED = tuple(a_message(number, queue=ORDERS) for number in range(3))
BYTES = encode_slot(HEADER, RECEIVED)
PENDING = tuple(
    PendingDelete(MessageKey(ORDERS, f"id-{number}"), number, 1_790_000_000) for number in range(3)
)
LONGEST = PendingDelete(MessageKey(ref("q" * 63), "i" * 64), 2**64 - 1, LATEST - 1)
SETTLED = SlotReport(
    3,
    500,
    1,
    PENDING[:2],
    (PENDING[2].key,),
    90,
    True,
    5,
    6,
    LOOKED,
    Counts(dequeued=4, throttled=2),
)


def read(data: bytes) -> SlotSegment:
    return decode_slot(data, log=LOG, plan=PLAN, slot=2)


def test_a_segment_and_a_tombstone_come_back() -> None:
    assert read(BYTES) == SlotSegment(HEADER, RECEIVED)
    plan = Plan(ACCOUNT, LOG, PLAN, (Slot((ORDERS,), 1, 1),) * 3)
    stone = tombstone(plan, 2, "d" * 32)
    assert read(encode_slot(stone.header, ())) == stone


@given(st.integers(0, len(BYTES) - 1), st.integers(1, 255))
def test_any_changed_byte_is_damage(at: int, change: int) -> None:
    changed = bytearray(BYTES)
    changed[at] ^= change
    with pytest.raises(Damaged):
        read(bytes(changed))


@given(st.integers(0, len(BYTES) - 1))
def test_a_part_of_it_is_damage(size: int) -> None:
    with pytest.raises(Damaged):
        read(BYTES[:size])


@pytest.mark.parametrize(
    "other", [{"log": "d" * 32}, {"plan": PlanId(8, PLAN.nonce)}, {"slot": 1}], ids=str
)
def test_the_segment_of_another_place_is_damage(other: dict[str, object]) -> None:
    with pytest.raises(Damaged, match="another place"):
        read(encode_slot(replace(HEADER, **other), RECEIVED))  # type: ignore[arg-type]


def test_a_segment_with_a_queue_that_its_slot_has_not_is_refused() -> None:
    store = MemoryLogStore(kind=EXECUTORS)
    folder = PlanFolder(store, ACCOUNT)
    folder.open()
    plan = Plan(ACCOUNT, folder.uuid, PLAN, (Slot((ref("returns"),), 9, 9),) * 3)
    folder.put_segment(SlotSegment(replace(HEADER, log=folder.uuid), RECEIVED))
    with pytest.raises(LogDamaged, match="a queue that its slot has not"):
        folder.segment(plan, 2)


def test_no_object_has_more_messages_than_its_plan_allows() -> None:
    """Who can write to the folder does not decide how much memory its reader needs."""
    store = MemoryLogStore(kind=EXECUTORS)
    folder = PlanFolder(store, ACCOUNT)
    folder.open()
    id_ = PlanId(8, "b" * 32)
    plan = Plan(ACCOUNT, folder.uuid, id_, (Slot((ORDERS,), 10, 2**20),))
    most = 10 + MORE_THAN_BUDGET
    report = SlotReport(messages=most, pending=(LONGEST,) * most)
    assert len(report.to_bytes()) < report_bytes_at_most(10)
    folder.put_settled(plan, 0, report)
    assert folder.settled(plan, 0) is not None

    header = replace(HEADER, log=folder.uuid, plan=id_, slot=0, messages=most + 1)
    folder.put_segment(
        SlotSegment(header, tuple(a_message(at, queue=ORDERS) for at in range(most + 1)))
    )
    with pytest.raises(LogDamaged, match="more messages than its plan allows"):
        folder.segment(plan, 0)

    store.objects[names.settled(id_, 0)] = SlotReport(pending=(LONGEST,) * 200_000).to_bytes()
    with pytest.raises(LogDamaged, match=names.settled(id_, 0)):
        folder.settled(plan, 0)
    store.objects[names.known(id_)] = (
        SeenMessages([LONGEST]).to_bytes() + b" " * KNOWN_BYTES_AT_MOST
    )
    with pytest.raises(LogDamaged, match=names.known(id_)):
        folder.known(replace(plan, has_known=True))


def test_the_most_that_is_known_can_be_read() -> None:
    keys = (MessageKey(ref("q" * 63), f"{at:064}") for at in range(KNOWN_AT_MOST))
    every = [PendingDelete(key, 2**64 - 1, LATEST - 1) for key in keys]
    assert len(SeenMessages(every).to_bytes()) < KNOWN_BYTES_AT_MOST


def test_what_was_settled_comes_back() -> None:
    assert SlotReport.from_bytes(SETTLED.to_bytes(), ACCOUNT) == SETTLED


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"messages": -1},
        {"deleted": None},
        {"pending": {}},
        {"pending": [["orders", "id", "zz", 0]]},
        {"pending": [["Not A Queue", "id", "0" * 16, 0]]},
        {"gone": [["orders", "../id"]]},
        {"gone": [["orders"]]},
        {"looked": []},
        {"looked": {"../orders": [1, True, None]}},
        {"repeated": "yes"},
        {"looked": {"orders": [1, 2, None]}},
        {"looked": {"orders": [1, True, [0, None]]}},
        {"counts": {"dequeued": "4"}},
        {"oldest": LATEST},
        {"expires": LATEST},
    ],
    ids=str,
)
def test_a_report_that_no_task_would_write_is_damage(change: dict[str, object]) -> None:
    found = unsealed(SETTLED.to_bytes())
    assert isinstance(found, dict)
    with pytest.raises(Damaged):
        SlotReport.from_bytes(sealed(found | change), ACCOUNT)


def test_what_is_known_grows_by_what_is_owed_and_shrinks_by_what_is_gone() -> None:
    known, forgotten = SeenMessages().after([replace(SETTLED, gone=())], 0)
    assert (len(known), forgotten) == (2, 0)
    assert known.has(PENDING[0].key, 0)
    assert not known.has(PENDING[0].key, 99), "its text was updated: it is another message"
    known, _ = known.after([SlotReport(gone=(PENDING[0].key,))], 0)
    assert PENDING[0].key not in known
    assert SeenMessages.from_bytes(known.to_bytes(), ACCOUNT).has(PENDING[1].key, 1)
    assert len(known.after([], 1_790_000_000 + 86_401)[0]) == 0, "no copy can come any more"


def test_of_too_many_known_messages_the_newest_are_kept() -> None:
    pending = tuple(
        PendingDelete(MessageKey(ORDERS, f"id-{number}"), 1, 0)
        for number in range(KNOWN_AT_MOST + 5)
    )
    known, forgotten = SeenMessages().after([SlotReport(pending=pending)], 0)
    assert (len(known), forgotten) == (KNOWN_AT_MOST, 5)
    assert pending[4].key not in known
    assert pending[5].key in known


@pytest.mark.parametrize(
    "name",
    [
        names.slot(PLAN, 3),
        names.settled(PLAN, 999),
        names.known(PLAN),
        names.following(PLAN),
        names.plan_attempt(PLAN, "c" * 32),
        names.begun(PLAN, 3, "c" * 32, is_repeated=True),
        names.begun(PLAN, 3, "c" * 32, is_repeated=False),
    ],
)
def test_names_are_read_back(name: str) -> None:
    found = names.as_slot_name(name)
    assert found is not None
    assert found.plan == PLAN
    assert name.startswith(f"{names.SLOTS}/{names.prefix(PLAN)}")


@pytest.mark.parametrize("name", ["slots/x", "slots/1-b-s0001", names.floor(3), "log.json"])
def test_other_names_are_none(name: str) -> None:
    assert names.as_slot_name(name) is None


def test_a_folder_that_is_missing_here_is_to_be_on_every_executor(tmp_path):
    folder = PlanFolder(FileStore(str(tmp_path / "log"), EXECUTORS), "shop")

    with pytest.raises(LogUnavailable, match="at this path, on the driver and on every executor"):
        folder.identify()


def test_a_folder_that_another_process_begins_meanwhile_is_no_damaged_one(monkeypatch):
    store = MemoryLogStore(kind=EXECUTORS)
    other = PlanFolder(store.another(), ACCOUNT)
    real = store.names

    def names_later(folder, prefix=""):
        other.open()
        other.mark_committed(PLAN)
        return real(folder, prefix)

    monkeypatch.setattr(store, "names", names_later)
    folder = PlanFolder(store, ACCOUNT)

    folder.open()

    assert folder.uuid == other.uuid
