"""The objects of a transaction log: names, records and chunks, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.service.names import checked_object
from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.chunks import chunks_of, unpack
from spark_azqueue.sink.transaction.hidden import CHUNK_AT_MOST, CHUNK_ROWS, Chunk, Hidden
from spark_azqueue.sink.transaction.names import MOST, ObjectKind, Transaction
from spark_azqueue.sink.transaction.record import Head, placed
from spark_azqueue.store.codec import Damaged, sealed

KEYS = st.sampled_from([names.stream_key("0" * 32), names.batch_key("shop", None, "app")])
NUMBERS = st.integers(0, MOST)
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
        names.mark(transaction, tag, count): (ObjectKind.MARK, key, number, tag, count),
    }
    for name, said in made.items():
        assert checked_object(name) == name
        assert len(name) <= 100 + len("txn/")
        assert names.parsed(name) == (name, *said)


@given(numbers=st.lists(NUMBERS, min_size=2))
def test_names_sort_as_they_count(numbers: list[int]) -> None:
    made = [names.record(Transaction(FIRST.key, number)) for number in numbers]
    assert sorted(made) == [names.record(Transaction(FIRST.key, n)) for n in sorted(numbers)]


@pytest.mark.parametrize("name", ["log.json", "txn/x", "seg/1", f"txn/{FIRST}-", f"txn/{FIRST}-1"])
def test_other_names_are_none_of_ours(name: str) -> None:
    assert names.parsed(name) is None


def test_keys_of_two_queues_differ_and_an_id_must_be_one() -> None:
    assert names.batch_key("shop", "a", "app") != names.batch_key("shop", "b", "app")
    with pytest.raises(ValueError, match="is no id of a query"):
        names.stream_key("../x")


def messages(count: int) -> list[Hidden]:
    return [
        Hidden(Lease(QueueRef("shop", f"queue-{n % 3}"), f"id-{n}", f"receipt{n}="), n % 2, 10**9)
        for n in range(count)
    ]


@given(count=st.integers(0, 50))
def test_chunks_read_back(count: int) -> None:
    chunks = chunks_of(messages(count))
    assert [each for chunk in chunks for each in unpack(chunk, "shop")] == messages(count)


def test_every_flipped_byte_of_a_record_is_found() -> None:
    data, _ = record()
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 0x5A
        with pytest.raises(Damaged):
            read_whole(bytes(bad))
    for size in range(len(data)):
        with pytest.raises(Damaged):
            Head.from_bytes(data[:size], FIRST)


def read_whole(data: bytes) -> None:
    head, inline = Head.from_bytes(data, FIRST)
    list(head.chunks_in(-1, inline))


def test_the_longest_name_of_a_writer_reads_back() -> None:
    _, head = record()
    data = replace(head, about="\U0001f600" * 200).to_bytes(record()[0].split(b"\n", 2)[2])
    assert Head.from_bytes(data, FIRST)[0].about.startswith("\U0001f600")


def record() -> tuple[bytes, Head]:
    refs, parts, inline = placed(chunks_of(messages(5)))
    assert not parts
    head = Head(FIRST, "a" * 32, "b" * 32, "shop", "a ü name", 6, 10**9, 10**8, 1, refs)
    return head.to_bytes(inline), head


def test_a_record_reads_back() -> None:
    data, head = record()
    read, inline = Head.from_bytes(data, FIRST)
    assert read == head
    assert [each.rows for each in read.chunks_in(-1, inline)] == [5]
    assert not list(read.chunks_in(-1, inline, skip=1))
    with pytest.raises(Damaged, match="another transaction"):
        Head.from_bytes(data, Transaction(FIRST.key, 8))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"number": -1},
        {"number": True},
        {"number": MOST + 1},
        {"nonce": "../x"},
        {"nonce": None},
        {"run": "zz"},
        {"account": 1},
        {"given": -1},
        {"expires": 1.5},
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
    ],
    ids=str,
)
def test_a_header_with_a_value_that_was_not_written_so_is_damaged(change: dict[str, Any]) -> None:
    data, _ = record()
    line, _, rest = data.partition(b"\n")
    inline = rest.partition(b"\n")[2]
    bad = sealed(json.loads(line) | change) + b"\n" + inline
    with pytest.raises(Damaged):
        Head.from_bytes(bad, FIRST)


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
        unpack(chunk, "shop")


@pytest.mark.parametrize("time", [{"due": -1}, {"expires": 10**12}], ids=str)
def test_a_chunk_with_a_time_out_of_bounds_is_damaged(time: dict[str, int]) -> None:
    (chunk,) = chunks_of([messages(1)[0]._replace(**time)])
    with pytest.raises(Damaged, match="a time is not valid"):
        unpack(chunk, "shop")


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
            unpack(bad, "shop")
