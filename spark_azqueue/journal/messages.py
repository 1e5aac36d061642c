"""The messages of a segment as bytes, column by column, and back with every value checked.

Each column is a list of lengths, then the values. Texts are UTF-8, in which even a lone surrogate
survives.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from spark_azqueue.service.fields import MAX_ID, MAX_RECEIPT, is_message_id, is_receipt
from spark_azqueue.service.messages import MAX_DEQUEUE_COUNT, Lease, Message, QueueRef, Received

from .codec import Damaged

_LENGTH = struct.Struct("<Q")


class Stream(Protocol):
    """What `unpack_messages` reads from."""

    def read(self, size: int) -> bytes:
        """Return the next bytes: fewer than `size` at the end alone."""


def joined(columns: Iterable[bytes]) -> bytes:
    """The columns, each with its length."""
    return b"".join(part for column in columns for part in (_LENGTH.pack(len(column)), column))


def numbers(kind: str, values: Sequence[int]) -> bytes:
    """Pack numbers. kind: as in `struct`: I and q are unsigned 4 and signed 8 bytes."""
    return struct.pack(f"<{len(values)}{kind}", *values)


def read_numbers(kind: str, stream: Stream, count: int) -> tuple[int, ...]:
    """Read `count` numbers back. Raises Damaged."""
    form = struct.Struct(f"<{count}{kind}")
    return form.unpack(column(stream, form.size, form.size))


def column(stream: Stream, least: int, most: int) -> bytes:
    """The next column. Raises Damaged unless it has `least` to `most` bytes."""
    size = length(stream)
    if not least <= size <= most:
        raise Damaged("a column has more or fewer values than messages")
    return exactly(stream, size)


def length(stream: Stream) -> int:
    """How many bytes the next column has. Raises Damaged."""
    size: int = _LENGTH.unpack(exactly(stream, _LENGTH.size))[0]
    return size


def exactly(stream: Stream, size: int) -> bytes:
    """The next `size` bytes. Raises Damaged."""
    data = stream.read(size)
    if len(data) != size:
        raise Damaged("a column is cut short")
    return data


def listed(
    stream: Stream, count: int, what: str, legal: Callable[[str], bool], longest: int
) -> list[str]:
    """Texts of printable ASCII that `legal` accepts, one in each line. Raises Damaged."""
    lines = column(stream, count - 1, count * (longest + 1))
    values = lines.decode("ascii", "replace").split("\n", count)
    if len(values) != count or not all(map(legal, values)):
        raise Damaged(f"its {what} are not valid")
    return values


_LONGEST_TEXT = 3 * 16 * 2**20
"""In bytes. A message of a damaged answer (16 MiB at most) may have all of it for its text, with
each byte that is not UTF-8 as a character of three."""
_NONE = -1
"""A next_visible_time that is not known."""


def pack_messages(received: Sequence[Received], queues: Sequence[QueueRef]) -> bytes:
    """The messages and their receipts, all of them from these queues."""
    messages = [message for message, _ in received]
    number_of = {name: number for number, name in enumerate(queues)}
    texts = [message.text.encode("utf-8", "surrogatepass") for message in messages]
    visible = [message.next_visible_time for message in messages]
    columns = (
        numbers("I", [number_of[message.queue] for message in messages]),
        "\n".join([message.message_id for message in messages]).encode("ascii"),
        "\n".join([lease.pop_receipt for _, lease in received]).encode("ascii"),
        numbers("q", [message.insertion_time for message in messages]),
        numbers("q", [message.expiration_time for message in messages]),
        numbers("q", [_NONE if time is None else time for time in visible]),
        numbers("i", [message.dequeue_count for message in messages]),
        bytes(message.intact for message in messages),
        numbers("I", list(map(len, texts))),
        b"".join(texts),
    )
    return joined(columns)


def unpack_messages(stream: Stream, queues: Sequence[QueueRef], count: int) -> tuple[Received, ...]:
    """Read `count` messages back, and no more. Raises Damaged."""
    numbers = read_numbers("I", stream, count)
    if any(number >= len(queues) for number in numbers):
        raise Damaged("a message is of a queue that its header does not name")
    ids = listed(stream, count, "message ids", is_message_id, MAX_ID)
    check_once(numbers, ids)
    receipts = listed(stream, count, "pop receipts", is_receipt, MAX_RECEIPT)
    inserted, expires, visible = (read_numbers("q", stream, count) for _ in range(3))
    counts = read_numbers("i", stream, count)
    intact = column(stream, count, count)
    if not set(intact) <= {0, 1}:
        raise Damaged("it does not say which messages are intact")
    if any(not 0 <= each <= MAX_DEQUEUE_COUNT for each in counts):
        raise Damaged("a dequeue count is not valid")
    if any(not 0 <= time < _YEAR_10000 for times in (inserted, expires) for time in times):
        raise Damaged("a time is not valid")
    if any(not (time == _NONE or 0 <= time < _YEAR_10000) for time in visible):
        raise Damaged("a time is not valid")
    texts = list(_texts(stream, read_numbers("I", stream, count)))
    if stream.read(1):
        raise Damaged("it has more columns than a segment")
    return tuple(
        Received(
            Message(
                queues[numbers[row]],
                ids[row],
                texts[row],
                inserted[row],
                expires[row],
                counts[row],
                None if visible[row] == _NONE else visible[row],
                bool(intact[row]),
            ),
            Lease(queues[numbers[row]], ids[row], receipts[row]),
        )
        for row in range(count)
    )


def check_once(queues: Sequence[int], ids: Sequence[str]) -> None:
    """Raise Damaged if a message is there twice: each is deleted, or published, once."""
    if len(set(zip(queues, ids, strict=True))) < len(ids):
        raise Damaged("a message is in it twice")


_YEAR_10000 = 253_402_300_800 * 1_000_000
"""Microseconds since 1970: what an Arrow timestamp in Spark can hold, and more than any queue."""


def _texts(stream: Stream, sizes: Sequence[int]) -> Iterator[str]:
    total = length(stream)
    if sum(sizes) != total or max(sizes) > _LONGEST_TEXT:
        raise Damaged("its texts are cut short, or too long")
    for size in sizes:
        try:
            yield exactly(stream, size).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise Damaged("a text is not UTF-8") from None
