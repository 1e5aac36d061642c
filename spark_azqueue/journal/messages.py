"""Encoding of a segment's messages as bytes, column by column.

Every value is checked when it is read.

A column is stored as its length, followed by its values. Texts are in UTF-8, extended to lone
surrogates. The fields of a message (`service/message_fields.py`) define the columns.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT, is_message_id, is_receipt
from spark_azqueue.service.message_fields import Field, Form
from spark_azqueue.service.messages import (
    FIELDS,
    MAX_DEQUEUE_COUNT,
    Lease,
    Message,
    QueueRef,
    Received,
)

from .codec import Coded, Damaged, number

_LENGTH = struct.Struct("<Q")


class Stream(Protocol):
    """Input of `unpack_messages`."""

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, or fewer bytes at the end of the stream."""


def joined(columns: Iterable[bytes]) -> bytes:
    """Join the columns, each with its length before it."""
    return b"".join(part for column in columns for part in (_LENGTH.pack(len(column)), column))


def numbers(kind: str, values: Sequence[int]) -> bytes:
    """Pack numbers. kind: format character of `struct`, for example I (unsigned, 4 bytes) or q
    (signed, 8 bytes)."""
    return struct.pack(f"<{len(values)}{kind}", *values)


def read_numbers(kind: str, stream: Stream, count: int) -> tuple[int, ...]:
    """Read `count` numbers. Raises Damaged."""
    form = struct.Struct(f"<{count}{kind}")
    return form.unpack(column(stream, form.size, form.size))


def column(stream: Stream, least: int, most: int) -> bytes:
    """Return the next column. Raises Damaged unless it has `least` to `most` bytes."""
    size = length(stream)
    if not least <= size <= most:
        raise Damaged("a column has more or fewer values than messages")
    return exactly(stream, size)


def length(stream: Stream) -> int:
    """Return the number of bytes of the next column. Raises Damaged."""
    size: int = _LENGTH.unpack(exactly(stream, _LENGTH.size))[0]
    return size


def exactly(stream: Stream, size: int) -> bytes:
    """Return the next `size` bytes. Raises Damaged."""
    data = stream.read(size)
    if len(data) != size:
        raise Damaged("a column is cut short")
    return data


def listed(
    stream: Stream, count: int, what: str, legal: Callable[[str], bool], longest: int
) -> list[str]:
    """Return the texts of a column, one per line. Raises Damaged unless `legal` accepts each
    text."""
    lines = column(stream, count - 1, count * (longest + 1))
    values = lines.decode("ascii", "replace").split("\n", count)
    if len(values) != count or not all(map(legal, values)):
        raise Damaged(f"its {what} are not valid")
    return values


_LONGEST_TEXT = 3 * 16 * 2**20
"""Maximum size of a message's text in bytes.

In a damaged answer of the service (at most 16 MiB), a text may fill the whole answer. Each byte
that is not valid UTF-8 is replaced by a character of three bytes.
"""
_NONE = -1
"""Value that is stored for a missing time."""
_YEAR_10000 = 253_402_300_800 * 1_000_000
"""Start of the year 10000, in microseconds since 1970; every valid time is earlier.

An Arrow timestamp in Spark can represent every earlier time, and the service returns only earlier
times.
"""


class _Packing(NamedTuple):
    """Functions that encode the values of one form as columns, and that decode these columns.

    unpack: reads one value for each of the given number of messages; raises Damaged.
    """

    pack: Callable[[Sequence[Any]], tuple[bytes, ...]]
    unpack: Callable[[Stream, int], Sequence[Any]]


def _numbers(kind: str, least: int, most: int, what: str) -> _Packing:
    def unpack(stream: Stream, count: int) -> Sequence[int]:
        values = read_numbers(kind, stream, count)
        if min(values) < least or max(values) > most:
            raise Damaged(f"a {what} is not valid")
        return values

    return _Packing(lambda values: (numbers(kind, values),), unpack)


def _lines(what: str, legal: Callable[[str], bool], longest: int) -> _Packing:
    return _Packing(
        lambda values: ("\n".join(values).encode("ascii"),),
        lambda stream, count: listed(stream, count, what, legal, longest),
    )


_TIMES = _numbers("q", 0, _YEAR_10000 - 1, "time")
_TIMES_OR_NONE = _numbers("q", _NONE, _YEAR_10000 - 1, "time")


def _pack_maybe_times(values: Sequence[int | None]) -> tuple[bytes, ...]:
    return _TIMES_OR_NONE.pack([_NONE if time is None else time for time in values])


def _maybe_times(stream: Stream, count: int) -> Sequence[int | None]:
    return [None if time == _NONE else time for time in _TIMES_OR_NONE.unpack(stream, count)]


def _flags(stream: Stream, count: int) -> Sequence[bool]:
    values = column(stream, count, count)
    if not set(values) <= {0, 1}:
        raise Damaged("a flag is neither true nor false")
    return list(map(bool, values))


def _pack_texts(values: Sequence[str]) -> tuple[bytes, ...]:
    texts = [text.encode("utf-8", "surrogatepass") for text in values]
    return numbers("I", list(map(len, texts))), b"".join(texts)


def _texts(stream: Stream, count: int) -> Sequence[str]:
    sizes = read_numbers("I", stream, count)
    if sum(sizes) != length(stream) or max(sizes) > _LONGEST_TEXT:
        raise Damaged("its texts are cut short, or too long")
    try:
        return [exactly(stream, size).decode("utf-8", "surrogatepass") for size in sizes]
    except UnicodeDecodeError:
        raise Damaged("a text is not UTF-8") from None


_PACKINGS = {
    Form.QUEUE: _numbers("I", 0, 2**32 - 1, "queue"),  # position in the header's list of queues
    Form.ID: _lines("message ids", is_message_id, MAX_ID),
    Form.RECEIPT: _lines("pop receipts", is_receipt, MAX_RECEIPT),
    Form.TIME: _TIMES,
    Form.MAYBE_TIME: _Packing(_pack_maybe_times, _maybe_times),
    Form.COUNT: _numbers("i", 0, MAX_DEQUEUE_COUNT, "count"),
    Form.FLAG: _Packing(lambda values: (bytes(values),), _flags),
    Form.TEXT: _Packing(_pack_texts, _texts),
}

_FIRST = (
    *("queue", "message_id", "pop_receipt", "insertion_time", "expiration_time"),
    *("next_visible_time", "dequeue_count", "intact", "text"),
)
"""Columns of version 1. Their order never changes, and columns of later versions follow them."""


def newest_columns() -> int:
    """Return the version of the columns that this release writes."""
    return max(each.since for each in FIELDS)


def _version(found: Mapping[str, Any], name: str) -> int:
    version = number(found, name, 1) if name in found else 1
    if version > newest_columns():
        raise Damaged(f"its columns are of version {version}: upgrade spark-azqueue")
    return version


COLUMNS = Coded(_version, lambda value: {"columns": value} if value > 1 else {}, is_spread=True)
"""Encoding of the version of the columns in a header; 1 if the header has no version."""


def _logged(version: int | None) -> list[Field]:
    """Return the fields that are columns in this version, in order. version: None for the
    newest."""
    by_name = {each.name: each for each in FIELDS}
    first = [by_name.pop(name) for name in _FIRST]
    later = sorted(by_name.values(), key=lambda each: each.since)
    return [*first, *(each for each in later if version is None or each.since <= version)]


def pack_messages(
    received: Sequence[Received], queues: Sequence[QueueRef], version: int | None = None
) -> bytes:
    """Encode messages and their receipts. queues: queues of the messages.

    version: version of the columns; None for the newest.
    """
    place = {queue: number for number, queue in enumerate(queues)}
    messages = [message for message, _ in received]
    leases = [lease for _, lease in received]
    columns: list[bytes] = []
    for field in _logged(version):
        holders = leases if field.form is Form.RECEIPT else messages
        values = list(map(attrgetter(field.name), holders))
        if field.form is Form.QUEUE:
            values = [place[queue] for queue in values]
        columns += _PACKINGS[field.form].pack(values)
    return joined(columns)


def unpack_messages(
    stream: Stream, queues: Sequence[QueueRef], count: int, version: int | None = None
) -> tuple[Received, ...]:
    """Decode exactly `count` messages. Raises Damaged.

    version: version of the columns; None for the newest. If this version lacks a column, the
    messages get the column's default.
    """
    found: dict[str, Sequence[Any]] = {
        each.name: _PACKINGS[each.form].unpack(stream, count) for each in _logged(version)
    }
    if stream.read(1):
        raise Damaged("it has more columns than a segment")
    places, ids = found["queue"], found["message_id"]
    if max(places) >= len(queues):
        raise Damaged("a message is of a queue that its header does not name")
    check_once(places, ids)
    found["queue"] = [queues[place] for place in places]
    defaults = {each.name: itertools.repeat(each.default, count) for each in FIELDS}
    messages = map(Message, *(found.get(name, defaults[name]) for name in Message._fields))
    leases = map(Lease, found["queue"], ids, found["pop_receipt"])
    return tuple(map(Received, messages, leases))


def check_once(queues: Sequence[int], ids: Sequence[str]) -> None:
    """Raise Damaged if a message occurs twice.

    Otherwise a message would be deleted, or published, twice.
    """
    if len(set(zip(queues, ids, strict=True))) < len(ids):
        raise Damaged("a message is in it twice")
