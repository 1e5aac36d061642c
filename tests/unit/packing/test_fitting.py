"""Which values become which: the same in both formats, and for a message of one plain object.

The table is that of docs/packing.md. What does not fit makes the message corrupt.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from packed import arrow_pack, json_pack, stream_of

from spark_azqueue.rows.packing.bodies import rows_of
from spark_azqueue.rows.packing.bounds import CorruptPack, PackBounds
from spark_azqueue.service.envelopes import BodyEncoding, envelope_text

D = Decimal
NOT_NULL = pa.field("n", pa.int64(), nullable=False)
UTC = pa.timestamp("us", "UTC")
AT = datetime.datetime(2026, 1, 1, 12, 0, 0, 5, datetime.timezone.utc)


def found(body: bytes | str, *fields: pa.Field | tuple[str, pa.DataType]) -> list[dict[str, Any]]:
    wanted = pa.schema(list(fields))
    return [row for batch in rows_of(body, wanted, PackBounds()) for row in batch.to_pylist()]


def in_arrow(*columns: tuple[str, pa.Array]) -> bytes:
    names = [name for name, _ in columns]
    rows = pa.RecordBatch.from_arrays([array for _, array in columns], names=names)
    return arrow_pack(stream_of(rows))


FITTING = [
    (pa.int64(), pa.array([5], pa.int8()), "5", 5),
    (pa.int8(), pa.array([127], pa.uint64()), "127", 127),
    (pa.int8(), pa.array([D("12.00")]), "12.00", 12),
    (pa.float64(), pa.array([3], pa.int32()), "3", 3.0),
    (pa.float64(), pa.array([D("0.1")]), "0.1", 0.1),
    (pa.float64(), pa.array([2**53 + 1]), f"{2**53 + 1}", float(2**53)),
    (pa.float32(), pa.array([0.5]), "0.5", 0.5),
    (pa.decimal128(10, 2), pa.array([7], pa.int64()), "7", D("7.00")),
    (pa.decimal128(38, 30), pa.array([7], pa.int64()), "7", D("7.000000000000000000000000000000")),
    (pa.decimal128(10, 2), pa.array([D("1.5000")]), "1.5000", D("1.50")),
    (pa.string(), pa.array(["a"], pa.large_string()), '"a"', "a"),
    (pa.binary(), pa.array([b"a"], pa.large_binary()), '"YQ=="', b"a"),
    (UTC, pa.array([AT], pa.timestamp("ns", "UTC")), '"2026-01-01T12:00:00.000005000Z"', AT),
    (
        UTC,
        pa.array([AT], pa.timestamp("us", "Asia/Tokyo")),
        '"2026-01-01 21:00:00.000005+09:00"',
        AT,
    ),
    (
        pa.timestamp("us"),
        pa.array([AT.replace(tzinfo=None)], pa.timestamp("us")),
        '"2026-01-01T12:00:00.000005"',
        AT.replace(tzinfo=None),
    ),
    (pa.list_(pa.int64()), pa.array([[1, None]], pa.large_list(pa.int8())), "[1,null]", [1, None]),
    (
        pa.struct({"a": pa.int64(), "b": pa.string()}),
        pa.array([{"A": 1, "more": 2}]),
        '{"A":1,"more":2}',
        {"a": 1, "b": None},
    ),
]


@pytest.mark.parametrize(("kind", "array", "text", "value"), FITTING)
def test_a_value_that_fits_is_taken(kind, array, text, value):
    assert found(in_arrow(("n", array)), ("n", kind)) == [{"n": value}]
    assert found(json_pack(f'{{"n":{text}}}'), ("n", kind)) == [{"n": value}]
    assert found(f'{{"n":{text}}}', ("n", kind)) == [{"n": value}]


MISFITS = [
    (pa.int8(), pa.array([128]), "128"),
    (pa.int64(), pa.array([2**63], pa.uint64()), f"{2**63}"),
    (pa.int64(), pa.array([D("1.5")]), "1.5"),
    (pa.int64(), pa.array([True]), "true"),
    (pa.int64(), pa.array(["1"]), '"1"'),
    (pa.bool_(), pa.array([1]), "1"),
    (pa.float32(), pa.array([1e39]), "1e39"),
    (pa.decimal128(4, 2), pa.array([100], pa.int64()), "100"),
    (pa.decimal128(4, 2), pa.array([D("1.255")]), "1.255"),
    (pa.string(), pa.array([1]), "1"),
    (pa.string(), pa.array([{"a": 1}]), '{"a":1}'),
    (pa.binary(), pa.array(["a"]), '"a"'),
    (UTC, pa.array([AT.replace(tzinfo=None)]), '"2026-01-01T12:00:00"'),
    (pa.timestamp("us"), pa.array([AT]), '"2026-01-01T12:00:00Z"'),
    (UTC, pa.array([1], pa.timestamp("ns", "UTC")), '"2026-01-01T12:00:00.000000001Z"'),
    (UTC, pa.array([2**62], UTC), '"0001-01-01T00:00:00+01:00"'),
    (pa.date32(), pa.array([2**31 - 1], pa.int32()).view(pa.date32()), '"2026-02-30"'),
    (pa.time64("ns"), pa.array([1], pa.time64("ns")), '"12:00:00.0000001"'),
    (pa.time64("ns"), pa.array([10**15]).view(pa.time64("ns")), '"24:00:01"'),
    (pa.duration("us"), pa.array([1], pa.duration("ns")), '"PT1H"'),
    (pa.list_(pa.int64()), pa.array([{"a": 1}]), '{"a":1}'),
    (pa.struct({"a": pa.int64()}), pa.array([[1]]), "[1]"),
    (pa.list_(pa.field("element", pa.int64(), nullable=False)), pa.array([[None, 1]]), "[null,1]"),
    (pa.struct([NOT_NULL]), pa.array([{"n": None, "b": 1}]), '{"n":null}'),
    (pa.struct([NOT_NULL]), pa.array([{"b": 1}]), '{"b":1}'),
    (
        pa.map_(pa.string(), pa.int8()),
        pa.array([[("a", 128)]], pa.map_("string", "int64")),
        '{"a":128}',
    ),
]


@pytest.mark.parametrize(("kind", "array", "text"), MISFITS)
def test_a_value_that_does_not_fit_makes_the_message_corrupt(kind, array, text):
    good = pa.array([None], array.type)
    for body in (
        in_arrow(("n", pa.concat_arrays([good, array]))),
        json_pack('{"n":null}', f'{{"n":{text}}}'),
        f'{{"n":{text}}}',
    ):
        with pytest.raises(CorruptPack, match=r"'n[.']|ArrowInvalid"):
            found(body, ("n", kind))


def test_a_missing_column_is_null_and_a_further_one_left_out():
    for body in (in_arrow(("n", pa.array([1])), ("x", pa.array([2]))), '{"n":1,"x":2}'):
        assert found(body, ("n", pa.int64()), ("m", pa.string())) == [{"n": 1, "m": None}]


@pytest.mark.parametrize("is_there", [True, False])
def test_not_null_is_held(is_there):
    columns = [("m", pa.array([1]))] + [("n", pa.array([None], pa.int64()))] * is_there
    for body in (in_arrow(*columns), '{"m":1,"n":null}' if is_there else '{"m":1}'):
        with pytest.raises(CorruptPack, match="NOT NULL"):
            found(body, ("m", pa.int64()), NOT_NULL)


def test_a_null_struct_may_hold_what_is_not_null():
    kind = pa.struct([NOT_NULL])
    body = in_arrow(("s", pa.array([None, {"n": 1}], kind)))
    assert found(body, ("s", kind)) == [{"s": None}, {"s": {"n": 1}}]


def test_a_null_list_with_elements_behind_it_has_none():
    """Arrow allows a NULL with a range of elements: they are no part of the rows."""
    offsets = pa.array([0, 2, 3], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array([1, 2, 3]), mask=pa.array([True, False]))
    assert found(in_arrow(("n", lists)), ("n", pa.list_(pa.int64()))) == [{"n": None}, {"n": [3]}]
    keyed = pa.MapArray.from_arrays(offsets, ["a", "a", "b"], [1, 2, 3])
    spoilt = pa.Array.from_buffers(
        keyed.type,
        2,
        [pa.py_buffer(b"\2"), keyed.buffers()[1]],
        children=[
            keyed.view(pa.list_(pa.struct([keyed.type.key_field, keyed.type.item_field]))).values
        ],
    )
    assert found(in_arrow(("n", spoilt)), ("n", keyed.type)) == [{"n": None}, {"n": [("b", 3)]}]


def test_none_of_the_columns_is_no_row():
    for body in (in_arrow(("x", pa.array([1]))), json_pack('{"x":1}', "{}"), '{"x":1}', "{}"):
        with pytest.raises(CorruptPack, match="none of the columns"):
            found(body, ("n", pa.int64()))


EVENT = {"id": "1", "eventType": "a", "subject": "s", "eventTime": "2026-01-01T00:00:00Z"}
CLOUD_EVENT = {"id": "1", "source": "s", "type": "t", "specversion": "1.0", "data": {}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('{"azqueue-blob":1,"container":"c","name":"n","size":1,"id":1}', "largeBody=blob"),
        (envelope_text("q", "id", "r", "{}", BodyEncoding.TEXT), "redrive"),
        (json.dumps(EVENT), "Event Grid"),
        (json.dumps(CLOUD_EVENT), "CloudEvent"),
        ("[]", "neither"),
        ("<QueueMessage>", "neither"),
        ("", "neither"),
        ("azqpack9AAAA", "version '9'"),
        ("azqpack1!!!!", "read"),
        (None, "NULL"),
        (b"\xff\xfe", "read"),
    ],
)
def test_what_is_no_row_is_refused_by_name(body, reason):
    with pytest.raises(CorruptPack, match=re.escape(reason)):
        found(body, ("id", pa.string()), ("queue", pa.string()), ("message_id", pa.string()))


def test_an_event_is_a_row_for_a_schema_that_names_all_of_it():
    fields = [(name, pa.string()) for name in EVENT]
    assert found(json.dumps(EVENT), *fields) == [EVENT]


def test_an_object_may_be_written_over_several_lines():
    assert found(json.dumps({"n": 1}, indent=2), ("n", pa.int64())) == [{"n": 1}]


def test_a_reason_quotes_no_value():
    with pytest.raises(CorruptPack) as raised:
        found('{"n":"secret"}', ("n", pa.int64()))
    assert "secret" not in str(raised.value)


def nearest(number: D, kind: pa.DataType) -> float:
    """The nearest one by exact distances; of two that are as near, the even one."""
    digits, code = ("d", "q") if kind == pa.float64() else ("f", "i")
    (bits,) = struct.unpack(f"<{code}", struct.pack(f"<{digits}", float(number)))
    near = []
    for step in (-1, 0, 1):
        (each,) = struct.unpack(f"<{digits}", struct.pack(f"<{code}", bits + step))
        near.append((abs(Fraction(each) - Fraction(number)), bits + step & 1, each))
    return float(min(near)[2])


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_decimal_becomes_the_nearest_float_in_both_formats(kind: pa.DataType) -> None:
    random_ = random.Random(14)
    numbers = [D(random_.randrange(1, 10**10)).scaleb(-2) for _ in range(9_000)]
    expected = [nearest(number, kind) for number in numbers]
    for body in (
        in_arrow(("n", pa.array([*numbers, None], pa.decimal128(10, 2)))),
        json_pack(*(f'{{"n":{number}}}' for number in [*numbers, "null"])),
    ):
        assert [row["n"] for row in found(body, ("n", kind))] == [*expected, None]


@pytest.mark.parametrize("side", [-1, 1])
def test_a_number_beside_the_middle_of_two_floats_is_rounded_once(side: int) -> None:
    """As a DOUBLE it would be in the middle, and its last bit decide."""
    random_ = random.Random(15)
    lines, expected = [], []
    for _ in range(200):
        bits = random_.randrange(0x3F800000, 0x4F800000)
        low, high = (struct.unpack("<f", struct.pack("<I", each))[0] for each in (bits, bits + 1))
        number = (D(low) + D(high)) / 2 + side * D(1).scaleb(-18)
        lines.append(f'{{"n":{-number:f}}}')
        expected.append(-(high if side > 0 else low))
    assert [row["n"] for row in found(json_pack(*lines), ("n", pa.float32()))] == expected
