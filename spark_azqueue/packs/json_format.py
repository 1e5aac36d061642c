"""The format `json`: gzip of lines, each of them a JSON object; easy in any language.

No value is lost: whole and decimal numbers have all their digits, times six digits and a zone.
"""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from spark_azqueue.errors import InvalidRow

from .bounds import CorruptPack, PackBounds
from .kinds import as_spark, in_numbers

MAGIC = b"\x1f\x8b\x08"
_LEVEL = 1
_text = json.JSONEncoder(ensure_ascii=False).encode
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_Written = Callable[[Any], str]


class JsonFormat:
    """Writes packs. What it packs are lines, without their ends."""

    @staticmethod
    def prepared(rows: pa.RecordBatch) -> list[bytes]:
        """A line for each row. Raises InvalidRow for a value that JSON does not hold."""
        return [line.encode() for line in lines_of(rows)]

    @staticmethod
    def joined(pieces: Sequence[list[bytes]]) -> list[bytes]:
        """One list of several."""
        return [line for piece in pieces for line in piece]

    @staticmethod
    def size(rows: list[bytes]) -> int:
        """How many bytes the lines take when opened."""
        return sum(map(len, rows)) + len(rows)

    @staticmethod
    def packed(rows: list[bytes]) -> bytes:
        """The bytes of a pack."""
        return gzip.compress(b"".join(line + b"\n" for line in rows), _LEVEL, mtime=0)


def unzipped(data: bytes, bounds: PackBounds) -> bytes:
    """What gzip compressed, in one member or more. Raises CorruptPack."""
    parts = []
    left = bounds.max_bytes
    while data:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(data, left + 1)
        except zlib.error:
            raise CorruptPack("its gzip is damaged") from None
        left -= len(part)
        if left < 0:
            raise CorruptPack(f"it opens to more than max_bytes={bounds.max_bytes:,}")
        if not member.eof:
            raise CorruptPack("its gzip ends early")
        parts.append(part)
        data = member.unused_data
    return b"".join(parts)


def lines_in(data: bytes, bounds: PackBounds) -> Iterator[bytes]:
    """The lines of an opened pack; the last may have no end. Raises CorruptPack if too many."""
    if data.count(b"\n") + (not data.endswith(b"\n")) > bounds.max_rows and data:
        raise CorruptPack(f"it has more rows than max_rows={bounds.max_rows:,}")
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


def lines_of(rows: pa.RecordBatch) -> Iterator[str]:
    """A line of JSON for each row, with all columns. Raises InvalidRow for what JSON cannot say."""
    names = [_text(name) + ":" for name in rows.schema.names]
    written: list[list[str]] = []
    for name, field, column in zip(names, rows.schema, rows.columns, strict=True):
        try:
            numbers = column.cast(as_spark(field.type))
            kind = in_numbers(numbers.type)
            write = _writer(numbers.type)
            values = numbers if kind == numbers.type else numbers.view(kind)
            written.append([name + write(value) for value in values.to_pylist()])
        except (ValueError, OverflowError) as error:
            raise InvalidRow(
                f"pack(format='json'): the column '{field.name}' has a value that JSON does not"
                f" hold: {_cause(error)}. Convert it, or take format='arrow'"
            ) from None
    for values in zip(*written, strict=True):
        yield "{" + ",".join(values) + "}"


def _cause(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "bytes that are no UTF-8"
    if isinstance(error, _NotInJson):
        return str(error)
    return "a date before year 1 or after 9999, or a time below a microsecond"


class _NotInJson(ValueError):  # noqa: N818
    """A value that JSON cannot say."""


def _writer(kind: pa.DataType) -> _Written:
    """What writes a value of a type; NULL is null."""
    write = _writer_of_values(kind)

    def or_null(value: Any) -> str:
        return "null" if value is None else write(value)

    return or_null


def _writer_of_values(kind: pa.DataType) -> _Written:
    types = pa.types
    if types.is_struct(kind):
        return _struct_writer(kind)
    if types.is_map(kind):
        item = _writer(kind.item_type)
        return lambda pairs: _in_braces(_text(key) + ":" + item(value) for key, value in pairs)
    if types.is_list(kind) or types.is_large_list(kind):
        each = _writer(kind.value_type)
        return lambda values: "[" + ",".join(map(each, values)) + "]"
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_floating(kind):
        return _float_text
    if types.is_decimal(kind):
        return lambda value: format(value, "f")
    if types.is_binary(kind) or types.is_large_binary(kind):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if types.is_date(kind):
        return lambda days: f'"{(_EPOCH + datetime.timedelta(days)).date()}"'
    if types.is_timestamp(kind):
        zone = "Z" if kind.tz else ""
        return lambda value: f'"{_time(value)}{zone}"'
    if types.is_time(kind):
        return lambda value: f'"{_time(value // 1_000).partition("T")[2]}"'
    if types.is_duration(kind):
        return lambda value: f'"{duration_text(value)}"'
    return _text if types.is_string(kind) or types.is_large_string(kind) else str


def _struct_writer(kind: pa.StructType) -> _Written:
    writers = [(each.name, _text(each.name) + ":", _writer(each.type)) for each in kind]

    def write(value: dict[str, Any]) -> str:
        return _in_braces(text + write(value[name]) for name, text, write in writers)

    return write


def _in_braces(texts: Iterator[str]) -> str:
    return "{" + ",".join(texts) + "}"


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        raise _NotInJson(f"{value}")
    return repr(value)


def _time(microseconds: int) -> str:
    return (_EPOCH + microseconds * _MICROSECOND).isoformat(timespec="microseconds")


def duration_text(microseconds: int) -> str:
    """A day-time interval in ISO 8601, in seconds."""
    seconds = Decimal(abs(microseconds)).scaleb(-6)
    return f"{'-' if microseconds < 0 else ''}PT{seconds:f}S"
