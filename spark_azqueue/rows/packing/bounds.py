"""How much a message may ask for when it is opened. Bodies come from anybody."""

from __future__ import annotations

from dataclasses import dataclass

MAX_BYTES = 16 * 2**20
MAX_ROWS = 100_000

LARGE_BYTES = 4 * 2**20
"""Rows that share a message take no more: a reader opens up to 16 MiB, and may take wider types."""


class CorruptPack(Exception):  # noqa: N818
    """A body cannot be opened. The text says why, without a value of the body."""


@dataclass(frozen=True, slots=True)
class PackBounds:
    """Of one message: bytes of its rows when opened, and how many rows."""

    max_bytes: int = MAX_BYTES
    max_rows: int = MAX_ROWS


class Budget:
    """What is left of a message's bytes. Taken before anything is allocated."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._left: float = size

    def take(self, size: float) -> None:
        """Count bytes. Raises CorruptPack if there are not so many left."""
        self._left -= size
        if self._left < 0:
            raise CorruptPack(f"its rows would take more than max_bytes={self._size:,} when opened")
