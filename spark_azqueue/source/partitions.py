"""Where a micro-batch is cut into partitions, of which Spark makes one task each.

A task costs Spark's Python worker 5 to 30 ms whatever is in it, so few large partitions are cheap.
More of them keep more cores busy. Spark logs a warning for a stage with a task above 1,000 KiB; a
task holds one partition, compressed. So partitions stay below that, unless the rows are large: with
some dozens of rows in a task, what it costs counts more (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

TASK_BYTES = 900 * 1024
"""Most bytes of a partition as it is sent."""

LARGE_TASK_BYTES = 4 * 2**20
"""Most bytes of a partition of large rows, if the batch then still has eight partitions."""

LARGE_ROW_BYTES = 8 * 2**10
"""Rows of this many bytes as they are sent are large."""

MOST_PARTITION_BYTES = 8 * 2**20
MOST_LARGE_PARTITION_BYTES = 16 * 2**20
"""Most bytes of a partition's texts, however well they compress."""

FEWEST_ROWS, MOST_ROWS = 1024, 4096
_PARTITIONS = 8
_BYTES_BESIDE_TEXT = 200
_SURE = 0.85
"""Safety margin: the compression ratio is that of a sample."""


class Sized(Protocol):
    """A row whose text has a size."""

    @property
    def size(self) -> int:
        """Bytes of the text."""


S = TypeVar("S", bound=Sized)


def rows_at_most(rows: int) -> int:
    """Most rows of a partition, if no option says so and the batch has this many rows."""
    return min(max(FEWEST_ROWS, -(-rows // _PARTITIONS)), MOST_ROWS)


def bytes_at_most(ratio: float, rows: int, size: int) -> int:
    """Most bytes of texts in a partition.

    ratio: of their compressed size to their size. rows, size: of the batch, in bytes.
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
    """About `count` rows from all over the batch."""
    return rows[:: max(1, len(rows) // count)][:count]
