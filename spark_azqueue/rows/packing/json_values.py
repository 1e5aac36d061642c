"""Converts JSON values to the columns of a reader's schema, without changing a value."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
import struct
from collections.abc import Callable, Iterable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from .bounds import Budget, CorruptPack, PackBounds
from .fitting import FIRST_US, LAST_US, with_nulls
from .kinds import VARIANT, in_numbers, spark_name

VALUES_AT_MOST = 250_000
"""Maximum number of values in one line, and approximate maximum number of values in memory at once.

A value needs about 60 bytes."""

_ROW_VALUES = 4
"""Memory of a row without its values, as a number of values."""

_DIGITS_AT_MOST = 4_000
_EXACT = Context(prec=80)
_EPOCH = datetime.datetime(1970, 1, 1)
_US = datetime.timedelta(microseconds=1)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_TIME = re.compile(r"(\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?", re.ASCII)
_DURATION = re.compile(r"(-?)PT(\d{1,15})(?:\.(\d{1,30}))?S", re.ASCII)
_Read = Callable[[Any], Any]


class _Misfit(ValueError):  # noqa: N818
    """Error for a value that does not have the type of the schema.

    path: path to the value. Each outer level adds its name in front.
    """

    def __init__(self, path: str = "") -> None:
        super().__init__()
        self.path = path


def rows_of_lines(
    lines: Iterable[bytes | str], wanted: pa.Schema, bounds: PackBounds
) -> list[pa.RecordBatch]:
    """Return the rows of lines that are JSON objects, with the columns of `wanted`.

    Raises CorruptPack, and errors of Python and Arrow for values that are outside of a type's
    range.
    """
    read = _Rows(wanted)
    budget = Budget(bounds.max_bytes)
    batches: list[pa.RecordBatch] = []
    held: list[dict[int, Any]] = []
    values = 0
    for line in lines:
        values += count_values(line) + _ROW_VALUES
        held.append(read.row(line))
        if values > VALUES_AT_MOST:
            batches.append(_batch(held, wanted, budget))
            held, values = [], 0
    if held:
        batches.append(_batch(held, wanted, budget))
    if batches and not read.is_found:
        raise CorruptPack("it has none of the columns of the schema")
    return batches


def parsed(line: bytes | str) -> Any:
    """Parse a JSON text. Numbers keep all digits. An object that has a name twice is refused.

    Raises CorruptPack, ValueError and RecursionError.
    """
    count_values(line)
    text = line if isinstance(line, str) else line.decode("utf-8")
    return _DECODER.decode(text)


def count_values(line: bytes | str) -> int:
    """Return the approximate number of values in a JSON text. Raises CorruptPack for too many
    values."""
    marks: tuple[Any, ...] = (",", "[", "{") if isinstance(line, str) else (b",", b"[", b"{")
    found = sum(line.count(mark) for mark in marks)
    if found > VALUES_AT_MOST:
        raise CorruptPack(f"one of its rows has more than {VALUES_AT_MOST:,} values")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise CorruptPack("an object in it has a name twice")
    return found


def _digits(text: str) -> str:
    if len(text) > _DIGITS_AT_MOST:
        raise CorruptPack(f"a number in it has more than {_DIGITS_AT_MOST:,} digits")
    return text


def _fraction_or_exponent(text: str) -> Decimal:
    try:
        return Decimal(_digits(text))
    except ArithmeticError:
        raise CorruptPack("a number in it has an exponent of very many digits") from None


def _no_number(text: str) -> Any:
    raise CorruptPack(f"{text} is not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_float=_fraction_or_exponent,
    parse_int=lambda text: int(_digits(text)),
    parse_constant=_no_number,
)


class _Rows:
    """Parser of rows. is_found: at least one row had a column of the schema."""

    def __init__(self, wanted: pa.Schema) -> None:
        self.is_found = False
        self._fields = _Fields(list(wanted))

    def row(self, line: bytes | str) -> dict[int, Any]:
        """Return the values of a row, by the position of their column in the schema."""
        value = parsed(line)
        if not isinstance(value, dict):
            raise CorruptPack("one of its lines is no JSON object")
        try:
            found = self._fields.found(value)
        except _Misfit as error:
            raise CorruptPack(f"the column {error.path}") from None
        self.is_found = self.is_found or bool(found)
        return found


class _Fields:
    """Parser of a struct's fields from a JSON object. Names are compared without case."""

    def __init__(self, fields: list[pa.Field]) -> None:
        self._fields = fields
        self._readers = [_reader(field) for field in fields]
        self._places = {field.name.lower(): place for place, field in enumerate(fields)}
        self._required = [n for n, field in enumerate(fields) if not field.nullable]

    def read(self, value: dict[str, Any]) -> dict[str, Any]:
        """Return the values of all fields, by name."""
        found = self.found(value)
        return {field.name: found.get(place) for place, field in enumerate(self._fields)}

    def found(self, value: dict[str, Any]) -> dict[int, Any]:
        """Return the values of the fields that the object has, by the position of the field."""
        found: dict[int, Any] = {}
        for name, each in value.items():
            place = self._places.get(name.lower())
            if place is None:
                continue
            if place in found:
                raise CorruptPack(
                    f"an object in it has '{self._fields[place].name}' twice (capitals do not"
                    " count)"
                )
            found[place] = None if each is None else self._value(place, each)
        for place in self._required:
            if found.get(place) is None:
                raise _Misfit(f"'{self._fields[place].name}' is NULL, and NOT NULL in the schema")
        return found

    def _value(self, place: int, value: Any) -> Any:
        field = self._fields[place]
        try:
            return self._readers[place](value)
        except _Misfit as error:
            where = error.path or f"has a value that is no {spark_name(field.type)}"
            raise _Misfit(f"'{field.name}' {where}") from None
        except (ValueError, ArithmeticError, TypeError):
            raise _Misfit(
                f"'{field.name}' has a value that is no {spark_name(field.type)}"
            ) from None


def _reader(field: pa.Field) -> _Read:
    kind, types = field.type, pa.types
    if kind == VARIANT:
        return _refused
    if types.is_struct(kind):
        fields = _Fields(list(kind))
        return lambda value: fields.read(_a(dict, value))
    if types.is_map(kind):
        if not types.is_string(kind.key_type):
            return _refused
        item = _element(kind.item_field)
        return lambda value: [(name, item(each)) for name, each in _a(dict, value).items()]
    if types.is_list(kind):
        element = _element(kind.value_field)
        return lambda value: [element(each) for each in _a(list, value)]
    if types.is_integer(kind):
        bits = kind.bit_width - 1
        return lambda value: _whole(value, bits)
    if types.is_floating(kind):
        return _float32 if types.is_float32(kind) else _float
    if types.is_decimal(kind):
        return lambda value: _decimal(value, kind.precision, kind.scale)
    if types.is_timestamp(kind):
        return _instant if kind.tz else _local
    for is_sort, read in _READERS:
        if is_sort(kind):
            return read
    return _refused


def _element(field: pa.Field) -> _Read:
    read = _reader(field)

    def or_null(value: Any) -> Any:
        if value is not None:
            return read(value)
        if not field.nullable:
            raise _Misfit("has a NULL inside, where the schema has none")
        return None

    return or_null


def _refused(value: Any) -> Any:
    raise _Misfit


def _a(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Misfit
    return value


def _whole(value: Any, bits: int) -> int:
    if (
        type(value) is Decimal
        and value.adjusted() < 40
        and value == value.to_integral_value(context=_EXACT)
    ):
        value = int(value)
    if type(value) is not int or not -(1 << bits) <= value < 1 << bits:
        raise _Misfit
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, Decimal):
        raise _Misfit
    number = float(value)
    if number in (float("inf"), float("-inf")):
        raise _Misfit
    return number


def _float32(value: Any) -> float:
    """Return a number that rounds to the same FLOAT as the value.

    If the number was rounded, its last bit is set. So the number is never half way between two
    FLOATs, where a second rounding could choose the wrong FLOAT.
    """
    number = _float(value)
    if number != value and not struct.unpack("<q", struct.pack("<d", number))[0] & 1:
        number = math.nextafter(number, math.inf if value > number else -math.inf)
    if abs(number) >= 2.0**128 - 2.0**103:
        raise _Misfit
    return number


def _decimal(value: Any, precision: int, scale: int) -> Decimal:
    if type(value) not in (int, Decimal):
        raise _Misfit
    number = Decimal(value)
    if number and not -90 < number.adjusted() < 90:
        raise _Misfit
    exact = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if exact != number or (exact and exact.adjusted() >= precision - scale):
        raise _Misfit
    return exact


def _binary(value: Any) -> bytes:
    try:
        return base64.b64decode(_a(str, value), validate=True)
    except (binascii.Error, ValueError):
        raise _Misfit from None


def _date(value: Any) -> int:
    if not _DATE.fullmatch(_a(str, value)):
        raise _Misfit
    return (datetime.date.fromisoformat(value) - _EPOCH.date()).days


def _fraction(digits: str | None) -> int:
    """Return a fraction of a second in microseconds. Raises an error if a digit would be lost."""
    digits = (digits or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise _Misfit
    return int(digits[:6])


def _moment(value: Any) -> tuple[int, str | None]:
    """Return a time in microseconds, as if it were in UTC, and the zone that the text names."""
    found = _TIMESTAMP.fullmatch(_a(str, value))
    if not found:
        raise _Misfit
    whole = datetime.datetime.fromisoformat(f"{found[1]}T{found[2]}")
    return (whole - _EPOCH) // _US + _fraction(found[3]), found[4]


def _local(value: Any) -> int:
    time, zone = _moment(value)
    if zone:
        raise _Misfit
    return time


def _instant(value: Any) -> int:
    time, zone = _moment(value)
    if not zone:
        raise _Misfit
    if zone != "Z":
        away = datetime.time.fromisoformat(zone[1:])
        minutes = away.hour * 60 + away.minute
        time -= (minutes if zone[0] == "+" else -minutes) * 60_000_000
    if not FIRST_US <= time <= LAST_US:
        raise _Misfit
    return time


def _time(value: Any) -> int:
    found = _TIME.fullmatch(_a(str, value))
    if not found:
        raise _Misfit
    time = datetime.time.fromisoformat(found[1])
    seconds = time.hour * 3_600 + time.minute * 60 + time.second
    return (seconds * 1_000_000 + _fraction(found[2])) * 1_000


def _duration(value: Any) -> int:
    found = _DURATION.fullmatch(_a(str, value))
    if not found:
        raise _Misfit
    time = int(found[2]) * 1_000_000 + _fraction(found[3])
    time = -time if found[1] else time
    if not -(2**63) <= time < 2**63:
        raise _Misfit
    return time


_READERS: tuple[tuple[Callable[[pa.DataType], bool], _Read], ...] = (
    (pa.types.is_boolean, lambda value: _a(bool, value)),
    (pa.types.is_string, lambda value: _a(str, value)),
    (pa.types.is_binary, _binary),
    (pa.types.is_date, _date),
    (pa.types.is_time, _time),
    (pa.types.is_duration, _duration),
)


def _batch(rows: list[dict[int, Any]], wanted: pa.Schema, budget: Budget) -> pa.RecordBatch:
    columns: list[pa.Array | None] = []
    found = set[int]().union(*rows)
    for place, field in enumerate(wanted):
        if place not in found:
            columns.append(None)
            continue
        numbers = in_numbers(field.type)
        column = pa.array([row.get(place) for row in rows], numbers)
        budget.take(column.nbytes)
        columns.append(column if numbers == field.type else column.view(field.type))
    return with_nulls(columns, wanted, len(rows))
