"""Record of a transaction: the messages that the transaction publishes. Pure values.

The head names the writer and lists the chunks. The chunks contain the receipts of the messages. The
head of a small transaction contains its chunks; the chunks of a large transaction are in separate
parts. Reading a damaged value raises Damaged.

    header (JSON) | newline | its digest | newline | chunks
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias

from spark_azqueue.journal.codec import (
    COUNT,
    HEXADECIMAL,
    TAG,
    TEXT,
    TIME,
    Coded,
    Damaged,
    as_json,
    digest_of,
    hexadecimal,
    list_of,
    loaded,
    number,
    of_version,
    read_fields,
    sealed,
    text,
    unsealed,
)
from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT
from spark_azqueue.service.messages import Lease

from .names import HIGHEST_TXN_VERSION, Transaction

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ranges of numbers, ascending, with a gap between two ranges. A range is its first and last
number."""

RANGES_AT_MOST = 1_000
"""Maximum number of ranges; if there are more, the lowest ranges are dropped.

If txnVersion is a date, such as 20260131, a year needs twelve ranges.
"""

CHUNK_ROWS = 20_000
"""Maximum number of messages in one chunk, about 2 MB."""

CHUNK_AT_MOST = CHUNK_ROWS * (MAX_ID + MAX_RECEIPT + 64 + 32)
"""Maximum size of a chunk in bytes, before and after compression."""


class Hidden(NamedTuple):
    """A prepared message.

    due: time at which the message must become visible; 0 for the time at which it is published.
    expires: time at which the service removes the message. Both times are by the service's clock,
    in seconds since 1970.
    """

    lease: Lease
    due: int
    expires: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """Packed messages of one task. size: size of the columns before packing, in bytes."""

    rows: int
    size: int
    data: bytes

    @property
    def digest(self) -> str:
        """Digest of `data`, as 32 hexadecimal digits."""
        return digest_of(self.data)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Result of one task for its transaction, sent to the driver.

    token: random id of this attempt of the task. query, run, batch: ids of the stream, its run and
    its batch; "", "" and -1 for a batch write. rows: number of rows of the task. skipped: the task
    put nothing, because the transaction was already recorded. expires: earliest expiry of the
    messages; 0 without messages. abandoned: number of further messages that may have been put,
    because requests got no answer. log: id of the log with which the plan was made. texts: digest
    of all texts in order; "" if the order has no meaning.
    """

    token: str
    query: str
    run: str
    batch: int
    rows: int
    skipped: bool = False
    chunks: tuple[Chunk, ...] = ()
    expires: int = 0
    abandoned: int = 0
    log: str = ""
    texts: str = ""


RECORD_VERSION = 1

INLINE_AT_MOST = 2**20
"""Maximum size of all chunks in the head, in bytes."""

PART_BYTES = 4 * 2**20
"""Approximate size of all chunks in a part, in bytes."""

RECORD_HEAD_AT_MOST = 16 * 2**20
CHUNKS_AT_MOST = 200_000
_VALUES_AT_MOST = 6 * CHUNKS_AT_MOST + 3 * RANGES_AT_MOST + 1_000
"""Maximum number of JSON values in a header."""

_IN_HEAD = -1

_ABOUT_AT_MOST = 160
"""Maximum number of characters of `about`.

A character takes up to 12 bytes in JSON, so `about` is short enough for a value of the type `text`.
"""


@dataclass(frozen=True, slots=True)
class ChunkRef:
    """Place of a chunk. part: number of the part; -1 for the head. Other fields: see `Chunk`."""

    part: int
    rows: int
    size: int
    packed: int
    digest: str


_TRANSACTION = Coded(
    lambda found, _: Transaction(
        text(found, "key"), number(found, "number", most=HIGHEST_TXN_VERSION)
    ),
    Transaction._asdict,
    is_spread=True,
)


def _about(found: Mapping[str, Any], name: str) -> str:
    about = loaded(text(found, name).encode())
    if not isinstance(about, str) or len(about) > _ABOUT_AT_MOST:
        raise Damaged(f"'{name}' is not a text, or is too long")
    return about


_ABOUT = Coded(
    _about,
    lambda about: json.dumps(about[:_ABOUT_AT_MOST]),
)
_CHUNKS = Coded(
    lambda found, name: tuple(map(_chunk_ref, list_of(found, name, CHUNKS_AT_MOST))),
    lambda refs: [[each.part, each.rows, each.size, each.packed, each.digest] for each in refs],
)
_WRITTEN = Coded(lambda found, name: read_ranges(found[name], found["number"]), is_late=True)


@dataclass(frozen=True, slots=True)
class RecordHead:
    """Head of a record.

    nonce: id of the attempt that wrote the record. run: run of the stream; "" for a batch write.
    about: the query's id, or the `txnAppId`, for people. given: number of rows of the write; if the
    record has fewer messages, the other rows were not put (for example because of `onRowError`).
    expires: earliest expiry of the messages; 0 without messages. recorded: time at which the record
    was made, by the service's clock, in seconds since 1970. abandoned: number of messages that may
    stay invisible until they expire, because their puts got no answer. written: lower numbers that
    are known to be completely written. texts: see `Prepared`.
    """

    transaction: Annotated[Transaction, _TRANSACTION]
    nonce: Annotated[str, HEXADECIMAL]
    run: Annotated[str, TAG]
    account: Annotated[str, TEXT]
    about: Annotated[str, _ABOUT]
    given: Annotated[int, COUNT]
    expires: Annotated[int, TIME]
    recorded: Annotated[int, TIME]
    abandoned: Annotated[int, COUNT]
    chunks: Annotated[tuple[ChunkRef, ...], _CHUNKS]
    written: Annotated[Ranges, _WRITTEN] = ()
    texts: Annotated[str, Coded(hexadecimal, is_late=True)] = ""

    @property
    def written_then(self) -> Ranges:
        """Numbers that are known to be completely written when this record is finished."""
        return extended(self.written, self.transaction.number)

    @property
    def rows(self) -> int:
        """Number of messages that the record publishes."""
        return sum(each.rows for each in self.chunks)

    def chunks_by_part(self) -> list[tuple[int, list[ChunkRef]]]:
        """Return, for each part, its number and its chunks, ascending. Part -1 is the head."""
        found: dict[int, list[ChunkRef]] = {}
        for each in self.chunks:
            found.setdefault(each.part, []).append(each)
        return sorted(found.items())

    def to_bytes(self, inline: bytes) -> bytes:
        """Encode the head. inline: the chunks in the head."""
        value = {"version": RECORD_VERSION, **as_json(self)}
        value["chunks"] = value.pop("chunks")  # in every release, chunks must be the last value
        return sealed(value) + b"\n" + inline

    @classmethod
    def from_bytes(cls, data: bytes, wanted: Transaction) -> tuple[RecordHead, bytes]:
        """Decode a head, and the chunks in it.

        wanted: the transaction that the object's name contains. Raises Damaged.
        """
        line, _, rest = data.partition(b"\n")
        digest, _, inline = rest.partition(b"\n")
        value = unsealed(line + b"\n" + digest, _VALUES_AT_MOST)
        found = of_version(value, "header", RECORD_VERSION)
        head = cls(**read_fields(cls, found))
        if head.transaction != wanted:
            raise Damaged("it is the record of another transaction")
        if len(inline) != sum(each.packed for each in head.chunks if each.part == _IN_HEAD):
            raise Damaged("the chunks in it are cut short, or too long")
        return head, inline


def chunks_in(refs: Iterable[ChunkRef], data: bytes, skip: int = 0) -> Iterator[Chunk]:
    """Check and yield the chunks of one part. skip: number of chunks to leave out at the start.

    Raises Damaged.
    """
    at = 0
    for place, each in enumerate(refs):
        packed = data[at : at + each.packed]
        at += each.packed
        if place < skip:
            continue
        if digest_of(packed) != each.digest:
            raise Damaged("the digest of a chunk does not fit its bytes")
        yield Chunk(each.rows, each.size, packed)


def nonce_of(prepared: Sequence[Prepared]) -> str:
    """Return the id of an attempt to write a transaction, computed from the tokens of its tasks.

    `commit` and `abort` of one attempt run in different processes, and must compute the same id.
    """
    return digest_of("\n".join(sorted(each.token for each in prepared)).encode())


def placed(chunks: Sequence[Chunk]) -> tuple[tuple[ChunkRef, ...], list[bytes], bytes]:
    """Distribute the chunks over the head and the parts. Returns the places of the chunks, the
    parts, and the bytes of the chunks in the head."""
    if sum(len(each.data) for each in chunks) <= INLINE_AT_MOST:
        refs = tuple(_ref(each, _IN_HEAD) for each in chunks)
        return refs, [], b"".join(each.data for each in chunks)
    parts: list[list[Chunk]] = [[]]
    for each in chunks:
        if sum(len(held.data) for held in parts[-1]) >= PART_BYTES:
            parts.append([])
        parts[-1].append(each)
    refs = tuple(_ref(each, number) for number, held in enumerate(parts) for each in held)
    return refs, [b"".join(each.data for each in held) for held in parts], b""


def _ref(chunk: Chunk, part: int) -> ChunkRef:
    return ChunkRef(part, chunk.rows, chunk.size, len(chunk.data), chunk.digest)


def _chunk_ref(value: object) -> ChunkRef:
    if not isinstance(value, list) or len(value) != 5 or not isinstance(value[4], str):
        raise Damaged("a chunk is not described as it should be")
    part, rows, size, packed, digest = value
    if any(type(each) is not int for each in value[:4]):
        raise Damaged("a chunk is not described as it should be")
    if not (
        _IN_HEAD <= part < CHUNKS_AT_MOST
        and 0 < rows <= CHUNK_ROWS
        and 0 < size <= CHUNK_AT_MOST
        and 0 < packed <= CHUNK_AT_MOST
    ):
        raise Damaged("a chunk has a size that no chunk has")
    return ChunkRef(part, rows, size, packed, digest)


def holds(ranges: Ranges, number: int) -> bool:
    """Return True if this number is in one of the ranges."""
    return any(first <= number <= last for first, last in ranges)


def extended(ranges: Ranges, number: int) -> Ranges:
    """Add a number, which must be higher than all numbers in the ranges, and return the ranges."""
    if ranges and ranges[-1][1] == number - 1:
        return (*ranges[:-1], (ranges[-1][0], number))
    return (*ranges, (number, number))[-RANGES_AT_MOST:]


def read_ranges(value: object, below: int) -> Ranges:
    """Read ranges from a record. below: number of the record; every number must be lower. Raises
    Damaged."""
    if not isinstance(value, list) or len(value) > RANGES_AT_MOST:
        raise Damaged("'written' is not valid")
    before = -2
    for each in value:
        if (
            not isinstance(each, list)
            or len(each) != 2
            or any(type(number) is not int for number in each)
            or not before + 1 < each[0] <= each[1] < below <= HIGHEST_TXN_VERSION
        ):
            raise Damaged("'written' is not valid")
        before = each[1]
    return tuple((first, last) for first, last in value)
