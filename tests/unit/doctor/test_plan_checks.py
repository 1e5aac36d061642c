"""What the doctor says of the folder of leaseOn=executors, and that it leaves it as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refs import ref
from segments import a_message

from spark_azqueue.commands.doctor.finding import Finding
from spark_azqueue.commands.doctor.log_checks import examine_log
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.objects import SlotHeader, SlotReport, SlotSegment
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.log.log import WriteAheadLog

ACCOUNT = "acc"
ORDERS, RETURNS = ref("orders", ACCOUNT), ref("returns", ACCOUNT)
MESSAGES = 2


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "orders"


def looked(place: Path, queue: str = "orders,returns", **options: str) -> list[Finding]:
    given = {
        "accountUrl": f"https://{ACCOUNT}.queue.core.windows.net",
        "sasToken": "sp=raup&sig=aBcD1234",
        "queue": queue,
        "leaseOn": "executors",
        "deleteAfter": "log",
        "writeAheadLog": f"file:{place}",
    }
    config = source_config(given | options, {})
    assert config.write_ahead_log
    before = contents(place)
    found = list(examine_log(config, config.write_ahead_log))
    assert contents(place) == before
    return found


def contents(place: Path) -> dict[str, bytes]:
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def opened(place: Path, account: str = ACCOUNT) -> PlanFolder:
    folder = PlanFolder(FileStore(str(place), EXECUTORS), account)
    folder.open()
    return folder


def planned(folder: PlanFolder, number: int = 1, before: PlanId = START) -> Plan:
    """A plan of two slots that follows another one."""
    slots = (Slot((ORDERS,), 100, 1000), Slot((RETURNS,), 100, 1000))
    plan = Plan(ACCOUNT, folder.uuid, PlanId(number, f"{number:032x}"), slots)
    return folder.put_following(before, plan)


def put(folder: PlanFolder, plan: Plan, slot: int, *, deleted: bool) -> None:
    (queue,) = plan.slots[slot].queues
    received = tuple(a_message(number, queue=queue) for number in range(MESSAGES))
    header = SlotHeader(folder.uuid, plan.id, slot, ACCOUNT, "0" * 32, MESSAGES, queues=(queue,))
    _, size = folder.put_segment(SlotSegment(header, received))
    if deleted:
        folder.put_settled(plan, slot, replace(SlotReport.of(header, size), deleted=MESSAGES))


def said(found: list[Finding], words: str) -> Finding:
    (only,) = [each for each in found if words in each.text]
    return only


def test_a_new_folder(place: Path) -> None:
    place.mkdir(parents=True)

    found = looked(place)

    last = said(found, "is new: the first start writes its identity")
    assert last.good is None
    assert "restore it: its checkpoint needs it" in last.advice
    assert False not in {each.good for each in found}


def test_a_folder_without_a_batch(place: Path) -> None:
    opened(place)

    assert said(looked(place), "holds no batch yet").good is None


def test_a_folder_whose_deletes_are_answered(place: Path) -> None:
    folder = opened(place)
    first = planned(folder)
    put(folder, first, 0, deleted=True)
    folder.put_segment(tombstone(first, 1, "0" * 32))
    newest = planned(folder, 2, first.id)
    for slot in range(2):
        put(folder, newest, slot, deleted=True)

    found = looked(place)

    assert {each.good for each in found} == {True}
    assert said(found, "holds batches 1 to 2 (")
    assert said(found, "was written from the queues ['orders', 'returns']")
    slots = said(found, "batch 2 has 2 slots; 2 gave something, and the deletes of 2 are answered")
    assert "may be in their queues" not in slots.text


def test_deletes_that_wait(place: Path) -> None:
    folder = opened(place)
    plan = planned(folder)
    put(folder, plan, 0, deleted=True)
    put(folder, plan, 1, deleted=False)

    found = said(looked(place), "the deletes of 1 are answered")

    assert found.good is None
    assert found.text.endswith("; 2 messages may be in their queues yet")
    assert "A query that runs ends them" in found.advice


def test_the_folder_of_another_query(place: Path) -> None:
    planned(opened(place))

    found = said(looked(place, queue="invoices"), "option 'queue' names none")

    assert found.good is False
    assert found.advice.startswith("Name the folder of this query, or a new one")


def test_the_folder_of_another_account(place: Path) -> None:
    planned(opened(place, "other"))

    last = looked(place)[-1]

    assert last.good is False
    assert "account 'other'" in last.text + last.advice


def test_the_folder_of_a_log_of_the_driver(place: Path) -> None:
    WriteAheadLog(FileStore(str(place)), ACCOUNT, 10).open()

    last = looked(place)[-1]

    assert last.good is False
    assert "is the folder of a write-ahead log" in last.advice


def test_a_damaged_slot(place: Path) -> None:
    folder = opened(place)
    put(folder, planned(folder), 0, deleted=False)
    (slot,) = (place / "slots").glob("*-s0000")
    slot.write_bytes(slot.read_bytes()[:-1])

    last = looked(place)[-1]

    assert last.good is False
    assert "cannot be used" in last.text
