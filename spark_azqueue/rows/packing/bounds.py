"""Limits for opening a message, because any sender may have made its body."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 16 * 2**20
MAX_ROWS = 100_000

LARGE_BYTES = 4 * 2**20
"""Maximum size, in bytes, of rows that share a message. A reader, which may use wider types, opens
up to 16 MiB."""


class CorruptPack(Exception):  # noqa: N818
    """Error for a body that cannot be opened. The text says why, but shows no value of the body."""


@dataclass(frozen=True, slots=True)
class PackBounds:
    """Limits for one message: maximum bytes of its opened rows, and maximum number of rows."""

    max_bytes: int = MAX_BYTES
    max_rows: int = MAX_ROWS


class Budget:
    """Number of bytes that opening a message may still allocate.

    Bytes are counted before memory is allocated.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._left: float = size

    def take(self, size: float) -> None:
        """Subtract `size` bytes. Raises CorruptPack if fewer bytes are left."""
        self._left -= size
        if self._left < 0:
            raise CorruptPack(f"its rows would take more than max_bytes={self._size:,} when opened")
