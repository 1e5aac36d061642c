"""Small decisions about transactions, and damage of records, that larger tests do not notice."""

from __future__ import annotations

import json

import pytest

from spark_azqueue.errors import TransactionUnknown
from spark_azqueue.journal.codec import Damaged, sealed
from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.listing import Listing
from spark_azqueue.sink.transaction.names import HIGHEST_TXN_VERSION, Transaction
from spark_azqueue.sink.transaction.record import (
    CHUNK_AT_MOST,
    CHUNK_ROWS,
    CHUNKS_AT_MOST,
    RANGES_AT_MOST,
    ChunkRef,
    RecordHead,
)

KEY, OTHER = names.stream_key("0" * 32), names.stream_key("1" * 32)
RUN, NONCE = "2" * 32, "3" * 32
CHUNK = [-1, 1, 1, 4, "0"]


def at(number: int, key: str = KEY) -> Transaction:
    return Transaction(key, number)


HEAD = RecordHead(at(7), NONCE, RUN, "shop", "x", 1, 9, 8, 0, (ChunkRef(-1, 1, 1, 4, "0"),))


def read(**changed: object) -> RecordHead:
    """What is read of a head in which this was changed."""
    line, _, rest = HEAD.to_bytes(b"four").partition(b"\n")
    inline = rest.partition(b"\n")[2]
    data = b"\n".join((sealed(json.loads(line) | changed), inline))
    return RecordHead.from_bytes(data, HEAD.transaction)[0]


def chunk(**changed: object) -> dict[str, object]:
    names_of = ("part", "rows", "size", "packed", "digest")
    return {"chunks": [list((dict(zip(names_of, CHUNK, strict=True)) | changed).values())]}


NOT_DESCRIBED, NO_SIZE, WRITTEN = "described as it should", "size that no chunk has", "'written'"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"number": "7"}, "'number'"),
        ({"number": True}, "'number'"),
        ({"number": -1}, "'number'"),
        ({"number": HIGHEST_TXN_VERSION + 1}, "'number'"),
        ({"number": 8}, "another transaction"),
        ({"chunks": [None]}, NOT_DESCRIBED),
        ({"chunks": [CHUNK[:4]]}, NOT_DESCRIBED),
        (chunk(digest=7), NOT_DESCRIBED),
        (chunk(rows=True), NOT_DESCRIBED),
        (chunk(part="0"), NOT_DESCRIBED),
        (chunk(part=-2), NO_SIZE),
        (chunk(part=CHUNKS_AT_MOST), NO_SIZE),
        (chunk(rows=0), NO_SIZE),
        (chunk(rows=CHUNK_ROWS + 1), NO_SIZE),
        (chunk(size=0), NO_SIZE),
        (chunk(size=CHUNK_AT_MOST + 1), NO_SIZE),
        (chunk(packed=0), NO_SIZE),
        (chunk(packed=CHUNK_AT_MOST + 1), NO_SIZE),
        ({"written": [None]}, WRITTEN),
        ({"written": [[1, 2, 3]]}, WRITTEN),
        ({"written": [[2, 1]]}, WRITTEN),
        ({"written": [[1, 7]]}, WRITTEN),
    ],
)
def test_a_head_with_a_value_that_nobody_writes_is_damaged(
    changed: dict[str, object], said: str
) -> None:
    assert read() == HEAD
    with pytest.raises(Damaged, match=said):
        read(**changed)


def test_the_largest_chunk_of_the_last_part_and_the_smallest_are_read() -> None:
    large = {"rows": CHUNK_ROWS, "size": CHUNK_AT_MOST, "packed": CHUNK_AT_MOST}
    found = read(chunks=[CHUNK, *chunk(part=CHUNKS_AT_MOST - 1, **large)["chunks"]]).chunks[1]  # type: ignore[misc]
    assert (found.part, found.rows, found.size) == (CHUNKS_AT_MOST - 1, CHUNK_ROWS, CHUNK_AT_MOST)

    small = [[-1, 1, 1, 1, "0"]] * 4
    assert len(read(chunks=small).chunks) == 4


def test_a_record_knows_a_thousand_ranges_at_most() -> None:
    transaction = at(10_000)
    ranges = tuple((2 * number, 2 * number) for number in range(RANGES_AT_MOST + 1))
    for count in (RANGES_AT_MOST, RANGES_AT_MOST + 1):
        written = RecordHead(transaction, NONCE, "", "shop", "x", 0, 0, 0, 0, (), ranges[:count])
        data = written.to_bytes(b"")
        if count == RANGES_AT_MOST:
            assert RecordHead.from_bytes(data, transaction) == (written, b"")
        else:
            with pytest.raises(Damaged, match=WRITTEN):
                RecordHead.from_bytes(data, transaction)


def of(*listed: str) -> Listing:
    return Listing.of("memory:log", listed)


@pytest.mark.parametrize(
    ("marks", "lost"), [([], {}), ([4], {}), ([5], {}), ([6], {KEY: 6}), ([6, 8, 7], {KEY: 8})]
)
def test_a_mark_above_all_records_says_what_was_lost(
    marks: list[int], lost: dict[str, int]
) -> None:
    listing = of(names.record(at(5)), *(names.progress_mark(at(each), NONCE, 1) for each in marks))

    assert listing.lost == lost
    assert listing.newest == {KEY: 5}


def test_tasks_get_the_newest_number_of_each_key_and_no_names() -> None:
    listing = of(*(names.record(at(number)) for number in (3, 4, 5)), names.start(KEY, 5, RUN))

    found = listing.for_tasks()
    assert (found.listed, dict(found.recorded)) == ((), {KEY: [5]})
    assert found.start(at(6), RUN) == 5


def test_nothing_of_another_writer_is_outlived() -> None:
    listing = of(names.record(at(5)), names.record(at(5, OTHER)))
    head = RecordHead(at(7), NONCE, RUN, "shop", "x", 0, 0, 0, 0, (), ((5, 5),))

    assert listing.outlived_by(head, ()) == [names.record(at(5))]


def test_a_batch_write_leaves_no_start() -> None:
    assert not of().needs_start(at(5), "")
    assert of().needs_start(at(5), RUN)


def test_a_log_that_knows_batch_0_alone_says_so() -> None:
    with pytest.raises(TransactionUnknown, match="has batch 0 as its newest"):
        of(names.record(at(0))).step(at(2), is_strict=True)
