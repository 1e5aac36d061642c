"""Names and bytes of every object of the four kinds of logs: as golden files, written and read.

Frames are compared unpacked, since builds of zstd pack differently. To add an object, write its
file into tests/compat/golden; what is there stays. If a later version of one is written, the file
of the earlier one moves into a folder beside it (`segments.1`), where it is read as ever.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from log_stores import MemoryLogStore
from refs import ACCOUNT, ORDERS, ref
from segments import a_message

from spark_azqueue.errors import LogDamaged
from spark_azqueue.files import log as file_log
from spark_azqueue.files.decide import Quarantined
from spark_azqueue.files.log import FileLog
from spark_azqueue.files.memory import Bounds, File, Memory
from spark_azqueue.files.record import Begun, FileList
from spark_azqueue.journal import claim as claims
from spark_azqueue.journal.claim import Claim
from spark_azqueue.journal.frame import unframed, unpacked
from spark_azqueue.journal.identity import Identity
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.messages import MessageKey
from spark_azqueue.service.names import EXECUTORS, FILES, TRANSACTIONS, WRITE_AHEAD, Kind
from spark_azqueue.sink.transaction import names as transaction_names
from spark_azqueue.sink.transaction.log import TransactionLog
from spark_azqueue.sink.transaction.log import TransactionRecord as TransactionRecord
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.record import Chunk, RecordHead, placed
from spark_azqueue.source.executors.folder import PlanFolder, tombstone
from spark_azqueue.source.executors.names import START, PlanId
from spark_azqueue.source.executors.objects import (
    Counts,
    Looked,
    SeenMessages,
    SlotReport,
    SlotSegment,
)
from spark_azqueue.source.executors.objects import SlotHeader as SlotHeader
from spark_azqueue.source.executors.plan import Learned, Part, Plan, Slot
from spark_azqueue.source.findings import Findings
from spark_azqueue.source.log.log import Contents, WriteAheadLog
from spark_azqueue.source.log.outcomes import BatchOutcome, outcome_on
from spark_azqueue.source.log.progress import IN_PLACE, FirstBatch, LogProgress, PendingLists
from spark_azqueue.source.suspects import Evidence, FailureHistory

GOLDEN = Path(__file__).parents[1] / "compat" / "golden"
MAGICS = (b"azqueue segment 1\n", b"azqueue slot 1\n", b"azqueue files 1\n")

RETURNS = ref("returns")
RECEIVED = (
    a_message(0),
    a_message(1, RETURNS, text="ü\ud800", dequeue_count=3, next_visible_time=None, intact=False),
    a_message(2, expiration_time=253_402_300_799_000_000),
)
PENDING = tuple(PendingDelete(MessageKey(ORDERS, f"id-{at}"), at, 1_790_000_000) for at in range(3))
MANY_PENDING = tuple(
    PendingDelete(MessageKey(RETURNS, f"id-{at}"), 2**63 + at, 0) for at in range(IN_PLACE + 1)
)
READING = {"messageEncoding": "base64", "bodyType": "string", "onUndecodable": "poison"}
FINDINGS = Findings(
    {MessageKey(ORDERS, "id-1"): FailureHistory(6, 6, 1, 3, 3, 500)},
    Evidence(2, True, 3, 12, 40, 5, True, 1, 480),
)


@pytest.fixture(autouse=True)
def _nothing_is_random(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=0xC0FFEE))
    monkeypatch.setattr(claims, "secrets", SimpleNamespace(randbelow=lambda most: 41))
    monkeypatch.setattr(file_log, "secrets", SimpleNamespace(token_hex=lambda size: "5" * size * 2))
    monkeypatch.setattr(file_log, "SNAPSHOT_AFTER", 2)


def logged(store: MemoryLogStore) -> WriteAheadLog:
    return WriteAheadLog(store, ACCOUNT, 10, now=lambda: 1_800_000_000.0)


def write_ahead_log(store: MemoryLogStore) -> None:
    log = logged(store)
    log.open()
    log.survey()
    log.claim(0)
    log.put(Contents(RECEIVED, (2, 1), 1_780_000_000, (ORDERS, RETURNS), READING), LogProgress())
    log.put(
        Contents(RECEIVED[:1], (1,), None, (ORDERS,), {}, suspect=True),
        LogProgress(
            named=1, committed=1, pending=MANY_PENDING, began=FirstBatch(0, 1), leased_s=300
        ),
    )
    log.outcomes.decide(1, BatchOutcome.COMMITTED)
    log.outcomes.decide(2, BatchOutcome.SPLIT)
    log.outcomes.decide(3, BatchOutcome.POISON, FINDINGS)
    log.outcomes.replayed(2)
    log.mark(
        LogProgress(
            *(0, 0, 2, 2, 1),
            pending=PENDING,
            hidden=3,
            hidden_until=1_790_000_300,
            leased_s=90,
            has_ended=True,
        )
    )


def read_write_ahead_log(store: MemoryLogStore) -> None:
    log = logged(store)
    assert log.identify()
    state = log.survey()
    assert (state.progress.named, state.progress.pending, state.progress.hidden) == (2, PENDING, 3)
    assert log.newest
    assert log.newest.suspect
    assert log.newest.progress.pending_list
    whole = PendingLists(log, lose=False).whole(log.newest.progress)
    assert whole
    assert (whole.pending, whole.began, whole.leased_s) == (MANY_PENDING, (0, 1), 300)
    first = log.segments.read(1)
    assert first.received == RECEIVED
    assert (first.header.cut, first.header.reading) == ((2, 1), READING)
    log.outcomes.find()
    assert [outcome_on(log, at) for at in (1, 2, 3, 4)] == [
        BatchOutcome.COMMITTED,
        BatchOutcome.SPLIT,
        BatchOutcome.POISON,
        None,
    ]
    assert log.outcomes.newest_findings == FINDINGS
    assert log.outcomes.has_attempts(2)


FIRST = PlanId(1, "1" * 32)
SECOND = PlanId(2, "2" * 32)
SETTLED = SlotReport(
    *(3, 500, 1, PENDING[:2], (PENDING[2].key,)),
    repeated=True,
    oldest=5,
    expires=6,
    looked={"orders": Looked(3, drained=True, limits=Learned(24, 1950))},
    counts=Counts(4, 1, 1, 0, 2, 1, 179_000_000_000, 250),
    given_bytes=90,
)


def plans(log: str) -> tuple[Plan, Plan]:
    slots = (Slot((ORDERS, RETURNS), 4_096, 2**25), Slot((ref("third"),), 1, 1))
    first = Plan(
        *(ACCOUNT, log, FIRST, slots, 1_800_000_000, 90, 1_800_000_000_000_000),
        has_known=True,
        limits={"orders": Learned(24, 1950), "returns": Learned(1, None)},
        reading=READING,
    )
    again = (Slot((), 2, 64, Part(FIRST, 0, 0, 2)),)
    waiting = ((Part(FIRST, 0, 2, 3), Part(FIRST, 1, 0, 1)),)
    return first, Plan(ACCOUNT, log, SECOND, again, gave_up=True, waiting=waiting)


def slot_header(log: str) -> SlotHeader:
    return SlotHeader(
        *(log, FIRST, 0, ACCOUNT, "a" * 32),
        messages=3,
        until=1_800_000_060,
        repeated=True,
        oldest=1_800_000_000,
        expires=1_800_600_000,
        queues=(ORDERS, RETURNS),
        reading=READING,
        looked=SETTLED.looked,
        counts=SETTLED.counts,
    )


def executors_log(store: MemoryLogStore) -> None:
    folder = PlanFolder(store, ACCOUNT)
    folder.open()
    first, second = plans(folder.uuid)
    folder.identify()  # it is not new any more
    Claim.take(folder, "e" * 32)
    folder.put_known(FIRST, SeenMessages(PENDING))
    folder.put_following(START, first)
    folder.note_begun(first, 0, "a" * 32, is_repeated=False)
    folder.note_begun(first, 0, "b" * 32, is_repeated=True)
    folder.put_segment(SlotSegment(slot_header(folder.uuid), RECEIVED))
    folder.put_segment(tombstone(first, 1, "b" * 32))
    folder.put_settled(first, 0, SETTLED)
    folder.note_attempt(FIRST, "f" * 32)
    folder.put_following(FIRST, second)
    folder.mark_committed(SECOND)
    folder.raise_floor(1)


def read_executors_log(store: MemoryLogStore) -> None:
    folder = PlanFolder(store, ACCOUNT)
    assert folder.identify()
    first, second = plans(folder.uuid)
    assert folder.following(START) == first
    assert folder.following(FIRST) == second
    stands = folder.segment(first, 0)
    assert stands
    columns = stands[0].header.columns
    assert stands[0] == SlotSegment(replace(slot_header(folder.uuid), columns=columns), RECEIVED)
    nothing = folder.segment(first, 1)
    assert nothing
    assert nothing[0].header.tombstone
    assert (nothing[0].header.attempt, nothing[0].received) == ("b" * 32, ())
    assert folder.settled(first, 0) == SETTLED
    known = folder.known(first)
    assert (len(known), all(known.has(each.key, each.fingerprint) for each in PENDING)) == (3, True)
    listed = folder.listed(FIRST)
    assert (listed.segments, listed.settled, listed.attempts) == ({0, 1}, {0}, 1)
    assert (listed.is_closed, len(listed.marks)) == (True, 2)
    assert folder.listed(SECOND).is_committed
    assert folder.floor() == 1


STREAM = transaction_names.stream_key("12345678-1234-1234-1234-123456789abc")
NIGHTLY = transaction_names.batch_key(ACCOUNT, "orders", "nightly ü")
SENT = transaction_names.batch_key(ACCOUNT, "orders", "spark-azqueue send")
CHUNKS = tuple(Chunk(rows, 90, bytes([rows]) * 40) for rows in (2, 3))


def heads() -> tuple[RecordHead, RecordHead, RecordHead]:
    inline, _, _ = placed(CHUNKS)
    in_parts = tuple(replace(each, part=at) for at, each in enumerate(inline))
    moments = (1_800_600_000, 1_800_000_000, 1)
    return (
        RecordHead(
            *(Transaction(STREAM, 4), "d" * 32, "e" * 32, ACCOUNT, "1234", 6, *moments),
            chunks=inline,
        ),
        RecordHead(
            *(Transaction(NIGHTLY, 2**63 - 1), "d" * 32, "", ACCOUNT, "nightly ü", 5, *moments),
            chunks=in_parts,
            written=((0, 4), (7, 7)),
        ),
        RecordHead(
            *(Transaction(SENT, 7), "d" * 32, "", ACCOUNT, "spark-azqueue send", 5, *moments),
            chunks=inline,
            texts="f" * 32,
        ),
    )


def transaction_log(store: MemoryLogStore) -> None:
    log = TransactionLog(store, ACCOUNT)
    log.open()
    stream, nightly, sent = heads()
    log.begin(STREAM, 3, "e" * 32)
    inline = b"".join(each.data for each in CHUNKS)
    assert log.put_head(TransactionRecord(stream, inline))
    log.put_parts(nightly, [each.data for each in CHUNKS])
    assert log.put_head(TransactionRecord(nightly, b""))
    assert log.put_head(TransactionRecord(sent, inline))
    log.mark(stream, 5, {"seconds": 1.5, "shown": 4, "vanished": 1})


def read_transaction_log(store: MemoryLogStore) -> None:
    log = TransactionLog(store, ACCOUNT)
    assert log.identify()
    for head in heads():
        found = log.record(head.transaction)
        assert found
        assert found.head == head
        listing = log.listing(head.transaction.key)
        assert listing.is_finished(head) is (head.transaction.key == STREAM)
    assert log.last_show(heads()[0])["seconds"] == 1.5
    part = transaction_names.part(heads()[1].transaction, "d" * 32, 1)
    assert store.objects[part] == CHUNKS[1].data


EVENTS = "shop/events"
FOUND = tuple(
    File(EVENTS, f"day/{at} ü.json", f'"0x{at}"', 1_800_000_000.5 + at) for at in range(4)
)
BEGUN = Begun(1_800_000_000.0, existing=False, allow_overwrites=True)


def opened_files(store: MemoryLogStore) -> FileLog:
    log = FileLog(store, ACCOUNT, Memory(Bounds(), allow_overwrites=True))
    log.open()
    return log


def lists() -> tuple[FileList, FileList, FileList]:
    aside = (Quarantined(FOUND[1], "it is gone"),)
    return (
        FileList(0, -1, 1_800_000_010.0, FOUND[:1], aside),
        FileList(1, 0, 1_800_000_020.0, FOUND[2:3], (), FOUND[3:], 1_800_000_001.0),
        FileList(2, 1, 1_800_000_030.0, (), (), (), math.inf),
    )


def files_log(store: MemoryLogStore) -> None:
    log = opened_files(store)
    assert log.sender
    log.begun(BEGUN, resumed=False)
    log.claim("12345678-1234-1234-1234-123456789abc")
    for record in lists():
        log.put(record)
    log.put_bad(2, (Quarantined(FOUND[2], "it is no JSON"),))
    log.put_listed(1_800_000_040.0)


def read_files_log(store: MemoryLogStore) -> None:
    log = opened_files(store)
    assert [log.record(at) for at in range(3)] == [
        each._replace(files=list(each.files), aside=list(each.aside)) for each in lists()
    ]
    assert log.bad(2) == [Quarantined(FOUND[2], "it is no JSON")]
    assert all(map(log.memory.knows, FOUND[:3]))
    assert not log.memory.knows(FOUND[3])
    assert (log.sender, log.listed()) == ("5" * 32, 1_800_000_040.0)
    assert log.begun(BEGUN._replace(at=1.0, existing=True), resumed=True) == BEGUN
    log.claim("12345678-1234-1234-1234-123456789abc")


LOGS: dict[Kind, tuple[Callable[[MemoryLogStore], None], Callable[[MemoryLogStore], None]]] = {
    WRITE_AHEAD: (write_ahead_log, read_write_ahead_log),
    EXECUTORS: (executors_log, read_executors_log),
    TRANSACTIONS: (transaction_log, read_transaction_log),
    FILES: (files_log, read_files_log),
}


KINDS = {kind.name: kind for kind in LOGS}


def golden(kind: Kind, earlier: str = "") -> dict[str, bytes]:
    """The files of a folder by name. earlier: of another one, which has some of them as well."""
    folders = (GOLDEN / kind.name, GOLDEN / (earlier or kind.name))
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file()
    }


def plain(data: bytes) -> bytes:
    """The object, with what is packed in it unpacked, and no digest of packed bytes."""
    for magic in MAGICS:
        if data.startswith(magic):
            frame = unframed(magic, data)
            head = re.sub(rb'"prev":"[0-9a-f]{32}"', b'"prev":"..."', frame.head)
            if not frame.size:
                return magic + head
            with unpacked(frame.packed, frame.size) as stream:
                return magic + head + stream.read(frame.size)
    return data


@pytest.mark.parametrize("kind", LOGS, ids=lambda kind: kind.name)
def test_each_object_is_written_as_ever(kind: Kind) -> None:
    store = MemoryLogStore(kind=kind)
    LOGS[kind][0](store)
    written = {name: plain(data) for name, data in store.objects.items()}
    before = {name: plain(data) for name, data in golden(kind).items()}
    assert sorted(written) == sorted(before)
    assert written == before


@pytest.mark.parametrize("folder", sorted(path.name for path in GOLDEN.iterdir()))
def test_each_object_is_read_as_ever(folder: str) -> None:
    kind = KINDS[folder.partition(".")[0]]
    LOGS[kind][1](MemoryLogStore(objects=golden(kind, folder), kind=kind))


@pytest.mark.parametrize("kind", LOGS, ids=lambda kind: kind.name)
def test_the_identity_is_read_as_ever(kind: Kind) -> None:
    data = golden(kind)["log.json"]
    store = MemoryLogStore(kind=kind)
    identity = Identity.read(data, store)
    assert (identity.uuid, identity.account) == (uuid.UUID(int=0xC0FFEE).hex, ACCOUNT)
    assert identity.to_bytes(kind) == data


@pytest.mark.parametrize("kind", [WRITE_AHEAD, EXECUTORS], ids=lambda kind: kind.name)
def test_a_log_with_names_of_before_the_first_release_is_refused(kind: Kind) -> None:
    data = (GOLDEN.parent / "refused" / f"{kind.name}.json").read_bytes()

    with pytest.raises(LogDamaged, match=r"from before the first release.*Finish the log"):
        Identity.read(data, MemoryLogStore(kind=kind))
