"""The bytes of both formats: what is written is read as it was, and earlier bytes stay readable."""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import struct
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from packed import EVERY_TYPE, arrow_pack, in_base64, json_pack, stream_of

from spark_azqueue.errors import InvalidRow
from spark_azqueue.rows.packing.arrow_format import ArrowFormat
from spark_azqueue.rows.packing.bodies import FORMATS, BodyKind, body_of, rows_of
from spark_azqueue.rows.packing.bounds import PackBounds
from spark_azqueue.rows.packing.json_format import lines_of
from spark_azqueue.rows.packing.splitting import split, stored_pack

GOLDEN = Path(__file__).parent / "golden"
IN_UTC = ArrowFormat.prepared(EVERY_TYPE)
"""Files made by the first release with packs. They stay as they are."""


def packed(name: str, rows: pa.RecordBatch) -> bytes:
    chosen = FORMATS[name]
    return chosen.packed(chosen.prepared(rows))


def golden(name: str) -> str:
    return (GOLDEN / f"every_type.{name}").read_text().strip()


@pytest.mark.parametrize("name", FORMATS)
def test_golden_bytes_are_read(name):
    assert rows_of(golden(name), IN_UTC.schema, PackBounds()) == [IN_UTC]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("as_text", [True, False])
def test_every_type_comes_back(name, as_text):
    data = packed(name, EVERY_TYPE)
    body = in_base64(data) if as_text else data
    assert rows_of(body, IN_UTC.schema, PackBounds()) == [IN_UTC]


def test_arrow_is_a_header_and_a_stream_that_any_arrow_reads():
    data = packed("arrow", EVERY_TYPE)
    assert in_base64(data).startswith("azqpack1")
    (size,) = struct.unpack_from("<Q", data, 6)
    stream = pa.decompress(data[14:], size, codec="zstd")
    (batch,) = pa.ipc.open_stream(stream)
    assert batch == IN_UTC


def test_json_is_gzip_of_the_golden_lines():
    lines = gzip.decompress(packed("json", EVERY_TYPE))
    assert lines == gzip.decompress(base64.b64decode(golden("json")))
    first = json.loads(lines.splitlines()[0], parse_float=Decimal)
    assert first["price"] == Decimal("1.500000000000000000")
    assert first["at"] == "2026-11-27T21:00:00.123456Z"
    assert first["local"] == "2026-11-27T22:00:00.000001"
    assert first["gap"] == "-PT0.000001S"


def test_a_pack_of_slices_has_the_rows_of_the_slice_alone():
    rows = pa.RecordBatch.from_pydict(
        {"n": range(100_000), "t": [[str(n)] for n in range(100_000)]}
    )
    data = packed("arrow", rows.slice(50_003, 10))
    assert len(data) < 1_000
    (found,) = rows_of(data, rows.schema, PackBounds())
    assert found == rows.slice(50_003, 10)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+03:00", "UTC+3"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_zone_of_a_session_is_no_part_of_an_instant(name, zone):
    times = pa.array([0, 1_000_000, None], pa.timestamp("us", zone))
    rows = pa.RecordBatch.from_pydict(
        {"at": times, "in": pa.ListArray.from_arrays(pa.array([0, 2, 3, 3], pa.int32()), times)}
    )
    in_utc = pa.timestamp("us", "UTC")
    wanted = pa.schema({"at": in_utc, "in": pa.list_(in_utc)})
    (found,) = rows_of(packed(name, rows), wanted, PackBounds())
    assert found.column(0).view(pa.int64()).to_pylist() == [0, 1_000_000, None]
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    assert found.column(1).to_pylist() == [
        [epoch, epoch + datetime.timedelta(seconds=1)],
        [None],
        [],
    ]


@pytest.mark.parametrize(
    ("column", "cause"),
    [
        (pa.array([float("nan")]), "nan.*format='arrow'"),
        (pa.array([float("-inf")], pa.float32()), "-inf.*format='arrow'"),
        (pa.array([[1.5, float("inf")]]), "inf.*format='arrow'"),
        (pa.array([2**31 - 1], pa.int32()).view(pa.date32()), "year"),
        (pa.array([2**62], pa.timestamp("us")), "year"),
        (pa.array([b"\xff"]).view(pa.string()), "UTF-8"),
    ],
)
def test_what_json_does_not_hold_is_refused_by_its_column(column, cause):
    rows = pa.RecordBatch.from_pydict({"id": [1], "odd": column})
    with pytest.raises(InvalidRow, match=rf"'odd'.*{cause}.*Convert it"):
        list(lines_of(rows))


UNREADABLE = {
    "a date after 9999": pa.array([2**31 - 1], pa.int32()).view(pa.date32()),
    "the year 10000 in UTC": pa.array([253_402_318_800_000_000]).view(pa.timestamp("us", "UTC")),
    "a time inside": pa.array([[2**62]], pa.list_(pa.timestamp("us"))),
    "not UTF-8": pa.array([b"\xff"]).view(pa.string()),
    "a key twice": pa.array([[("a", 1), ("a", 2)]], pa.map_("string", "int64")),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("what", UNREADABLE)
def test_what_no_reader_takes_is_refused_when_it_is_packed(name, what):
    """Else it would spoil all rows of its message."""
    rows = pa.RecordBatch.from_pydict({"id": [1], "odd": UNREADABLE[what]})
    with pytest.raises(InvalidRow, match=r"'odd[.']"):
        packed(name, rows)


@pytest.mark.parametrize("column", [pa.array(["," * 250_001]), pa.array([[0] * 250_001])])
def test_more_values_than_a_reader_takes_are_no_row_in_json(column):
    rows = pa.RecordBatch.from_pydict({"n": column})
    with pytest.raises(InvalidRow, match="250,000"):
        packed("json", rows)
    assert rows_of(packed("arrow", rows), rows.schema, PackBounds()) == [rows]


def test_many_rows_of_many_values_are_json():
    rows = pa.RecordBatch.from_pydict({"n": [[1] * 100_000] * 7 + [[2]]})
    assert [len(line) for line in lines_of(rows)] == [200_007] * 7 + [9]


def in_null_struct(*inner: pa.Array) -> pa.Array:
    """A struct of what is NOT NULL, and then NULL: as Spark writes it, with NULL inside, too."""
    fields = [pa.field(f"n{number}", each.type, False) for number, each in enumerate(inner)]
    return pa.Array.from_buffers(pa.struct(fields), 2, [pa.py_buffer(b"\1")], children=[*inner])


NULL_STRUCTS = [
    in_null_struct(pa.array([1, None])),
    in_null_struct(pa.array([1, None], pa.timestamp("us", "UTC"))),
    in_null_struct(in_null_struct(pa.array([1, None], pa.date32()))),
    in_null_struct(
        in_null_struct(pa.array([1, None])), pa.array([1, None], pa.timestamp("us", "Asia/Tokyo"))
    ),
]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("struct_", NULL_STRUCTS)
def test_a_null_struct_of_what_is_not_null_comes_back(name, struct_):
    offsets = pa.array([0, 1, 2], pa.int32())
    rows = pa.RecordBatch.from_pydict(
        {
            "s": struct_,
            "l": pa.ListArray.from_arrays(offsets, struct_),
            "m": pa.MapArray.from_arrays(offsets, ["a", "b"], struct_),
        }
    )
    for given in (rows, rows[1:]):
        wanted = ArrowFormat.prepared(given)
        (found,) = rows_of(packed(name, given), wanted.schema, PackBounds())
        assert found.to_pylist() == wanted.to_pylist() == given.to_pylist()


@pytest.mark.parametrize("name", FORMATS)
def test_the_longest_intervals_come_back(name):
    rows = pa.RecordBatch.from_pydict({"n": pa.array([2**63 - 1, 1 - 2**63], pa.duration("us"))})
    (found,) = rows_of(packed(name, rows), rows.schema, PackBounds())
    assert found.column(0).view(pa.int64()).to_pylist() == [2**63 - 1, 1 - 2**63]


@pytest.mark.parametrize(
    ("column", "line"),
    [
        (pa.array([[(1, 2)]], pa.map_("int32", "int8")), '{"n":{"1":2}}'),
        (pa.array([[(b"a", 2)]], pa.map_("binary", "int8")), '{"n":{"YQ==":2}}'),
        (
            pa.array([[(Decimal("1.5"), 2)]], pa.map_(pa.decimal128(2, 1), "int8")),
            '{"n":{"1.5":2}}',
        ),
        (
            pa.array([[(datetime.date(2026, 1, 2), 2)]], pa.map_("date32", "int8")),
            '{"n":{"2026-01-02":2}}',
        ),
    ],
)
def test_keys_that_are_no_texts_are_shown_as_texts(column, line):
    rows = pa.RecordBatch.from_pydict({"n": column})
    assert stored_pack(in_base64(packed("arrow", rows))).lines() == [line]


@pytest.mark.parametrize(
    ("body", "kind", "version"),
    [
        (golden("arrow"), BodyKind.ARROW, "1"),
        (base64.b64decode(golden("arrow")), BodyKind.ARROW, "1"),
        (golden("arrow").encode(), BodyKind.ARROW, "1"),
        (golden("json"), BodyKind.JSON, "1"),
        (json_pack("{}"), BodyKind.JSON, "1"),
        (golden("arrow").replace("azqpack1", "azqpack2"), BodyKind.UNKNOWN, "2"),
        (base64.b64decode("azqpackx" + golden("arrow")[8:]), BodyKind.UNKNOWN, "x"),
        (' {"a":1}', BodyKind.OBJECT, ""),
        (b'{"a":1}', BodyKind.OBJECT, ""),
        ("", BodyKind.OTHER, ""),
        ("azq", BodyKind.OTHER, ""),
        ("[1]", BodyKind.OTHER, ""),
    ],
)
def test_a_body_is_known_by_how_it_begins(body, kind, version):
    found = body_of(body, 2**20)
    assert (found.kind, found.version) == (kind, version)


@pytest.mark.parametrize("name", FORMATS)
def test_a_pack_without_rows_has_none(name):
    assert not sum(map(len, rows_of(packed(name, EVERY_TYPE[:0]), IN_UTC.schema, PackBounds())))


def test_a_writer_with_other_units_is_shown_and_split():
    rows = pa.RecordBatch.from_pydict(
        {
            "at": pa.array([1_000], pa.timestamp("ns", "Asia/Tokyo")),
            "day": pa.array([86_400_000], pa.int64()).view(pa.date64()),
            "clock": pa.array([1], pa.int32()).view(pa.time32("s")),
            "gap": pa.array([2], pa.duration("s")),
            "many": pa.array([["a"]], pa.large_list(pa.large_string())),
        }
    )
    pack = stored_pack(in_base64(arrow_pack(stream_of(rows))))
    assert pack.lines() == [
        '{"at":"1970-01-01T00:00:00.000001Z","day":"1970-01-02","clock":"00:00:01.000000",'
        '"gap":"PT2.000000S","many":["a"]}'
    ]
    (part,) = split(in_base64(arrow_pack(stream_of(rows))))
    assert stored_pack(part).lines() == pack.lines()
    fine = pa.RecordBatch.from_pydict({"at": pa.array([1], pa.timestamp("ns"))})
    with pytest.raises(InvalidRow, match="below a microsecond"):
        stored_pack(in_base64(arrow_pack(stream_of(fine)))).lines()


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_that_no_reader_opens_is_not_packed(name):
    """Its pack is small, and unpack would refuse it."""
    for size, is_read in ((15 * 2**20, True), (17 * 2**20, False)):
        rows = pa.RecordBatch.from_pydict({"t": ["x" * size]})
        if is_read:
            (found,) = rows_of(packed(name, rows), rows.schema, PackBounds())
            assert found == rows
        else:
            with pytest.raises(InvalidRow, match="no reader would open a row"):
                packed(name, rows)


def test_a_row_without_columns_is_one_of_nulls_also_when_it_is_split():
    wanted = pa.schema({"id": pa.int64(), "T": pa.string()})
    rows = ['{"id":1,"t":"a"}', "{}", '{ "other" : 1.50 } ', '{"ID":2}', "{ }"]
    text = in_base64(json_pack(*rows))
    (whole,) = rows_of(text, wanted, PackBounds())

    parts = [rows_of(part, wanted, PackBounds()) for part in split(text)]

    assert len(parts) == len(rows)
    assert [row for (part,) in parts for row in part.to_pylist()] == whole.to_pylist()
    assert b'"other" : 1.50 ' in gzip.decompress(base64.b64decode(split(text)[2]))


def test_parts_of_many_rows_are_read_whatever_they_begin_with():
    rows = ["{}"] * 2_000 + ['{"id":1}']
    wanted = pa.schema({"id": pa.int64()})
    found = [rows_of(part, wanted, PackBounds()) for part in split(in_base64(json_pack(*rows)))]
    assert sum(len(rows) for part in found for rows in part) == len(rows)


def test_what_no_reader_takes_is_split_as_it_is():
    for bad in ('{"id":1,"id":2}', "[1]", "{", '{"id":NaN}'):
        text = in_base64(json_pack("{}", bad))
        assert [gzip.decompress(base64.b64decode(part)) for part in split(text)] == [
            b"{}\n",
            bad.encode() + b"\n",
        ]
    names = json.dumps({f"n{n}": n for n in range(1_001)})
    assert len(split(in_base64(json_pack("{}", names)))) == 2
