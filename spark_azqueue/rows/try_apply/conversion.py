"""Converts rows for a user's function, and the function's result to columns."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .reasons import ResultMismatch

Function = Callable[[Any], Any]
_Change = Callable[[datetime.datetime], datetime.datetime]


def uses_arrow(function: Function) -> bool:
    """Return True if the type hint of the function's parameter is `pyarrow.Table`. The hint may be
    a string."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return False
    hint = parameters[0].annotation if parameters else None
    return hint is pa.Table or str(hint).strip("'\"").rpartition(".")[2] == "Table"


def is_zone(name: str) -> bool:
    """Return True if pyarrow and pandas support this time zone of a session.

    Spark supports more time zones, such as UTC+3.
    """
    try:
        pa.scalar(0, pa.timestamp("us", name)).as_py()
    except Exception:  # noqa: BLE001 - of pyarrow, of zoneinfo or of pytz
        return False
    return True


def called_with_pandas(
    function: Function, rows: pa.RecordBatch, wanted: Sequence[pa.Field], zone: str
) -> list[pa.Array]:
    """Call a function with a pandas DataFrame of these rows, and convert the result.

    Raises the function's errors, ResultMismatch, and errors of pyarrow and pandas.

    wanted: the columns to take from the result, all nullable. zone: time zone of times that have no
    time zone.
    """
    import pandas as pd

    given = _frame(rows, zone)
    index = given.index.copy()
    result = function(given)
    if not isinstance(result, pd.DataFrame):
        raise ResultMismatch(f"the function returned {_kind(result)}, not a pandas DataFrame")
    _check_rows(len(result), rows.num_rows)
    if not result.index.equals(index):
        if not (result.index.is_unique and index.isin(result.index).all()):
            raise ResultMismatch("the result does not have the index of the rows given")
        result = result.loc[index]
    columns = list(result.columns)
    return [
        _from_pandas(result.iloc[:, _place(columns, field.name)], field, zone) for field in wanted
    ]


def called_with_arrow(
    function: Function, rows: pa.RecordBatch, wanted: Sequence[pa.Field], zone: str
) -> list[pa.Array]:
    """Call a function with a pyarrow Table, and convert the result, a Table or a record batch.

    A Table has no index, so the function must return the rows in the order in which it gets them.
    """
    result = function(pa.Table.from_batches([rows]))
    if not isinstance(result, (pa.Table, pa.RecordBatch)):
        raise ResultMismatch(f"the function returned {_kind(result)}, not a pyarrow Table")
    _check_rows(result.num_rows, rows.num_rows)
    names = result.schema.names
    return [_from_arrow(result.column(_place(names, field.name)), field, zone) for field in wanted]


def _kind(result: object) -> str:
    return f"a {type(result).__name__}" if result is not None else "None"


def _check_rows(found: int, given: int) -> None:
    if found != given:
        raise ResultMismatch(f"the result has {found:,} rows for {given:,} given")


def _place(names: Sequence[Any], name: str) -> int:
    places = [place for place, each in enumerate(names) if each == name]
    if len(places) != 1:
        raise ResultMismatch(f"the result has {len(places) or 'no'} columns '{name}'", name)
    return places[0]


def _frame(rows: pa.RecordBatch, zone: str) -> Any:
    """Return a copy of the rows as a pandas DataFrame, as Spark's `mapInPandas` makes it.

    Instants become local times of `zone`, without a time zone.
    """
    table = pa.Table.from_batches([rows])
    frame = table.to_pandas(maps_as_pydicts="lossy", ignore_metadata=True)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type) and field.type.tz:
            local = frame.iloc[:, place].dt.tz_convert(zone).dt.tz_localize(None)
            frame.isetitem(place, local)
        elif _has_instants(field.type):
            values = table.column(place).to_pylist()
            local = [_without_zone(value, field.type, zone) for value in values]
            frame.isetitem(place, _series(local))
    return frame


def _series(values: list[Any]) -> Any:
    import pandas as pd

    return pd.Series(values, dtype="object")


def _from_pandas(column: Any, field: pa.Field, zone: str) -> pa.Array:
    import pandas as pd

    kind = field.type
    try:
        if pa.types.is_date(kind) and pd.api.types.is_datetime64_any_dtype(column.dtype):
            column = column.dt.date
        elif pa.types.is_timestamp(kind) and pd.api.types.is_datetime64_dtype(column.dtype):
            column = column.dt.tz_localize(zone, ambiguous=False) if kind.tz else column
        elif _has_instants(kind) and column.dtype == object:
            column = _series(_each_time(list(column), _with_zone(zone)))
        array = pa.Array.from_pandas(column, type=kind, safe=not pa.types.is_timestamp(kind))
    except Exception as error:
        raise _not_convertible(error, field) from error
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _from_arrow(column: pa.ChunkedArray | pa.Array, field: pa.Field, zone: str) -> pa.Array:
    kind = field.type
    try:
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        array.validate(full=True)
        if pa.types.is_timestamp(array.type) and not array.type.tz and _has_instants(kind):
            array = pc.assume_timezone(array, zone, ambiguous="earliest")
        elif (
            _has_instants(kind) and "timestamp[" in str(array.type) and "tz=" not in str(array.type)
        ):
            raise ValueError(f"{array.type} has times without a time zone")
        return (
            array if array.type == kind else array.cast(kind, safe=not pa.types.is_timestamp(kind))
        )
    except Exception as error:
        raise _not_convertible(error, field) from error


def _not_convertible(error: Exception, field: pa.Field) -> ResultMismatch | MemoryError:
    if isinstance(error, MemoryError):
        return error
    return ResultMismatch(f"column '{field.name}' is not {field.type}: {error}", field.name)


def _has_instants(kind: pa.DataType) -> bool:
    """Return True for Spark's type TIMESTAMP, and for types that contain TIMESTAMP."""
    return "tz=" in str(kind)


def _each_time(value: Any, change: _Change) -> Any:
    """Return the value after applying `change` to every time in it, including nested times."""
    if isinstance(value, datetime.datetime):
        return change(value)
    if isinstance(value, dict):
        return {_each_time(key, change): _each_time(each, change) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple(_each_time(each, change) for each in value)
    if isinstance(value, list) or type(value).__name__ == "ndarray":
        return [_each_time(each, change) for each in value]
    return value


def _without_zone(value: Any, kind: pa.DataType, zone: str) -> Any:
    """Return the value with instants as local times of `zone`, and maps as dictionaries."""
    import pandas as pd

    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return pd.Timestamp(value).tz_convert(zone).tz_localize(None) if kind.tz else value
    if pa.types.is_map(kind):
        return {
            _without_zone(key, kind.key_type, zone): _without_zone(each, kind.item_type, zone)
            for key, each in value
        }
    if pa.types.is_struct(kind):
        return {each.name: _without_zone(value[each.name], each.type, zone) for each in kind}
    if pa.types.is_nested(kind):
        return [_without_zone(each, kind.value_type, zone) for each in value]
    return value


def _with_zone(zone: str) -> _Change:
    import pandas as pd

    def localized(time: datetime.datetime) -> datetime.datetime:
        if time.tzinfo is not None or time is pd.NaT:
            return time
        instant: datetime.datetime = pd.Timestamp(time).tz_localize(zone, ambiguous=False)
        return instant

    return localized
