"""The types that a pack may have: their forms in Spark and in Arrow, and the sizes of their
values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from spark_azqueue.errors import InvalidSchema

UTC = "UTC"
VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", UTC),
    "timestamp_ntz": pa.timestamp("us"),
    "time(6)": pa.time64("ns"),
    "interval day to second": pa.duration("us"),
    "variant": VARIANT,
}
_BIT = 1 / 8
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_OTHER_TIMES = re.compile(r"time\(\d\)|interval (day|hour|minute|second)( to \w+)?")
_LEAVES: tuple[Callable[[pa.DataType], bool], ...] = (
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_date, pa.types.is_timestamp),
    *(pa.types.is_float32, pa.types.is_float64, pa.types.is_time, pa.types.is_duration),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary),
)


def arrow_schema(schema: Mapping[str, Any], call: str) -> pa.Schema:
    """Return the Arrow schema for reading rows with this Spark schema (`StructType.jsonValue()`).

    Raises InvalidSchema with the column's name for a type that packs cannot have, or that Arrow
    cannot represent exactly.

    call: name of the calling function, for errors.
    """
    return pa.schema(_fields(schema, call, "", is_read=True))


def check_packable(schema: Mapping[str, Any], call: str, *, as_json: bool) -> None:
    """Raise InvalidSchema with the column's name if a column cannot be packed.

    schema: schema of Spark's rows, as `StructType.jsonValue()`. as_json: True to check for the
    format `json`, which has no VARIANT and requires map keys that are texts.
    """
    for field in _fields(schema, call, "", is_read=False):
        if as_json:
            _check_json(field.type, call, field.name)


def _fields(schema: Mapping[str, Any], call: str, above: str, *, is_read: bool) -> list[pa.Field]:
    fields: list[pa.Field] = []
    seen: set[str] = set()
    if not schema["fields"]:
        where = f"the column '{above[:-1]}' is a struct" if above else "there is a DataFrame"
        raise InvalidSchema(f"{call}: {where} without any column, and no row can be made of that")
    for field in schema["fields"]:
        name = field["name"]
        path = f"{above}{name}"
        if name.lower() in seen:
            raise InvalidSchema(
                f"{call}: the column '{path}' is there twice (capitals do not count), so a reader"
                " cannot say which is which. Rename one"
            )
        seen.add(name.lower())
        kind = _kind(field["type"], call, path, is_read=is_read)
        fields.append(pa.field(name, kind, nullable=field["nullable"]))
    return fields


def _kind(kind: Any, call: str, path: str, *, is_read: bool) -> pa.DataType:
    if isinstance(kind, Mapping):
        return _nested(kind, call, path, is_read=is_read)
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if found := _DECIMAL.fullmatch(kind):
        return pa.decimal128(int(found[1]), int(found[2]))
    if not is_read:
        if kind.startswith(("varchar(", "char(")):
            return pa.string()
        if _OTHER_TIMES.fullmatch(kind):
            return pa.time64("ns") if kind.startswith("time") else pa.duration("us")
    raise InvalidSchema(f"{call}: the column '{path}' is {kind}, {_instead(kind)}")


def _instead(kind: str) -> str:
    if _OTHER_TIMES.fullmatch(kind):
        wide = "TIME(6)" if kind.startswith("time") else "INTERVAL DAY TO SECOND"
        return f"and Arrow does not say how far a value goes. Take {wide} here, and cast it later"
    if kind.startswith(("varchar(", "char(")):
        return "and no length is checked. Take STRING"
    if kind.startswith("interval"):
        return "which Spark does not give to Python. Send its parts as numbers"
    if kind == "void":
        return "so it has no type. Leave it out, or cast it"
    return "which no pack holds. Convert it to a type that docs/packing.md lists"


def _nested(kind: Mapping[str, Any], call: str, path: str, *, is_read: bool) -> pa.DataType:
    if kind["type"] == "struct":
        return pa.struct(_fields(kind, call, f"{path}.", is_read=is_read))
    if kind["type"] == "array":
        inner = _kind(kind["elementType"], call, f"{path}.element", is_read=is_read)
        return pa.list_(pa.field("element", inner, nullable=kind["containsNull"]))
    if kind["type"] == "map":
        key = _kind(kind["keyType"], call, f"{path}.key", is_read=is_read)
        if pa.types.is_nested(key):
            raise InvalidSchema(
                f"{call}: the keys of the map '{path}' are {key}, and equal ones could not be"
                " found. Take an array of structs"
            )
        value = _kind(kind["valueType"], call, f"{path}.value", is_read=is_read)
        return pa.map_(key, pa.field("value", value, nullable=kind["valueContainsNull"]))
    raise InvalidSchema(f"{call}: the column '{path}' is {kind['type']}, which no pack holds")


def _check_json(kind: pa.DataType, call: str, path: str) -> None:
    if kind == VARIANT:
        raise InvalidSchema(
            f"{call}: the column '{path}' is VARIANT, which format='json' does not hold. Take"
            " format='arrow', or to_json"
        )
    if pa.types.is_map(kind) and not pa.types.is_string(kind.key_type):
        raise InvalidSchema(
            f"{call}: the keys of the map '{path}' are {kind.key_type}, and names in JSON are"
            " texts. Cast them to STRING, or take format='arrow'"
        )
    for each in parts_of(kind):
        _check_json(each.type, call, f"{path}.{each.name}")


def parts_of(kind: pa.DataType) -> Iterator[pa.Field]:
    """Yield the fields of a nested type. Other types have no fields."""
    if pa.types.is_struct(kind):
        yield from kind
    elif pa.types.is_map(kind):
        yield from (kind.key_field, kind.item_field)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield kind.value_field


def is_allowed(kind: pa.DataType) -> bool:
    """Return True if this type may be read from an Arrow stream.

    Nested types must have only allowed types.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return False
    if pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        return bool(0 <= kind.scale <= kind.precision)
    parts = list(parts_of(kind))
    if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
        return False
    if pa.types.is_struct(kind) or parts:
        return bool(parts) and all(is_allowed(each.type) for each in parts)
    return any(is_leaf(kind) for is_leaf in _LEAVES)


def width(kind: pa.DataType) -> float:
    """Return the number of bytes that each value of an array needs; a NULL needs as many.

    The bytes of texts and elements are not included.
    """
    if pa.types.is_struct(kind):
        return _BIT + sum(width(each.type) for each in kind)
    try:
        return _BIT * (int(kind.bit_width) + 1)
    except ValueError:  # texts, lists and maps need an offset for each value
        return _BIT * 33


def as_spark(kind: pa.DataType) -> pa.DataType:
    """Return the type with Spark's types for dates and times. Instants are in UTC in every session.

    The given type may have other units, because the writer need not be Spark.
    """

    def changed(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us", UTC if kind.tz else None)
        if pa.types.is_date(kind):
            return pa.date32()
        if pa.types.is_time(kind):
            return pa.time64("ns")
        return pa.duration("us") if pa.types.is_duration(kind) else kind

    return _mapped(kind, changed)


def in_numbers(kind: pa.DataType) -> pa.DataType:
    """Return a type of `as_spark` with whole numbers in place of dates and times. Values have the
    same bytes in both types.

    Nested fields become nullable, because in a NULL struct of Spark even NOT NULL fields are NULL.
    """

    def changed(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_date32(kind):
            return pa.int32()
        is_long = pa.types.is_temporal(kind)
        return pa.int64() if is_long else kind

    return _mapped(kind, changed, is_loose=True)


def _mapped(
    kind: pa.DataType, changed: Callable[[pa.DataType], pa.DataType], *, is_loose: bool = False
) -> pa.DataType:
    def field(each: pa.Field) -> pa.Field:
        inner = each.with_type(_mapped(each.type, changed, is_loose=is_loose))
        return inner.with_nullable(True) if is_loose else inner

    if pa.types.is_struct(kind):
        return pa.struct([field(each) for each in kind])
    if pa.types.is_map(kind):
        key = field(kind.key_field).with_nullable(False)
        return pa.map_(key.with_name("key"), field(kind.item_field).with_name("value"))
    if pa.types.is_list(kind):
        return pa.list_(field(kind.value_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(field(kind.value_field))
    return changed(kind)


def spark_name(kind: pa.DataType) -> str:
    """Return a type's name in Spark SQL, for texts that users read."""
    if kind == VARIANT:
        return "VARIANT"
    for name, each in _SIMPLE.items():
        if each == kind:
            return _SQL.get(name, name).upper()
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    return "STRUCT" if pa.types.is_struct(kind) else "MAP" if pa.types.is_map(kind) else "ARRAY"


_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
