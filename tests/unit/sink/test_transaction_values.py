"""Names, chunks, heads and listings of transactions: what is read back is what was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_azqueue.journal.codec import Damaged
from spark_azqueue.service.messages import Lease, QueueRef
from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.listing import Listing, Step
from spark_azqueue.sink.transaction.log import chunks_of, unpack_chunk
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.sink.transaction.record import (
    Chunk,
    Hidden,
    Prepared,
    RecordHead,
    chunks_in,
    nonce_of,
    placed,
)
from spark_azqueue.sink.transaction.task import Writer, writer_of

ACCOUNT = "acc"
QUERY = "0b5e7f0e-1111-4222-8333-444455556666"
KEY = names.stream_key(QUERY)
NONCE = "ab" * 16

hidden = st.builds(
    Hidden,
    st.builds(
        Lease,
        st.sampled_from([QueueRef(ACCOUNT, name) for name in ("orders", "a-1", "z" * 63)]),
        st.uuids().map(str),
        st.text("ABCabc0189+/=", min_size=1, max_size=100),
    ),
    st.integers(0, 2**33),
    st.integers(1, 2**37),
)


@settings(max_examples=60)
@given(st.lists(hidden, max_size=50))
def test_chunks_are_read_back(messages: list[Hidden]) -> None:
    chunks = chunks_of(messages)
    assert [each for chunk in chunks for each in unpack_chunk(chunk, ACCOUNT)] == messages


@settings(max_examples=60)
@given(st.lists(hidden, min_size=1, max_size=5), st.data())
def test_a_damaged_chunk_is_refused_or_whole(messages: list[Hidden], data: st.DataObject) -> None:
    (chunk,) = chunks_of(messages)
    at = data.draw(st.integers(0, len(chunk.data) - 1))
    changed = bytearray(chunk.data)
    changed[at] ^= data.draw(st.integers(1, 255))
    other = Chunk(chunk.rows, chunk.size, bytes(changed))
    try:
        found = unpack_chunk(other, ACCOUNT)
    except Damaged:
        return
    assert len(found) == len(messages)


def head_of(chunks: tuple[Chunk, ...], number: int = 7) -> tuple[RecordHead, list[bytes], bytes]:
    refs, parts, inline = placed(chunks)
    transaction = Transaction(KEY, number)
    head = RecordHead(transaction, NONCE, "", ACCOUNT, 'a "name" é', 3, 9, 8, 1, refs)
    return head, parts, inline


def read(data: bytes, transaction: Transaction) -> list[Chunk]:
    head, inline = RecordHead.from_bytes(data, transaction)
    return list(chunks_in(head.chunks, inline))


def some_chunks() -> tuple[Chunk, ...]:
    lease = Lease(QueueRef(ACCOUNT, "orders"), "id-1", "receipt")
    return chunks_of([Hidden(lease, 0, 5)] * 3) + chunks_of([Hidden(lease, 1, 6)])


def test_a_large_transaction_has_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from spark_azqueue.sink.transaction import record

    monkeypatch.setattr(record, "INLINE_AT_MOST", 10)
    monkeypatch.setattr(record, "PART_BYTES", 1)
    head, parts, inline = head_of(some_chunks())
    assert (len(parts), inline) == (2, b"")
    by_part = head.chunks_by_part()
    assert [part for part, _ in by_part] == [0, 1]
    found = [chunk for part, refs in by_part for chunk in chunks_in(refs, parts[part])]
    assert found == list(some_chunks())


def test_keys_tell_writers_apart() -> None:
    keys = {
        names.batch_key(account, queue, app)
        for account in ("a", "b")
        for queue in (None, "orders", "other")
        for app in ("x", "y")
    }
    assert len(keys) == 12
    with pytest.raises(ValueError, match="no id of a query"):
        names.stream_key("not-a-query")


def test_the_nonce_is_that_of_the_attempt() -> None:
    tasks = [Prepared(token, QUERY, "", 1, 0) for token in ("one", "two")]
    assert nonce_of(tasks) == nonce_of(tasks[::-1])
    assert nonce_of(tasks) != nonce_of([tasks[0], Prepared("three", QUERY, "", 1, 0)])


def test_a_task_knows_its_batch() -> None:
    properties = {
        "sql.streaming.queryId": QUERY,
        "streaming.sql.batchId": "12",
        "spark.jobGroup.id": "0B5E7F0E-1111-4222-8333-444455556666",
    }
    assert writer_of(properties.get) == Writer(QUERY, QUERY.replace("-", ""), 12)
    assert writer_of({}.get) == Writer()
    assert writer_of((properties | {"spark.jobGroup.id": "my jobs"}).get).run == ""


@pytest.mark.parametrize(
    ("newest", "number", "step"),
    [(None, 0, Step.WRITE), (4, 5, Step.WRITE), (4, 4, Step.SHOW), (4, 3, Step.OVER)],
)
def test_what_follows_from_the_newest_record(newest: int | None, number: int, step: Step) -> None:
    listed = [] if newest is None else [names.record(Transaction(KEY, newest))]
    listing = Listing.of("file:/log", listed)
    assert listing.step(Transaction(KEY, number), is_strict=True) is step


def test_batch_writes_may_leave_numbers_out() -> None:
    key = names.batch_key(ACCOUNT, "orders", "x")
    listing = Listing.of("file:/log", [names.record(Transaction(key, 4))])
    assert listing.step(Transaction(key, 9), is_strict=True) is Step.WRITE
    assert Listing.of("file:/log", []).gap(Transaction(key, 9)) == ""
    assert "knows nothing" in Listing.of("file:/log", []).gap(Transaction(KEY, 9))
    assert "has batch 4" in Listing.of("file:/log", [names.record(Transaction(KEY, 4))]).gap(
        Transaction(KEY, 9)
    )


def test_old_starts_go_after_a_while() -> None:
    starts = [names.start(KEY, number, NONCE) for number in (0, 149, 200)]
    listing = Listing.of("file:/log", [*starts, names.record(Transaction(KEY, 249))])
    assert listing.outlived_by(head_of((), 250)[0], {249}) == [
        names.record(Transaction(KEY, 249)),
        starts[0],
        starts[1],
    ]
