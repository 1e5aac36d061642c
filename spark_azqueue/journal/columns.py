"""Columns of values as bytes, and back with every value checked. For objects of logs.

Each column is preceded by its length in bytes. Numbers are little-endian. Reading takes no more
than so many rows can have: a small object may hold much that is compressed well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from .codec import Damaged

_LENGTH = struct.Struct("<Q")


class Stream(Protocol):
    """What `unpack` reads from."""

    def read(self, size: int) -> bytes:
        """Return the next bytes: fewer than `size` at the end alone."""


def joined(columns: Iterable[bytes]) -> bytes:
    """The columns, each with its length."""
    return b"".join(part for column in columns for part in (_LENGTH.pack(len(column)), column))


def numbers(kind: str, values: Sequence[int]) -> bytes:
    """Pack numbers. kind: as in `struct`: I and q are unsigned 4 and signed 8 bytes."""
    return struct.pack(f"<{len(values)}{kind}", *values)


def read_numbers(kind: str, stream: Stream, count: int) -> tuple[int, ...]:
    """Read so many numbers back. Raises Damaged."""
    form = struct.Struct(f"<{count}{kind}")
    return form.unpack(column(stream, form.size, form.size))


def column(stream: Stream, least: int, most: int) -> bytes:
    """The next column. Raises Damaged unless it has so many bytes."""
    size = length(stream)
    if not least <= size <= most:
        raise Damaged("a column has more or fewer values than messages")
    return exactly(stream, size)


def length(stream: Stream) -> int:
    """How many bytes the next column has. Raises Damaged."""
    size: int = _LENGTH.unpack(exactly(stream, _LENGTH.size))[0]
    return size


def exactly(stream: Stream, size: int) -> bytes:
    """The next bytes, so many. Raises Damaged."""
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
