"""A row as it comes from Spark, and its values by their places."""

from __future__ import annotations

from typing import TypeAlias

Row: TypeAlias = tuple[object, ...]


def value_of(row: Row, place: int | None) -> object:
    """The value at this place of a row, None without a place."""
    return None if place is None else row[place]
