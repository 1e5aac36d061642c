"""What a task gives for the batches of Spark: each row once, in order, its columns untouched."""

from __future__ import annotations

import datetime
import functools
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from applied import applied, batches, work

from spark_azqueue.errors import FunctionFailed
from spark_azqueue.rows.try_apply.conversion import uses_arrow

UTC = datetime.timezone.utc
INSTANT = pa.timestamp("us", "Europe/Berlin")
NUMBERS = {"n": list(range(1_000))}
TYPES = {"twice": pa.int64()}


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    if (frame["n"] % 100 == 7).any():
        raise ValueError("seven")
    return pd.DataFrame({"twice": frame["n"] * 2})


def twice_in_arrow(table: pa.Table) -> pa.Table:
    return pa.table(twice(table.to_pandas()))


class Scorer:
    def __call__(self, table: pa.Table) -> pa.Table:
        return table

    def method(self, table: pa.Table) -> pa.Table:
        return table


def without_future(hint: object):
    def function(rows):
        return rows

    function.__annotations__ = {"rows": hint}
    return function


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (twice, False),
        (twice_in_arrow, True),
        (Scorer(), True),
        (Scorer().method, True),
        (functools.partial(twice_in_arrow), True),
        (without_future(pa.Table), True),
        (without_future("pyarrow.Table"), True),
        (without_future("'pa.Table'"), True),
        (without_future(pd.DataFrame), False),
        (without_future("TableLike"), False),
        (lambda rows: rows, False),
        (lambda: None, False),
        (max, False),
    ],
)
def test_a_type_hint_says_that_a_function_takes_arrow(function, expected: bool) -> None:
    assert uses_arrow(function) is expected


@pytest.mark.parametrize(("function", "arrow"), [(twice, False), (twice_in_arrow, True)])
@pytest.mark.parametrize(("rows", "batch_rows"), [(10_000, 256), (300, 128), (7, 3), (1, 1)])
def test_each_row_comes_once_in_order_and_ten_have_a_reason(
    function, arrow, rows, batch_rows
) -> None:
    table = applied(function, NUMBERS, TYPES, rows, arrow=arrow, batch_rows=batch_rows)

    assert table.schema.names == ["n", "twice", "error"]
    assert table["n"].to_pylist() == NUMBERS["n"]
    for n, double, error in zip(*(column.to_pylist() for column in table.columns), strict=True):
        if n % 100 == 7:
            assert (double, error[:17]) == (None, "ValueError: seven")
        else:
            assert (double, error) == (2 * n, None)


def test_no_batch_and_an_empty_one() -> None:
    empty = next(batches({"n": pa.array([1], pa.int64())}, TYPES)).slice(0, 0)

    assert list(work(twice, ["n"], TYPES).on([])) == []
    assert list(work(twice, ["n"], TYPES).on([empty])) == []


def of(text: str) -> object:
    """What a function returns for a frame with this text in its first row."""
    return {
        "none": lambda frame: None,
        "series": lambda frame: frame["n"],
        "generator": lambda frame: (row for row in frame["n"]),
        "short": lambda frame: twice(frame).head(0),
        "long": lambda frame: pd.concat([twice(frame)] * 2, ignore_index=True),
        "twice the index": lambda frame: twice(frame).set_axis([0] * len(frame)),
        "another index": lambda frame: twice(frame).set_axis(frame.index + 1),
        "no column": lambda frame: twice(frame).rename(columns={"twice": "Twice"}),
        "column twice": lambda frame: pd.concat([twice(frame)] * 2, axis=1),
        "text": lambda frame: pd.DataFrame({"twice": ["x"] * len(frame)}),
        "too large": lambda frame: twice(frame) + 2**40,
        "a fraction": lambda frame: twice(frame) + 0.5,
    }[text]


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ("none", "the function returned None, not a pandas DataFrame"),
        ("series", "the function returned a Series, not a pandas DataFrame"),
        ("generator", "the function returned a generator, not a pandas DataFrame"),
        ("short", "the result has 0 rows for 1 given"),
        ("long", "the result has 2 rows for 1 given"),
        ("another index", "the result does not have the index of the rows given"),
        ("no column", "the result has no columns 'twice'"),
        ("column twice", "the result has 2 columns 'twice'"),
        ("text", "column 'twice' is not int32: "),
        ("too large", "column 'twice' is not int32: "),
        ("a fraction", "column 'twice' is not int32: "),
    ],
)
def test_a_result_that_is_not_what_was_asked_for_costs_its_row(lie: str, reason: str) -> None:
    def lies(frame: pd.DataFrame) -> object:
        return of(lie)(frame) if 5 in set(frame["n"]) else twice(frame)

    table = applied(lies, {"n": [1, 2, 3, 4, 5, 6]}, {"twice": pa.int32()})

    assert table["twice"].to_pylist() == [2, 4, 6, 8, None, 12]
    (error,) = filter(None, table["error"].to_pylist())
    assert error.startswith(f"ResultMismatch: {reason}")


def test_an_index_with_one_label_twice_is_refused() -> None:
    sizes = []

    def labelled(frame: pd.DataFrame) -> object:
        sizes.append(len(frame))
        return of("twice the index")(frame)

    table = applied(labelled, {"n": [1, 2]}, TYPES)

    assert sizes == [2, 1, 1], "alone, each has the index of its row"
    assert table["twice"].to_pylist() == [2, 4]


def test_rows_in_another_order_go_back_to_their_rows() -> None:
    table = applied(lambda frame: twice(frame).sort_index(ascending=False), {"n": [1, 2, 3]}, TYPES)

    assert table["twice"].to_pylist() == [2, 4, 6]


def test_a_text_that_is_no_unicode_costs_its_row() -> None:
    def texts(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"x": pd.Series(["\ud800"] * len(frame), dtype=object)})

    table = applied(texts, {"n": [1]}, {"x": pa.string()})

    assert table["error"].to_pylist()[0].startswith("ResultMismatch: column 'x' is not string: ")


def test_nan_is_null_from_pandas_and_nan_from_arrow() -> None:
    def nans(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"x": [float("nan")] * len(frame)})

    def nans_of_arrow(table: pa.Table) -> pa.Table:
        return pa.table({"x": [float("nan")] * table.num_rows})

    pandas = applied(nans, {"n": [1]}, {"x": pa.float64()})
    arrow = applied(nans_of_arrow, {"n": [1]}, {"x": pa.float64()}, arrow=True)
    assert pandas["x"].to_pylist() == [None]
    assert pandas["error"].to_pylist() == arrow["error"].to_pylist() == [None]
    assert arrow["x"].to_pylist()[0] != arrow["x"].to_pylist()[0]


EVERYTHING = pa.table(
    {
        "big": pa.array([2**53 + 1, None]),
        "nan": pa.array([float("nan"), None]),
        "price": pa.array([Decimal("1.250"), None], pa.decimal128(20, 3)),
        "raw": pa.array([b"\xff\x00", None]),
        "list": pa.array([[1, None], None], pa.list_(pa.int64())),
        "whole": pa.array([[1, 2], [3]], pa.list_(pa.int64())),
        "number": pa.array([1, 2]),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
        "time": pa.array([datetime.datetime(9999, 12, 31, 22, tzinfo=UTC), None], INSTANT),
        "day": pa.array([datetime.date(1, 1, 1), None]),
        "deep": pa.array(
            [{"list": [{"at": datetime.datetime(2026, 7, 1, 10, tzinfo=UTC)}]}, None],
            pa.struct({"list": pa.list_(pa.struct({"at": INSTANT}))}),
        ),
        "times": pa.array(
            [[("k", datetime.datetime(2026, 7, 1, 10, tzinfo=UTC))], None],
            pa.map_(pa.string(), INSTANT),
        ),
    }
)


def spoiling(frame: pd.DataFrame) -> pd.DataFrame:
    """Writes into all that it gets."""
    frame["n"] = range(len(frame))
    frame.loc[:, "number"] = 0
    for values in [*frame["list"], *frame["whole"]]:
        if values is not None and values.flags.writeable:
            values[:] = 0
    frame.loc[:, "raw"] = b"spoiled"
    del frame["nan"]
    return pd.DataFrame({"x": [1] * len(frame)})


def test_columns_pass_untouched_whatever_the_function_does_to_its_copy() -> None:
    columns = dict(zip(EVERYTHING.schema.names, EVERYTHING.columns, strict=True))
    before = EVERYTHING.to_pylist()

    table = applied(spoiling, columns, {"x": pa.int32()}, batch_rows=1)

    assert table["error"].to_pylist() == [None, None]
    kept = table.drop_columns(["x", "error"])
    assert kept.schema == EVERYTHING.schema
    assert str(kept.to_pylist()) == str(before)


def test_what_a_function_gets_comes_back_as_it_was() -> None:
    """Also instants, which pandas gets as times of the session's zone, as by mapInPandas."""
    seen = []

    def same(frame: pd.DataFrame) -> pd.DataFrame:
        seen.append(frame)
        return frame.rename(columns=lambda name: f"new {name}")

    columns = dict(zip(EVERYTHING.schema.names, EVERYTHING.columns, strict=True))
    columns = {name: column.slice(0, 1) for name, column in columns.items()}
    wanted = {f"new {field.name}": field.type for field in EVERYTHING.schema}
    table = applied(same, columns, wanted)

    assert table["error"].to_pylist() == [None]
    for name in set(columns) - {"nan"}:
        assert table[f"new {name}"].to_pylist() == table[name].to_pylist(), name
    (frame,) = seen
    assert frame["time"][0] == pd.Timestamp("9999-12-31 23:00")
    assert frame["deep"][0] == {"list": [{"at": pd.Timestamp("2026-07-01 12:00")}]}
    assert frame["times"][0] == {"k": pd.Timestamp("2026-07-01 12:00")}
    assert frame["map"][0] == {"k": 1}


@pytest.mark.parametrize(
    "times",
    [
        pd.Series(pd.to_datetime(["2026-07-01 12:00:00.000000001"])),
        pd.Series(pd.to_datetime(["2026-07-01 10:00Z"])),
        pd.Series([datetime.datetime(2026, 7, 1, 12)], dtype=object),
        pd.Series([datetime.datetime(2026, 7, 1, 10, tzinfo=UTC)], dtype=object),
    ],
)
def test_a_time_without_a_zone_is_of_the_sessions(times: pd.Series) -> None:
    table = applied(lambda frame: pd.DataFrame({"x": times}), {"n": [1]}, {"x": INSTANT})

    assert table["x"].to_pylist() == [datetime.datetime(2026, 7, 1, 10, tzinfo=UTC)]


def test_times_of_arrow() -> None:
    local = pa.array([datetime.datetime(2026, 7, 1, 12)])

    one = applied(lambda t: pa.table({"x": local}), {"n": [1]}, {"x": INSTANT}, arrow=True)
    nested = pa.array([[datetime.datetime(2026, 7, 1, 12)]])
    many = applied(
        lambda t: pa.table({"x": nested}), {"n": [1]}, {"x": pa.list_(INSTANT)}, arrow=True
    )
    assert one["x"].to_pylist() == [datetime.datetime(2026, 7, 1, 10, tzinfo=UTC)]
    assert "times without a time zone" in many["error"].to_pylist()[0]


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pd.Series(["a", None], dtype="category"), pa.string(), ["a", None]),
        (pd.Series([3, 1], dtype="category"), pa.int64(), [3, 1]),
        (pd.Series([1, None], dtype="Int64"), pa.int16(), [1, None]),
        (pd.Series([1.0, None]), pa.int64(), [1, None]),
        (pd.Series(["a", None], dtype="string"), pa.large_string(), ["a", None]),
        (pd.Series([1, None], dtype=object), pa.int64(), [1, None]),
        (
            pd.Series(pd.to_datetime(["2026-07-01 12:00", None])),
            pa.date32(),
            [datetime.date(2026, 7, 1), None],
        ),
        (pd.Series([pd.Timedelta("1s"), None]), pa.duration("us"), [pd.Timedelta("1s"), None]),
        (pd.Series([{"a": 1}, None]), pa.struct({"a": pa.int8()}), [{"a": 1}, None]),
        (pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64())), pa.int32(), [1, None]),
    ],
)
def test_dtypes_of_pandas(column: pd.Series, kind: pa.DataType, values: list) -> None:
    table = applied(lambda frame: pd.DataFrame({"x": column}), {"n": [1, 2]}, {"x": kind})

    assert table["error"].to_pylist() == [None, None]
    assert table["x"].to_pylist() == values


def test_an_array_that_lies_about_its_bytes_costs_its_row() -> None:
    lie = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")]
    )
    table = applied(lambda t: pa.table({"x": lie}), {"n": [1]}, {"x": pa.string()}, arrow=True)

    assert "Invalid UTF8" in table["error"].to_pylist()[0]


def test_an_outage_ends_the_task_before_its_rows_leave_it() -> None:
    """Also with pieces of a row, of which many have ended before it shows."""

    def until_500(frame: pd.DataFrame) -> pd.DataFrame:
        if (frame["n"] >= 500).any():
            raise TimeoutError("no answer")
        return pd.DataFrame({"twice": frame["n"] * 2})

    for batch_rows in (1, 10, 256):
        left: list[str | None] = []
        task = work(until_500, ["n"], TYPES, batch_rows=batch_rows)
        reasons = (batch.column(2).to_pylist() for batch in task.on(batches(NUMBERS, TYPES)))
        with pytest.raises(FunctionFailed, match="the cause is not one row"):
            left.extend(reason for batch in reasons for reason in batch)
        assert set(left) <= {None}


def test_a_missing_package_ends_the_task() -> None:
    def late(frame: pd.DataFrame) -> pd.DataFrame:
        import a_package_that_is_not_there

        return a_package_that_is_not_there.score(frame)

    with pytest.raises(ModuleNotFoundError):
        applied(late, {"n": [1]}, TYPES)


def test_a_column_of_a_case_and_a_name_with_a_dot() -> None:
    def named(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"x": frame["a.b"] + frame["A.B"]})

    assert applied(named, {"a.b": [1], "A.B": [2]}, {"x": pa.int64()})["x"].to_pylist() == [3]
