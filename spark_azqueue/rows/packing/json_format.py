"""The format `json`: lines of JSON objects, compressed with gzip. Any language can read it.

No digit is lost: whole and decimal numbers have all their digits, and times have six fractional
digits and a zone.
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
from spark_azqueue.service.redaction import shown

from .bounds import MAX_BYTES, CorruptPack, PackBounds
from .fitting import as_pairs, in_spark
from .json_values import VALUES_AT_MOST, count_values
from .kinds import in_numbers

MAGIC = b"\x1f\x8b\x08"
_LEVEL = 1
_MEMBERS_AT_MOST = 1_024
_PIECE_BYTES = 2**16
_text = json.JSONEncoder(ensure_ascii=False).encode
_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_Written = Callable[[Any], str]


class JsonFormat:
    """Writer of packs from lines of JSON. The lines are given without line ends."""

    @staticmethod
    def prepared(rows: pa.RecordBatch) -> list[bytes]:
        """Return a line for each row. Raises InvalidRow for a value that JSON cannot represent."""
        lines = [line.encode() for line in lines_of(rows)]
        try:
            for line in lines:
                if len(line) > VALUES_AT_MOST:
                    count_values(line)
        except CorruptPack as error:
            raise InvalidRow(f"pack(format='json'): {error}. Take format='arrow'") from None
        return lines

    @staticmethod
    def joined(pieces: Sequence[list[bytes]]) -> list[bytes]:
        """Join several lists into one."""
        return [line for piece in pieces for line in piece]

    @staticmethod
    def size(rows: list[bytes]) -> int:
        """Return the size, in bytes, of these lines after a pack is opened."""
        return sum(map(len, rows)) + len(rows)

    @staticmethod
    def packed(rows: list[bytes]) -> bytes:
        """Return the bytes of a pack. Raises InvalidRow for a row that readers would refuse."""
        # Only a single row can be this large: rows share a message only if they are small.
        if JsonFormat.size(rows) > MAX_BYTES:
            raise InvalidRow(
                f"pack(format='json'): no reader would open a row of {JsonFormat.size(rows):,}"
                f" bytes; a message has {MAX_BYTES:,} at most. Split it"
            )
        return gzip.compress(b"".join(line + b"\n" for line in rows), _LEVEL, mtime=0)


def unzipped(data: bytes, bounds: PackBounds) -> bytes:
    """Decompress gzip data of one or more members. Raises CorruptPack."""
    opened = bytearray()
    place = 0
    for _ in range(_MEMBERS_AT_MOST):
        if place == len(data):
            return bytes(opened)
        place = _unzip(memoryview(data), place, opened, bounds.max_bytes)
    raise CorruptPack(f"its gzip has more than {_MEMBERS_AT_MOST:,} members")


def _unzip(data: memoryview, place: int, opened: bytearray, most: int) -> int:
    """Append the contents of the member at `place`. Returns the place of the next member."""
    member = zlib.decompressobj(wbits=31)
    while not member.eof:
        # The decompressor keeps a copy of the input after the member's end, so it gets small
        # pieces.
        piece = data[place : place + _PIECE_BYTES]
        if not piece:
            raise CorruptPack("its gzip ends early")
        try:
            opened += member.decompress(piece, most + 1 - len(opened))
        except zlib.error:
            raise CorruptPack("its gzip is damaged") from None
        if len(opened) > most:
            raise CorruptPack(f"it opens to more than max_bytes={most:,}")
        place += len(piece) - len(member.unused_data)
    return place


def lines_in(data: bytes, bounds: PackBounds) -> Iterator[bytes]:
    """Yield the lines of an opened pack. The last line may have no line end.

    Raises CorruptPack for too many lines.
    """
    if data.count(b"\n") + (not data.endswith(b"\n")) > bounds.max_rows and data:
        raise CorruptPack(f"it has more rows than max_rows={bounds.max_rows:,}")
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start:end]
        start = end + 1


def lines_of(rows: pa.RecordBatch) -> Iterator[str]:
    """Yield a line of JSON for each row, with all columns.

    Raises InvalidRow for a value that JSON cannot represent.

    A row with very many values is also refused, because a value can need a hundred times as many
    bytes in Python as in Arrow.
    """
    count = sum(map(_values, rows.columns))
    if count <= VALUES_AT_MOST:
        yield from _lines(rows)
    elif rows.num_rows <= 1:
        raise InvalidRow(f"a row has {count:,} values; JSON has {VALUES_AT_MOST:,} at most")
    else:
        half = rows.num_rows // 2
        yield from lines_of(rows[:half])
        yield from lines_of(rows[half:])


def _values(array: pa.Array) -> int:
    """Return the number of values of an array, including nested values."""
    return len(array) + sum(_values(inner) for _, inner in _inside(array))


def least_bytes(rows: pa.RecordBatch) -> int:
    """Return the minimum size, in bytes, of the rows as JSON: the names of columns, and one digit
    per value."""
    columns = zip(rows.schema.names, rows.columns, strict=True)
    return sum(_least_bytes(name, column) for name, column in columns)


def _least_bytes(name: str, array: pa.Array) -> int:
    own = len(f'"{name}":1,' if name else "1,") * len(array)
    return own + sum(_least_bytes(inner_name, inner) for inner_name, inner in _inside(array))


def _inside(array: Any) -> Iterator[tuple[str, pa.Array]]:
    """Yield the inner arrays of a nested array, each with its field name. JSON repeats this name
    for every value.

    The name is "" for elements of lists.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        yield from zip((each.name for each in kind), array.flatten(), strict=True)
    elif pa.types.is_nested(kind):
        lists = as_pairs(array) if pa.types.is_map(kind) else array
        yield "", lists.flatten()


def _lines(rows: pa.RecordBatch) -> Iterator[str]:
    names = [_text(name) + ":" for name in rows.schema.names]
    written: list[list[str]] = []
    for name, field, column in zip(names, rows.schema, rows.columns, strict=True):
        try:
            own = in_spark(column)
            numbers = in_numbers(own.type)
            write = _writer(own.type)
            values = own if numbers == own.type else own.view(numbers)
            written.append([name + write(value) for value in values.to_pylist()])
        except (ValueError, OverflowError) as error:
            raise InvalidRow(
                f"pack(format='json'): the column '{shown(field.name, 64)}' has a value that JSON"
                f" does not hold: {_cause(error)}. Convert it"
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
    """A value that JSON cannot represent."""


def _writer(kind: pa.DataType) -> _Written:
    """Return a function that writes a value of this type as JSON. NULL becomes null."""
    write = _writer_of_values(kind)

    def or_null(value: Any) -> str:
        return "null" if value is None else write(value)

    return or_null


def _writer_of_values(kind: pa.DataType) -> _Written:
    types = pa.types
    if types.is_struct(kind):
        return _struct_writer(kind)
    if types.is_map(kind):
        return _map_writer(_writer(kind.key_type), _writer(kind.item_type))
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


def _map_writer(key: _Written, item: _Written) -> _Written:
    def write(pairs: list[tuple[Any, Any]]) -> str:
        names = [key(name) for name, _ in pairs]
        if len(set(names)) < len(names):
            raise _NotInJson("a map with a key twice")
        texts = (name if name.startswith('"') else f'"{name}"' for name in names)
        return _in_braces(
            f"{name}:{item(value)}" for name, (_, value) in zip(texts, pairs, strict=True)
        )

    return write


def _struct_writer(kind: pa.StructType) -> _Written:
    writers = [(each.name, _text(each.name) + ":", _writer(each.type)) for each in kind]

    def write(value: dict[str, Any]) -> str:
        return _in_braces(text + write(value[name]) for name, text, write in writers)

    return write


def _in_braces(texts: Iterator[str]) -> str:
    return "{" + ",".join(texts) + "}"


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        raise _NotInJson(f"{value}, which only format='arrow' has")
    return repr(value)


def _time(microseconds: int) -> str:
    return (_EPOCH + microseconds * _MICROSECOND).isoformat(timespec="microseconds")


def duration_text(microseconds: int) -> str:
    """Return a day-time interval in ISO 8601, in seconds only."""
    seconds = Decimal(abs(microseconds)).scaleb(-6)
    return f"{'-' if microseconds < 0 else ''}PT{seconds:f}S"
