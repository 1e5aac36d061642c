"""Cutting of a micro-batch into partitions. Spark runs one task per partition.

A task costs Spark's Python worker 5 to 30 ms, whatever its size, so few large partitions are cheap.
More partitions keep more cores busy. Spark logs a warning for a task above 1,000 KiB; a task has
one partition, compressed. So partitions are smaller than that, unless the rows are large: then a
task would have only some dozens of rows, and its fixed cost matters more (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

TASK_BYTES = 900 * 1024
"""Most bytes of a partition as sent, compressed."""

LARGE_TASK_BYTES = 4 * 2**20
"""Most bytes of a partition of large rows, if the batch then still has eight partitions."""

LARGE_ROW_BYTES = 8 * 2**10
"""Bytes as sent, compressed, from which a row counts as large."""

MOST_PARTITION_BYTES = 8 * 2**20
MOST_LARGE_PARTITION_BYTES = 16 * 2**20
"""Most bytes of a partition's texts before compression."""

FEWEST_ROWS, MOST_ROWS = 1024, 4096
_PARTITIONS = 8
_BYTES_BESIDE_TEXT = 200
_SURE = 0.85
"""Safety margin, because the compression ratio is measured on a sample."""


class Sized(Protocol):
    """A row whose text has a size."""

    @property
    def size(self) -> int:
        """Bytes of the text."""


S = TypeVar("S", bound=Sized)


def rows_at_most(rows: int) -> int:
    """Return the most rows of a partition for a batch of `rows` rows, if no option sets it."""
    return min(max(FEWEST_ROWS, -(-rows // _PARTITIONS)), MOST_ROWS)


def bytes_at_most(ratio: float, rows: int, size: int) -> int:
    """Return the most bytes of texts in a partition.

    ratio: compressed size / size of the texts. rows, size: rows and bytes of texts of the batch.
    """
    sent = ratio * size
    task, most = float(TASK_BYTES), MOST_PARTITION_BYTES
    if rows and sent / rows >= LARGE_ROW_BYTES:
        task = min(max(task, sent / _PARTITIONS), LARGE_TASK_BYTES)
        most = MOST_LARGE_PARTITION_BYTES
    return int(min(max(task, task * _SURE / max(ratio, 1e-3)), most))


def cut(rows: Iterable[S], most_rows: int, most_bytes: int = TASK_BYTES) -> Iterator[list[S]]:
    """Cut rows into parts of at most `most_rows` rows and about `most_bytes` bytes, none empty."""
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
    """Return about `count` rows, spread evenly over the batch."""
    return rows[:: max(1, len(rows) // count)][:count]
