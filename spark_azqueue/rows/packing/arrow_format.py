"""The format `arrow`: one Arrow IPC stream, compressed as a whole with zstd.

| bytes | | |---|---| | 0-5 | 6B 3A A9 69 C9 35: in base64 the text `azqpack1`, whose last digit is
the version | | 6-13 | the stream's length when opened, an unsigned whole number, the lowest byte
first | | 14 on | the stream, compressed with zstd |

The stream is compressed as a whole. With Arrow's own compression, every buffer would declare its
own length, and a reader could not limit the sum of these lengths.
"""

from __future__ import annotations

import base64
import struct
import sys
from collections.abc import Sequence

import pyarrow as pa

from spark_azqueue.errors import InvalidRow
from spark_azqueue.service.redaction import shown

from .bounds import LARGE_BYTES, Budget, CorruptPack, PackBounds
from .fitting import fitted, in_spark, place_of, places_in
from .framing import check_stream
from .kinds import is_allowed

MAGIC = base64.b64decode("azqpack1")
_HEADER = struct.Struct("<6sQ")
_LEVEL = 3
_NEEDED = (14, 0, 1)
"""Oldest safe version of pyarrow: older versions can run code from a stream (CVE-2023-47248)."""


class ArrowFormat:
    """Writer of packs from record batches of one schema."""

    @staticmethod
    def prepared(rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as they will be written: times in UTC, and without the metadata of
        Spark's columns.

        Raises InvalidRow for a value that readers refuse.
        """
        columns = [in_spark(column) for column in rows.columns]
        fields = [
            pa.field(field.name, column.type, nullable=field.nullable)
            for field, column in zip(rows.schema, columns, strict=True)
        ]
        prepared = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        _check_readable(prepared)
        return prepared

    @staticmethod
    def joined(pieces: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Join several batches into one."""
        if len(pieces) == 1:
            return pieces[0]
        (joined,) = pa.Table.from_batches(pieces).combine_chunks().to_batches()
        return joined

    @staticmethod
    def size(rows: pa.RecordBatch) -> int:
        """Return the approximate size, in bytes, of these rows after a pack is opened."""
        return int(rows.nbytes)

    @staticmethod
    def packed(rows: pa.RecordBatch) -> bytes:
        """Return the bytes of a pack."""
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, rows.schema) as writer:
            writer.write_batch(rows)
        opened = stream.getvalue()
        compressed = pa.Codec("zstd", _LEVEL).compress(opened, asbytes=True)
        packed = _HEADER.pack(MAGIC, opened.size) + bytes(compressed)
        if opened.size > LARGE_BYTES:  # a message of several rows is never this large
            try:
                open_arrow(packed, rows.schema, PackBounds())
            except CorruptPack as error:
                raise InvalidRow(f"pack: no reader would open a row: {error}. Split it") from None
        return packed


def _check_readable(rows: pa.RecordBatch) -> None:
    """Raise InvalidRow if a value would make `unpack` refuse the whole message."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            raise InvalidRow(
                f"pack: the column '{name}' has a text that is not UTF-8, or a value that its type"
                " does not hold. Take BINARY for bytes"
            ) from None
    try:
        fitted(rows, rows.schema, Budget(sys.maxsize))
    except CorruptPack as error:
        raise InvalidRow(f"pack: no reader would take a row: {error}. Convert it") from None


def open_arrow(data: bytes, wanted: pa.Schema | None, bounds: PackBounds) -> list[pa.RecordBatch]:
    """Return the rows of a pack with the columns of `wanted`.

    wanted: None for all columns of the pack.

    Raises CorruptPack, and errors of Arrow.
    """
    if tuple(int(part) for part in pa.__version__.split(".")[:3] if part.isdigit()) < _NEEDED:
        raise ImportError(f"pyarrow {pa.__version__} runs code that a stream brings: install 15")
    if len(data) < _HEADER.size:
        raise CorruptPack("it ends within its header")
    _, size = _HEADER.unpack_from(data)
    if not 0 < size <= bounds.max_bytes:
        raise CorruptPack(f"it opens to {size:,} bytes; max_bytes is {bounds.max_bytes:,}")
    try:
        opened = pa.decompress(memoryview(data)[_HEADER.size :], size, codec="zstd")
    except OSError:
        raise CorruptPack(f"it does not open to the {size:,} bytes that it announces") from None
    announced = check_stream(memoryview(opened), bounds.max_rows)
    batches = _read(opened, wanted)
    if sum(batch.num_rows for batch in batches) != announced:
        raise CorruptPack("it has fewer rows than it announces")
    return _checked(batches, wanted, bounds)


def _read(opened: pa.Buffer, wanted: pa.Schema | None) -> list[pa.RecordBatch]:
    names = pa.ipc.read_schema(opened).names
    options = pa.ipc.IpcReadOptions(use_threads=False, ensure_native_endian=False)
    if wanted is not None:
        known = places_in(names)
        places = [place_of(name, known) for name in wanted.names]
        options.included_fields = [place for place in places if place is not None]
        if not options.included_fields:
            raise CorruptPack("it has none of the columns of the schema")
    reader = pa.ipc.open_stream(opened, options=options)
    for field in reader.schema:
        if not is_allowed(field.type):
            raise CorruptPack(f"the column '{shown(field.name, 64)}' is of a type that no pack has")
    return list(reader)


def _checked(
    batches: list[pa.RecordBatch], wanted: pa.Schema | None, bounds: PackBounds
) -> list[pa.RecordBatch]:
    budget = Budget(bounds.max_bytes)
    rows = [batch for batch in batches if batch.num_rows]
    for batch in rows:
        # A buffer is counted once for each column that refers to it: sixteen columns may refer to
        # the same bytes.
        budget.take(sum(each.size for column in batch.columns for each in column.buffers() if each))
        batch.validate(full=True)
    if wanted is None or not rows:
        return rows
    # Join to one batch, because each column of each batch costs time, even if the batch has few
    # rows.
    return [fitted(ArrowFormat.joined(rows), wanted, Budget(bounds.max_bytes))]
