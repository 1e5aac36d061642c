"""Write-ahead logs in files, of both kinds, as their writers leave them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from refs import ACCOUNT, ORDERS
from segments import a_message

from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.journal.store import LogStore
from spark_azqueue.service.messages import Received
from spark_azqueue.service.names import EXECUTORS, WRITE_AHEAD
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.names import PlanId
from spark_azqueue.source.executors.objects import SlotHeader, SlotSegment
from spark_azqueue.source.executors.plan import Plan, Slot
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress

Batches = Sequence[Sequence[str]]


def messages_of(number: int, texts: Sequence[str]) -> list[Received]:
    """Of batch `number`. No two have the same id."""
    return [a_message(number * 1_000_000 + place, text=text) for place, text in enumerate(texts)]


def write_log(folder: Path | LogStore, batches: Batches, committed: int, **reading: str) -> str:
    """A log that a driver writes; batches after `committed` are not committed. Its place."""
    store = FileStore(str(folder), WRITE_AHEAD) if isinstance(folder, Path) else folder
    log = WriteAheadLog(store, ACCOUNT, 100_000, removes=False)
    log.open()
    log.claim(0)
    for number, texts in enumerate(batches, 1):
        done = min(number - 1, committed)
        contents = Contents(messages_of(number, texts), (len(texts),), None, (ORDERS,), reading)
        log.put(contents, LogProgress(committed=done, done=done))
    log.mark(LogProgress(committed=committed, done=committed))
    return f"file:{folder}"


def write_slots(folder: Path, batches: Batches, committed: int, **reading: str) -> str:
    """The same of a query with leaseOn=executors, with one slot in each plan."""
    store = PlanFolder(FileStore(str(folder), EXECUTORS), ACCOUNT)
    store.open()
    before = Plan.start(ACCOUNT, store.uuid)
    assert committed >= len(batches) - 1, "only the newest plan can be open"
    for number, texts in enumerate(batches, 1):
        slots = (Slot((ORDERS,), len(texts), 10**6),)
        plan = Plan(ACCOUNT, store.uuid, PlanId(number, f"{number:032x}"), slots)
        store.put_following(before.id, plan)
        messages = tuple(messages_of(number, texts))
        head = (plan.log, plan.id, 0, ACCOUNT, "0" * 32, len(messages))
        store.put_segment(
            SlotSegment(SlotHeader(*head, queues=(ORDERS,), reading=reading), messages)
        )
        before = plan
    if committed == len(batches):
        store.mark_committed(before.id)
    return f"file:{folder}"
