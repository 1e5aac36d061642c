"""The objects of a transaction log: names, records and chunks, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_stores import MemoryLogStore

from spark_azqueue.errors import LogDamaged
from spark_azqueue.journal.codec import Damaged, sealed
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.names import TRANSACTIONS, checked_object
from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.log import (
    TransactionLog,
    TransactionRecord,
    chunks_of,
    unpack_chunk,
)
from spark_azqueue.sink.transaction.names import HIGHEST_TXN_VERSION, ObjectKind, Transaction
from spark_azqueue.sink.transaction.record import (
    CHUNK_AT_MOST,
    CHUNK_ROWS,
    CHUNKS_AT_MOST,
    INLINE_AT_MOST,
    PART_BYTES,
    RANGES_AT_MOST,
    RECORD_HEAD_AT_MOST,
    Chunk,
    ChunkRef,
    Hidden,
    Ranges,
    RecordHead,
    chunks_in,
    extended,
    holds,
    placed,
)

KEYS = st.sampled_from([names.stream_key("0" * 32), names.batch_key("shop", None, "app")])
NUMBERS = st.integers(0, HIGHEST_TXN_VERSION)
TAGS = st.text("0123456789abcdef", min_size=32, max_size=32)
FIRST = Transaction(names.stream_key("0" * 32), 7)


@given(
    key=KEYS,
    number=NUMBERS,
    tag=TAGS,
    part=st.integers(0, 199_999),
    count=st.integers(0, 10**12 - 1),
)
def test_names_are_short_and_read_back(
    key: str, number: int, tag: str, part: int, count: int
) -> None:
    transaction = Transaction(key, number)
    made = {
        names.record(transaction): (ObjectKind.RECORD, key, number, "", 0),
        names.start(key, number, tag): (ObjectKind.START, key, number, tag, 0),
        names.part(transaction, tag, part): (ObjectKind.PART, key, number, tag, part),
        names.progress_mark(transaction, tag, count): (ObjectKind.MARK, key, number, tag, count),
    }
    for name, said in made.items():
        assert checked_object(name) == name
        assert len(name) <= 100 + len("txn/")
        assert names.as_record_name(name) == (name, *said)


@given(numbers=st.lists(NUMBERS, min_size=2))
def test_names_sort_as_they_count(numbers: list[int]) -> None:
    made = [names.record(Transaction(FIRST.key, number)) for number in numbers]
    assert sorted(made) == [names.record(Transaction(FIRST.key, n)) for n in sorted(numbers)]


@pytest.mark.parametrize("name", ["log.json", "txn/x", "seg/1", f"txn/{FIRST}-", f"txn/{FIRST}-1"])
def test_other_names_are_none_of_ours(name: str) -> None:
    assert names.as_record_name(name) is None


def messages(count: int) -> list[Hidden]:
    return [
        Hidden(Lease(QueueRef("shop", f"queue-{n % 3}"), f"id-{n}", f"receipt{n}="), n % 2, 10**9)
        for n in range(count)
    ]


def test_every_flipped_byte_of_a_record_is_found() -> None:
    data, _ = record()
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 0x5A
        with pytest.raises(Damaged):
            read_whole(bytes(bad))
    for size in range(len(data)):
        with pytest.raises(Damaged):
            RecordHead.from_bytes(data[:size], FIRST)


def read_whole(data: bytes) -> None:
    head, inline = RecordHead.from_bytes(data, FIRST)
    list(chunks_in(head.chunks, inline))


def test_the_longest_name_of_a_writer_reads_back() -> None:
    _, head = record()
    data = replace(head, about="\U0001f600" * 200).to_bytes(record()[0].split(b"\n", 2)[2])
    assert RecordHead.from_bytes(data, FIRST)[0].about.startswith("\U0001f600")


def record() -> tuple[bytes, RecordHead]:
    refs, parts, inline = placed(chunks_of(messages(5)))
    assert not parts
    head = RecordHead(FIRST, "a" * 32, "b" * 32, "shop", "a ü name", 6, 10**9, 10**8, 1, refs)
    return head.to_bytes(inline), head


def test_a_record_reads_back() -> None:
    data, head = record()
    read, inline = RecordHead.from_bytes(data, FIRST)
    assert read == head
    assert [each.rows for each in chunks_in(read.chunks, inline)] == [5]
    assert not list(chunks_in(read.chunks, inline, skip=1))
    with pytest.raises(Damaged, match="another transaction"):
        RecordHead.from_bytes(data, Transaction(FIRST.key, 8))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"number": -1},
        {"number": True},
        {"number": HIGHEST_TXN_VERSION + 1},
        {"nonce": "../x"},
        {"nonce": None},
        {"run": "zz"},
        {"account": 1},
        {"given": -1},
        {"expires": 1.5},
        {"expires": 10**12 - 1},
        {"recorded": 253_402_300_800},
        {"written": {}},
        {"written": [[1, 7]]},
        {"written": [[3, 2]]},
        {"written": [[-1, 2]]},
        {"written": [[1, 2], [3, 4]]},
        {"written": [[1, True]]},
        {"written": [[n, n] for n in range(0, 2_002, 2)]},
        {"recorded": None},
        {"abandoned": 10**12},
        {"chunks": {}},
        {"chunks": [[-1, 1, 1, 1]]},
        {"chunks": [[-2, 1, 1, 1, "0"]]},
        {"chunks": [[-1, 0, 1, 1, "0"]]},
        {"chunks": [[-1, CHUNK_ROWS + 1, 1, 1, "0"]]},
        {"chunks": [[-1, 1, CHUNK_AT_MOST + 1, 1, "0"]]},
        {"chunks": [[-1, 1, 1, CHUNK_AT_MOST + 1, "0"]]},
        {"chunks": [[-1, 1, 1, True, "0"]]},
        {"chunks": []},
        {"about": "not JSON"},
        {"about": "{}"},
        {"about": f'"{"a" * 161}"'},
    ],
    ids=str,
)
def test_a_header_with_a_value_that_was_not_written_so_is_damaged(change: dict[str, Any]) -> None:
    data, _ = record()
    line, _, rest = data.partition(b"\n")
    inline = rest.partition(b"\n")[2]
    bad = sealed(json.loads(line) | change) + b"\n" + inline
    with pytest.raises(Damaged):
        RecordHead.from_bytes(bad, FIRST)


@pytest.mark.parametrize(
    "change",
    [
        {"queue": "../"},
        {"message_id": "../x"},
        {"pop_receipt": 'a"b'},
    ],
    ids=str,
)
def test_a_chunk_with_a_value_that_becomes_no_address_is_damaged(change: dict[str, str]) -> None:
    (good,) = messages(1)
    lease = good.lease
    if "queue" in change:
        lease = lease._replace(queue=QueueRef("shop", change["queue"]))
    else:
        lease = lease._replace(**change)
    (chunk,) = chunks_of([good._replace(lease=lease)])
    with pytest.raises(Damaged):
        unpack_chunk(chunk, "shop")


@pytest.mark.parametrize("time", [{"due": -1}, {"expires": 10**12}], ids=str)
def test_a_chunk_with_a_time_out_of_bounds_is_damaged(time: dict[str, int]) -> None:
    (chunk,) = chunks_of([messages(1)[0]._replace(**time)])
    with pytest.raises(Damaged, match="a time is not valid"):
        unpack_chunk(chunk, "shop")


def test_a_chunk_of_another_size_is_damaged() -> None:
    (chunk,) = chunks_of(messages(4))
    for bad in (
        replace(chunk, rows=3),
        replace(chunk, rows=5),
        replace(chunk, size=chunk.size - 1),
        replace(chunk, size=chunk.size + 1),
        Chunk(4, chunk.size, b"not packed"),
    ):
        with pytest.raises(Damaged):
            unpack_chunk(bad, "shop")


def test_a_record_knows_what_is_written_and_an_older_one_knows_nothing() -> None:
    data, head = record()
    assert b"written" not in data
    assert RecordHead.from_bytes(data, FIRST)[0].written == ()
    known = replace(head, written=((1, 2), (5, 6)))
    read, _ = RecordHead.from_bytes(known.to_bytes(data.split(b"\n", 2)[2]), FIRST)
    assert read.written == ((1, 2), (5, 6))
    assert read.written_then == ((1, 2), (5, 7))
    assert [number for number in range(9) if holds(read.written, number)] == [1, 2, 5, 6]


def test_the_lowest_ranges_are_forgotten() -> None:
    ranges: Ranges = ()
    for number in range(0, 3 * RANGES_AT_MOST, 2):
        ranges = extended(ranges, number)
    assert len(ranges) == RANGES_AT_MOST
    assert ranges[-1][1] == 3 * RANGES_AT_MOST - 2


# ── small objects that ask for much ───────────────────────────────────────────────────────────────


class Asked(MemoryLogStore):
    """Notes how many bytes were asked for."""

    most = 0

    def get(self, name: str, most: int) -> bytes | None:
        self.most = max(self.most, most)
        return super().get(name, most)


def test_a_part_is_read_within_what_its_record_says() -> None:
    refs, parts, _ = placed(chunks_of(messages(5)))
    ref = replace(refs[0], part=199_999)
    head = RecordHead(FIRST, "a" * 32, "", "shop", "x", 5, 10**9, 10**8, 0, (ref,))
    store = Asked(kind=TRANSACTIONS)
    log = TransactionLog(store, "shop")
    name = names.part(FIRST, head.nonce, 199_999)
    for data in (b"x" * (ref.packed - 1), b"x" * (ref.packed + 1), b"x" * 50_000_000):
        store.objects[name] = data
        with pytest.raises(LogDamaged, match=r"another size|too large"):
            log.check(TransactionRecord(head, b""), 0)
    assert store.most == ref.packed + 1
    assert not parts
    claims = replace(head, chunks=(replace(ref, packed=CHUNK_AT_MOST),) * 9)
    with pytest.raises(LogDamaged, match=r"another size|too large"):
        log.check(TransactionRecord(claims, b""), 0)
    assert store.most == PART_BYTES + CHUNK_AT_MOST + 1


def test_a_number_of_a_part_is_no_range_to_go_through() -> None:
    """Once 200,000 deletes of one small object, and 200,000 looks through its chunks."""
    store = MemoryLogStore(kind=TRANSACTIONS)
    ref = ChunkRef(199_999, 1, 1, 1, "0")
    head = RecordHead(FIRST, "a" * 32, "", "shop", "x", 1, 10**9, 10**8, 0, (ref,))
    log = TransactionLog(store, "shop")
    store.objects[names.part(FIRST, head.nonce, 199_999)] = b"x"
    log.clean(head, log.listing(FIRST.key))
    assert [method for method, _ in store.calls] == ["names", "delete"]
    assert head.chunks_by_part() == [(199_999, [ref])]


def test_a_header_of_very_many_small_values_is_not_parsed() -> None:
    data, _ = record()
    line, _, rest = data.partition(b"\n")
    inline = rest.partition(b"\n")[2]
    many = sealed(json.loads(line) | {"more": [[]] * 2_000_000}) + b"\n" + inline
    assert len(many) < RECORD_HEAD_AT_MOST
    with pytest.raises(Damaged, match="too many values"):
        RecordHead.from_bytes(many, FIRST)


def test_the_largest_header_is_read() -> None:
    ref = ChunkRef(199_999, CHUNK_ROWS, CHUNK_AT_MOST, CHUNK_AT_MOST, "f" * 32)
    ranges = tuple((n, n) for n in range(HIGHEST_TXN_VERSION - 2_002, HIGHEST_TXN_VERSION - 2, 2))
    last = Transaction(FIRST.key, HIGHEST_TXN_VERSION)
    whole = RecordHead(
        last, "a" * 32, "b" * 32, "shop", "x", 1, 10**9, 10**8, 0, (ref,) * CHUNKS_AT_MOST
    )
    data = replace(whole, written=ranges).to_bytes(b"")
    assert len(data) + INLINE_AT_MOST < RECORD_HEAD_AT_MOST
    assert len(RecordHead.from_bytes(data, last)[0].chunks) == CHUNKS_AT_MOST


def test_notes_that_no_show_has_written_are_left_out() -> None:
    store = MemoryLogStore(kind=TRANSACTIONS)
    _, head = record()
    notes = {"seconds": 10**400, "vanished": -1, "expired": True, "shown": 3, "x": float("nan")}
    store.objects[names.progress_mark(FIRST, head.nonce, head.rows)] = sealed(notes)
    assert TransactionLog(store, "shop").last_show(head) == {"shown": 3}
