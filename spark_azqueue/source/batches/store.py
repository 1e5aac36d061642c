"""Keeps the rows of batches that were given to Spark, until they are committed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from ..offsets import text_of


class BatchStore(Protocol):
    """Partitions (Arrow streams) by the offset that ends their batch."""

    def keep(self, end: Mapping[str, Any], partitions: list[bytes]) -> None:
        """Keep the rows of the batch that ends here."""
        ...

    def find(self, end: Mapping[str, Any]) -> list[bytes] | None:
        """The partitions kept under this offset, or None."""
        ...

    def drop(self, end: Mapping[str, Any]) -> None:
        """The batch is committed: its rows are not needed any more."""
        ...


class MemoryStore:
    """Keeps them in this process: a restart finds nothing, so a replayed batch gives no rows."""

    def __init__(self) -> None:
        self._kept: dict[str, list[bytes]] = {}

    def keep(self, end: Mapping[str, Any], partitions: list[bytes]) -> None:
        """Keep the rows of the batch that ends here."""
        self._kept[text_of(end)] = partitions

    def find(self, end: Mapping[str, Any]) -> list[bytes] | None:
        """The partitions kept under this offset, or None."""
        return self._kept.get(text_of(end))

    def drop(self, end: Mapping[str, Any]) -> None:
        """The batch is committed: its rows are not needed any more."""
        self._kept.pop(text_of(end), None)
