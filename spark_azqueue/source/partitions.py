"""Cuts a micro-batch into partitions. Spark runs one task for each partition.

Each task, small or large, costs Spark's Python worker 5 to 30 ms, so few large partitions are
cheap. More partitions keep more cores busy. A task contains one compressed partition, and Spark
logs a warning for a task above 1,000 KiB. So partitions are smaller than 1,000 KiB, unless the rows
are large. With large rows, a task of this size would have only some dozens of rows, and the fixed
cost of a task matters more than the warning (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

TASK_BYTES = 900 * 1024
"""Maximum number of bytes of a compressed partition."""

LARGE_TASK_BYTES = 4 * 2**20
"""Maximum number of bytes of a compressed partition with large rows, if the batch then still has
eight partitions."""

LARGE_ROW_BYTES = 8 * 2**10
"""A row with at least this many compressed bytes counts as large."""

MOST_PARTITION_BYTES = 8 * 2**20
MOST_LARGE_PARTITION_BYTES = 16 * 2**20
"""Maximum number of bytes of a partition's texts before compression."""

FEWEST_ROWS, MOST_ROWS = 1024, 4096
_PARTITIONS = 8
_BYTES_BESIDE_TEXT = 200
_SURE = 0.85
"""Safety margin: the compression ratio is measured only on a sample."""


class Sized(Protocol):
    """A row whose text has a size."""

    @property
    def size(self) -> int:
        """Size of the text in bytes."""


S = TypeVar("S", bound=Sized)


def rows_at_most(rows: int) -> int:
    """Return the maximum number of rows in a partition, used if no option sets this number.

    rows: number of rows in the batch.
    """
    return min(max(FEWEST_ROWS, -(-rows // _PARTITIONS)), MOST_ROWS)


def bytes_at_most(ratio: float, rows: int, size: int) -> int:
    """Return the maximum number of bytes of a partition's texts before compression.

    ratio: compressed size / size of the texts. rows: number of rows in the batch. size: number of
    bytes of the batch's texts.
    """
    sent = ratio * size
    task, most = float(TASK_BYTES), MOST_PARTITION_BYTES
    if rows and sent / rows >= LARGE_ROW_BYTES:
        task = min(max(task, sent / _PARTITIONS), LARGE_TASK_BYTES)
        most = MOST_LARGE_PARTITION_BYTES
    return int(min(max(task, task * _SURE / max(ratio, 1e-3)), most))


def cut(rows: Iterable[S], most_rows: int, most_bytes: int = TASK_BYTES) -> Iterator[list[S]]:
    """Cut rows into parts of at most `most_rows` rows and about `most_bytes` bytes.

    No part is empty.
    """
    part: list[S] = []
    size = 0
    for row in rows:
        weight = _BYTES_BESIDE_TEXT + row.size
        if part and (len(part) >= most_rows or size + weight > most_bytes):
            yield part
            part, size = [], 0
        part.append(row)
        size += weight
    if part:
        yield part


def sample(rows: Sequence[S], count: int) -> Sequence[S]:
    """Return at most `count` rows, spread evenly over the batch."""
    return rows[:: max(1, len(rows) // count)][:count]
