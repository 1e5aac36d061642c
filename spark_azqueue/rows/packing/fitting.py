"""Converts Arrow columns to the columns of a reader's schema, without changing a value.

Each allocation is subtracted from the message's budget in advance.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_azqueue.service.redaction import shown

from .bounds import Budget, CorruptPack
from .kinds import as_spark, spark_name, width

_EPOCH = datetime.date(1970, 1, 1)
FIRST_DAY = (datetime.date.min - _EPOCH).days
LAST_DAY = (datetime.date.max - _EPOCH).days
DAY_US = 86_400_000_000
FIRST_US = FIRST_DAY * DAY_US
LAST_US = (LAST_DAY + 1) * DAY_US - 1
_TEXTS_AT_ONCE = 8_192


def fitted(rows: pa.RecordBatch, wanted: pa.Schema, budget: Budget) -> pa.RecordBatch:
    """Return these rows with the columns of `wanted`, in their order and types.

    A missing column becomes NULL, and needs no memory. Raises CorruptPack with the column's name,
    and errors of Arrow.

    rows: must be fully validated by Arrow.
    """
    places = places_in(rows.schema.names)
    found: list[pa.Array | None] = []
    for field in wanted:
        place = place_of(field.name, places)
        if place is not None:
            found.append(_fit(rows.column(place), field, field.name, budget))
            continue
        if not field.nullable and rows.num_rows:
            raise CorruptPack(f"the column '{field.name}' is missing, and it is NOT NULL")
        found.append(None)
    return with_nulls(found, wanted, rows.num_rows)


def with_nulls(
    columns: Sequence[pa.Array | None], wanted: pa.Schema, length: int
) -> pa.RecordBatch:
    """Return a record batch of these columns. A column that is None is NULL in all rows.

    All NULL columns share their bytes, because they are made as fields of one struct. Otherwise a
    message of a few bytes could allocate memory for every column of a reader's schema.
    """
    missing = [
        field.with_nullable(True)
        for field, column in zip(wanted, columns, strict=True)
        if column is None
    ]
    nulls = pa.nulls(length, pa.struct(missing))
    made = iter(nulls.field(number) for number in range(len(missing)))
    whole = [next(made) if column is None else column for column in columns]
    return pa.RecordBatch.from_arrays(whole, schema=wanted)


def in_spark(array: Any) -> pa.Array:
    """Convert the values to the type of `as_spark`. Raises ArrowInvalid if a value would change.

    Each part is converted separately, because a cast of Arrow refuses a NULL struct with NOT NULL
    fields.
    """
    kind = as_spark(array.type)
    if kind == array.type:
        return array
    if pa.types.is_struct(kind):
        parts = [in_spark(each) for each in array.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_mask(array))
    if pa.types.is_nested(kind):
        lists = as_pairs(array) if pa.types.is_map(kind) else array
        return _relabelled(lists, kind, in_spark(lists.values))
    return array.cast(kind)


def places_in(names: Iterable[str]) -> dict[str, list[int]]:
    """Return the positions of each name. The keys are names in lower case."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name.lower(), []).append(place)
    return places


def place_of(name: str, places: Mapping[str, list[int]]) -> int | None:
    """Return the position of a column, ignoring case; None if the column is missing.

    Raises CorruptPack if there are two such columns.

    places: result of `places_in`.
    """
    found = places.get(name.lower(), [])
    if len(found) > 1:
        raise CorruptPack(f"it has the column '{name}' twice (capitals do not count)")
    return found[0] if found else None


def _fit(array: pa.Array, field: pa.Field, path: str, budget: Budget, absent: int = 0) -> pa.Array:
    """Convert one column. absent: number of values that are NULL because an outer struct is
    NULL."""
    kind = field.type
    if not field.nullable and array.null_count > absent:
        raise CorruptPack(f"the column '{path}' has a NULL, and it is NOT NULL in the schema")
    budget.take(width(kind) * len(array))
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        return _fit_struct(array, kind, path, budget)
    is_list = pa.types.is_list(array.type) or pa.types.is_large_list(array.type)
    if pa.types.is_list(kind) and is_list:
        return _fit_list(array, kind, path, budget)
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        return _fit_map(array, kind, path, budget)
    return _fit_leaf(array, kind, path, budget)


def _fit_struct(array: Any, kind: Any, path: str, budget: Budget) -> pa.Array:
    places = places_in(each.name for each in array.type)
    given = array.flatten()
    nulls = array.null_count
    parts = []
    for field in kind:
        place = place_of(field.name, places)
        inner = f"{path}.{field.name}"
        if place is None:
            if not field.nullable and len(array) > nulls:
                raise CorruptPack(f"the column '{inner}' is missing, and it is NOT NULL")
            budget.take(width(field.type) * len(array))
            parts.append(pa.nulls(len(array), field.type))
        else:
            parts.append(_fit(given[place], field, inner, budget, nulls))
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=_mask(array))


def _fit_list(array: Any, kind: Any, path: str, budget: Budget) -> pa.Array:
    budget.take(width(kind.value_type) * len(array.values))
    values = _fit(array.flatten(), kind.value_field, f"{path}.element", budget)
    lengths = pc.fill_null(array.value_lengths(), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64())).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    # Drop an empty bitmap of NULLs: with a mask, pyarrow before version 26 refuses offsets that
    # have one.
    offsets = pa.Array.from_buffers(pa.int32(), len(offsets), [None, offsets.buffers()[1]])
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=_mask(array))


def _mask(array: pa.Array) -> pa.Array | None:
    """Return a mask of the array's NULLs; None if the array has no NULL.

    Before version 17, pyarrow crashes on a map whose entries have a mask without NULLs.
    """
    return array.is_null() if array.null_count else None


def _fit_map(array: Any, kind: Any, path: str, budget: Budget) -> pa.Array:
    key, item = kind.key_field, kind.item_field
    given = array.type
    if given.key_type != key.type and pa.types.is_decimal(key.type):
        raise CorruptPack(f"the column '{path}.key' is {shown(given.key_type, 80)}, not {key.type}")
    wanted = pa.struct([key.with_name("key"), item.with_name("value")])
    as_list = pa.list_(pa.field("element", wanted, nullable=False))
    fit = _fit_list(as_pairs(array), as_list, path, budget)
    owners = pc.list_parent_indices(fit)
    keys = pa.table({"owner": owners, "key": fit.flatten().field("key")})
    if keys.group_by(["owner", "key"]).aggregate([]).num_rows < keys.num_rows:
        raise CorruptPack(f"a map of the column '{path}' has a key twice")
    return _relabelled(fit, kind, fit.values)


def as_pairs(array: Any) -> pa.Array:
    """Return an array of maps as an array of lists of structs, with the same bytes."""
    kind = array.type
    fields = [kind.key_field.with_name("key"), kind.item_field.with_name("value")]
    pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=fields)
    return _relabelled(array, pa.list_(pairs.type), pairs)


def _relabelled(lists: Any, kind: pa.DataType, inner: pa.Array) -> pa.Array:
    """Return lists of type `kind` with the offsets of `lists` and the elements `inner`.

    Arrow's `view` would refuse a NULL struct with NOT NULL fields.
    """
    offsets = lists.buffers()[:2]
    return pa.Array.from_buffers(kind, len(lists), offsets, offset=lists.offset, children=[inner])


def _fit_leaf(array: pa.Array, kind: pa.DataType, path: str, budget: Budget) -> pa.Array:
    try:
        fit = _cast(array, kind, budget)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        fit = None
    if fit is None:
        raise CorruptPack(
            f"the column '{path}' is {shown(array.type, 80)} and does not fit {spark_name(kind)}"
        )
    if not _is_within(fit):
        is_time = pa.types.is_time(kind)
        where = "below a microsecond, or of no day" if is_time else "not in the years 1 to 9999 UTC"
        raise CorruptPack(f"the column '{path}' has a {spark_name(kind)} that is {where}")
    return fit


def _cast(array: pa.Array, kind: pa.DataType, budget: Budget) -> pa.Array | None:
    """Convert the values. Return None if there is no conversion between the types.

    Raises an error if a value would change.
    """
    given, types = array.type, pa.types
    for is_text, is_large in (
        (types.is_string, types.is_large_string),
        (types.is_binary, types.is_large_binary),
    ):
        if is_text(kind):
            budget.take(array.nbytes)
            return array.cast(kind) if is_text(given) or is_large(given) else None
    if given == kind:
        return array
    is_number = types.is_integer(given) or types.is_decimal(given)
    if types.is_integer(kind):
        return array.cast(kind) if is_number else None
    if types.is_floating(kind):
        return _as_float(array, kind) if is_number or types.is_floating(given) else None
    if types.is_decimal(kind):
        if types.is_integer(given):
            budget.take(32 * len(array))
            array = array.cast(pa.decimal256(76, kind.scale))
        return array.cast(kind) if is_number else None
    if types.is_timestamp(kind):
        if not types.is_timestamp(given) or bool(given.tz) is not bool(kind.tz):
            return None
        return array.cast(pa.timestamp("us", given.tz)).view(kind)
    for is_sort in (types.is_date, types.is_time, types.is_duration):
        if is_sort(kind):
            return array.cast(kind) if is_sort(given) else None
    return None


def _as_float(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the nearest values. Raises OverflowError for a value that is too large."""
    if pa.types.is_decimal(array.type):
        # A decimal is converted by its digits, because Arrow would divide by a power of ten and
        # round a second time. The array is converted in pieces, because the text of a number needs
        # several times the bytes of the number.
        pieces = [
            array.slice(start, _TEXTS_AT_ONCE).cast(pa.string()).cast(kind)
            for start in range(0, len(array), _TEXTS_AT_ONCE)
        ]
        fit = pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind)
    else:
        fit = array.cast(kind, safe=False)
    was_finite = pc.is_finite(array) if pa.types.is_floating(array.type) else True
    if pc.any(pc.and_(pc.is_inf(fit), was_finite)).as_py():
        raise OverflowError
    return fit


def _is_within(array: pa.Array) -> bool:
    """Return False if a date or time is outside of Python's range, or a time of day outside of a
    day."""
    kind, types = array.type, pa.types
    if types.is_date(kind):
        numbers, first, last = array.view(pa.int32()), FIRST_DAY, LAST_DAY
    elif types.is_timestamp(kind):
        numbers, first, last = array.view(pa.int64()), FIRST_US, LAST_US
    elif types.is_time(kind):
        numbers, first, last = array.view(pa.int64()), 0, DAY_US * 1_000 - 1
        whole = pc.multiply(pc.divide(numbers, 1_000), 1_000)
        if not pc.all(pc.equal(whole, numbers), min_count=0).as_py():
            return False
    else:
        return True
    ends = pc.min_max(numbers)
    return ends["min"].as_py() is None or (
        ends["min"].as_py() >= first and ends["max"].as_py() <= last
    )
