"""The error of an object of a log that is not as it was written."""

from __future__ import annotations

from spark_azqueue.errors import LogDamaged

from .header import Damaged


def damaged(where: str, name: str, error: Damaged) -> LogDamaged:
    """The error for this object. where: the folder, for texts."""
    return LogDamaged(
        f"'{name}' in the write-ahead log {where} is not as it was written: {error}."
        " Nothing was read from it or written over it. Restore it, or start with a new folder,"
        " a new checkpointLocation and a new output"
    )
