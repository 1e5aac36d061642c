"""Rows as Arrow. Of the source: built once, carried inside the partitions, handed on by `read`.
Of the sink: taken apart column by column.

Ring: edge (pyarrow).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .columns import CORRUPT, Columns
from .messages import UNKNOWN_TIME, Message
from .references import Reference

TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "int": pa.int32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
"""By Spark's names. Spark compares these types exactly: microseconds in UTC, all nullable."""

MAX_PARTITION_BYTES = 900 * 1024
"""Spark warns of every task above 1,000 KiB, and a task holds one partition."""


_SLICE_BYTES = 8 * 2**20
"""About so much of a record batch is turned into Python values at once."""


@dataclass(frozen=True, slots=True)
class Row:
    """A message with its decoded body; `corrupt` holds the raw text where it does not decode.

    reference: what `body` is, where that stands for a body in a blob.
    """

    message: Message
    body: str | bytes | None
    corrupt: str | None = None
    reference: Reference | None = None


def partitions(
    rows: Iterable[Row], columns: Columns, most_rows: int, most_bytes: int = MAX_PARTITION_BYTES
) -> list[bytes]:
    """Cut rows into partitions: each an Arrow IPC stream of one record batch.

    A partition has at most `most_rows` rows and about `most_bytes` bytes, and at least one row.
    """
    schema = pa.schema([(name, TYPES[kind]) for name, kind in columns])
    return [
        _serialised(schema, [_column(name, part) for name, _ in columns])
        for part in _cut(rows, most_rows, most_bytes)
    ]


def record_batches(partition: bytes) -> Iterator[pa.RecordBatch]:
    """The record batches of one partition."""
    with pa.ipc.open_stream(partition) as reader:
        yield from reader


def tuples(
    batches: Iterable[pa.RecordBatch], wanted: Collection[int]
) -> Iterator[tuple[object, ...]]:
    """The rows of record batches; columns (by place) that are not wanted are None in them."""
    for batch in batches:
        step = max(1, batch.num_rows * _SLICE_BYTES // max(batch.nbytes, _SLICE_BYTES))
        for start in range(0, batch.num_rows, step):
            part = batch.slice(start, step)
            yield from zip(
                *(
                    column.to_pylist() if place in wanted else itertools.repeat(None, len(column))
                    for place, column in enumerate(part.columns)
                ),
                strict=True,
            )


def _cut(rows: Iterable[Row], most_rows: int, most_bytes: int) -> Iterator[list[Row]]:
    part: list[Row] = []
    size = 0
    for row in rows:
        weight = 200 + row.message.size
        if part and (len(part) >= most_rows or size + weight > most_bytes):
            yield part
            part, size = [], 0
        part.append(row)
        size += weight
    if part:
        yield part


def _serialised(schema: pa.Schema, columns: list[list[Any]]) -> bytes:
    arrays = [
        pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)
    ]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def _column(name: str, rows: list[Row]) -> list[Any]:
    if name == "body":
        return [row.body for row in rows]
    if name == CORRUPT:
        return [row.corrupt for row in rows]
    values = [getattr(row.message, name) for row in rows]
    if name in ("insertion_time", "expiration_time"):
        return [None if value == UNKNOWN_TIME else value for value in values]
    return values
