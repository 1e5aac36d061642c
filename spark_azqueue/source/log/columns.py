"""The messages of a segment as bytes, column by column, and back with every value checked.

Each column is preceded by its length in bytes. Numbers are little-endian. Texts are UTF-8, in which
even a lone surrogate survives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

from spark_azqueue.service.fields import is_message_id, is_receipt
from spark_azqueue.service.messages import MAX_DEQUEUE_COUNT, Message, QueueRef

from .header import Damaged

_LENGTH = struct.Struct("<Q")
_NONE = -1
"""Stands for a next_visible_time that is not known."""


def pack(messages: Sequence[Message], queues: Sequence[QueueRef]) -> bytes:
    """The messages, all of them from these queues and leased."""
    number_of = {name: number for number, name in enumerate(queues)}
    texts = [message.text.encode("utf-8", "surrogatepass") for message in messages]
    visible = [message.next_visible_time for message in messages]
    columns = (
        _numbers("I", [number_of[message.queue] for message in messages]),
        "\n".join([message.message_id for message in messages]).encode("ascii"),
        "\n".join([message.pop_receipt or "" for message in messages]).encode("ascii"),
        _numbers("q", [message.insertion_time for message in messages]),
        _numbers("q", [message.expiration_time for message in messages]),
        _numbers("q", [_NONE if time is None else time for time in visible]),
        _numbers("i", [message.dequeue_count for message in messages]),
        bytes(message.intact for message in messages),
        _numbers("I", list(map(len, texts))),
        b"".join(texts),
    )
    return b"".join(part for column in columns for part in (_LENGTH.pack(len(column)), column))


def unpack(raw: bytes, queues: Sequence[QueueRef], count: int) -> tuple[Message, ...]:
    """Read `count` messages back. Raises Damaged."""
    columns = list(_columns(raw))
    if len(columns) != 10:
        raise Damaged("it has more or fewer columns than a segment")
    numbers = _read("I", columns[0], count)
    if any(number >= len(queues) for number in numbers):
        raise Damaged("a message is of a queue that its header does not name")
    ids = _listed(columns[1], count, "message ids", is_message_id)
    receipts = _listed(columns[2], count, "pop receipts", is_receipt)
    inserted, expires, visible = (_read("q", column, count) for column in columns[3:6])
    counts = _read("i", columns[6], count)
    intact = columns[7]
    if len(intact) != count or not set(intact) <= {0, 1}:
        raise Damaged("it does not say which messages are intact")
    if any(not 0 <= each <= MAX_DEQUEUE_COUNT for each in counts):
        raise Damaged("a dequeue count is not valid")
    if any(not 0 <= time < _YEAR_10000 for times in (inserted, expires) for time in times):
        raise Damaged("a time is not valid")
    if any(not (time == _NONE or 0 <= time < _YEAR_10000) for time in visible):
        raise Damaged("a time is not valid")
    texts = list(_texts(columns[9], _read("I", columns[8], count)))
    return tuple(
        Message(
            queues[numbers[row]],
            ids[row],
            texts[row],
            inserted[row],
            expires[row],
            counts[row],
            None if visible[row] == _NONE else visible[row],
            receipts[row],
            bool(intact[row]),
        )
        for row in range(count)
    )


_YEAR_10000 = 253_402_300_800 * 1_000_000
"""Microseconds since 1970: what an Arrow timestamp in Spark can hold, and more than any queue."""


def _numbers(kind: str, values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}{kind}", *values)


def _read(kind: str, column: bytes, count: int) -> tuple[int, ...]:
    form = struct.Struct(f"<{count}{kind}")
    if len(column) != form.size:
        raise Damaged("a column has more or fewer values than messages")
    return form.unpack(column)


def _columns(raw: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(raw):
        if at + _LENGTH.size > len(raw):
            raise Damaged("a column is cut short")
        (size,) = _LENGTH.unpack_from(raw, at)
        at += _LENGTH.size
        if size > len(raw) - at:
            raise Damaged("a column is cut short")
        yield raw[at : at + size]
        at += size


def _listed(column: bytes, count: int, what: str, legal: Callable[[str], bool]) -> list[str]:
    values = column.decode("ascii", "replace").split("\n", count)
    if len(values) != count or not all(map(legal, values)):
        raise Damaged(f"its {what} are not valid")
    return values


def _texts(column: bytes, sizes: Sequence[int]) -> Iterator[str]:
    if sum(sizes) != len(column):
        raise Damaged("its texts are cut short")
    at = 0
    for size in sizes:
        try:
            yield column[at : at + size].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise Damaged("a text is not UTF-8") from None
        at += size
