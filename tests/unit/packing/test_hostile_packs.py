"""Bodies come from anybody: each hostile one is corrupt, and within its bounds."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hostile_packs import INT, fuzzed, hostile, opened
from hypothesis import given
from hypothesis import strategies as st
from packed import EVERY_TYPE, arrow_pack, in_base64, json_pack, stream_of
from shared_tables import END, shared_batch_metadata, shared_schema

from spark_azqueue.rows.packing.arrow_format import ArrowFormat, open_arrow
from spark_azqueue.rows.packing.bodies import FORMATS, rows_of
from spark_azqueue.rows.packing.bounds import CorruptPack, PackBounds
from spark_azqueue.rows.packing.framing import check_stream
from spark_azqueue.rows.packing.opening import UnpackWork

HOSTILE = {name: (data, wanted) for name, data, wanted in hostile() if len(data) < 2**20}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_corrupt(name):
    data, wanted = HOSTILE[name]
    for body in (data, in_base64(data)):
        with pytest.raises(CorruptPack) as raised:
            rows_of(body, wanted, PackBounds())
        assert "cannot be read (Memory" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("compressed inside", "compressed inside"),
        ("rows of nothing", "max_rows"),
        ("rows without columns", "max_rows"),
        ("list of empty structs", "of a type that no pack has"),
        ("fields of one name", "fields and metadata"),
        ("fields of one table", "fields and metadata"),
        ("structs of one table", "fields and metadata"),
        ("structs of one long name", "fields and metadata"),
        ("metadata of one text", "fields and metadata"),
        ("metadata of a batch", "fields and metadata"),
        ("thousands of members", "1,024 members"),
        ("small numbers asked as large ones", "max_bytes"),
        ("deep extension", "of an extension type"),
        ("deep extension inside", "of an extension type"),
        ("deep extension of a dictionary", "of an extension type"),
        ("extension", "of an extension type"),
        ("dictionary", "other than a schema"),
        ("gzip of 128 MiB", "max_bytes"),
        ("too many lines", "max_rows"),
        ("millions of values", "250,000 values"),
    ],
)
def test_it_is_refused_before_it_is_opened(name, reason):
    with pytest.raises(CorruptPack, match=reason):
        rows_of(*HOSTILE[name], PackBounds())


@pytest.mark.parametrize("wanted", [INT, None], ids=["some columns", "all columns"])
def test_no_byte_of_a_sender_reaches_an_extension_type(wanted):
    """The worker may have registered any."""
    brought = []

    class Registered(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.int64(), "azqueue.test")

        def __arrow_ext_serialize__(self):
            return b"bytes of a sender"

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type, serialized):
            brought.append(serialized)
            return cls()

    rows = pa.RecordBatch.from_arrays([pa.array([1])], ["n"])
    column = pa.ExtensionArray.from_storage(Registered(), rows.column(0))
    data = arrow_pack(stream_of(pa.RecordBatch.from_arrays([column], ["n"])))
    pa.register_extension_type(Registered())
    try:
        with pytest.raises(CorruptPack, match="of an extension type"):
            open_arrow(data, wanted, PackBounds())
    finally:
        pa.unregister_extension_type("azqueue.test")
    assert brought == []


def test_other_metadata_is_passed_over():
    schema = pa.schema([pa.field("n", pa.int64(), metadata={"comment": "ARROW:extension:name"})])
    rows = pa.RecordBatch.from_arrays([pa.array([1])], schema=schema)
    stream = stream_of(rows, schema=schema.with_metadata({"pandas": "{}"}))
    assert [*rows_of(arrow_pack(stream), INT, PackBounds())] == [rows]


def test_the_same_bytes_in_sixteen_columns_are_counted_sixteen_times():
    """Also where all columns are read."""
    data, wanted = HOSTILE["same bytes sixteen times"]
    for columns in (wanted, None):
        with pytest.raises(CorruptPack, match="max_bytes"):
            open_arrow(data, columns, PackBounds())


@pytest.mark.parametrize("name", ["arrow", "json"])
def test_a_column_that_is_missing_costs_nothing(name):
    """A reader may know more columns than the sender: they share the bytes of their NULLs."""
    rows = pa.RecordBatch.from_pydict({"n": pa.array(range(100_000))})
    more = pa.struct({"s": pa.string(), "m": pa.map_(pa.string(), pa.list_(pa.int64()))})
    wanted = pa.schema(
        {"n": pa.int64(), **{f"c{n}": pa.decimal128(38, 0) for n in range(500)}, "more": more}
    )
    data = FORMATS[name].packed(FORMATS[name].prepared(rows))
    before = pa.total_allocated_bytes()
    found = rows_of(data, wanted, PackBounds())
    assert pa.total_allocated_bytes() - before < 8 * 2**20
    assert [n for each in found for n in each["n"].to_pylist()] == [*range(100_000)]
    assert all(each.column(c).null_count == each.num_rows for each in found for c in (1, 500, 501))

    work = UnpackWork((), wanted, False, True, PackBounds(), 10_000)
    bodies = pa.RecordBatch.from_pydict({"body": [data]})
    given_ = [(each.num_rows, each.nbytes) for each in work.on([bodies])]
    assert sum(count for count, _ in given_) == 100_000
    assert max(size for _, size in given_) < 8 * 2**20


def test_what_is_written_by_hand_is_read_within_the_bound():
    """Else its hostile sisters would show nothing."""
    schema = shared_schema([1, 2], b"n" * 100, pairs=3)
    assert pa.ipc.open_stream(schema).read_all().num_rows == 0
    assert open_arrow(arrow_pack(schema), None, PackBounds()) == []
    batch = shared_batch_metadata(shared_schema([1])[: -len(END)], 3, b"n")
    assert check_stream(memoryview(batch), 10) == 0


def test_a_reason_has_no_long_names_and_nothing_that_a_terminal_obeys():
    odd = "\x1b[31m\n" + "x" * 100_000
    bodies = [
        (arrow_pack(stream_of(pa.RecordBatch.from_pydict({odd: pa.nulls(1)}))), None),
        (arrow_pack(stream_of(pa.RecordBatch.from_pydict({"n": pa.array([{odd: 1}])}))), INT),
    ]
    for data, wanted in bodies:
        with pytest.raises(CorruptPack) as raised:
            open_arrow(data, wanted, PackBounds())
        assert str(raised.value).isprintable()
        assert len(str(raised.value)) < 300


def test_bytes_have_a_bound_as_texts_have():
    """Packed, they are longer than opened."""
    body = json_pack('{"n":1}')
    for each in (body, in_base64(body)):
        with pytest.raises(CorruptPack, match="larger than max_bytes=10"):
            rows_of(each, INT, PackBounds(max_bytes=10))


def test_columns_take_their_time_once_however_many_batches_there_are():
    """A thousand batches of nothing are 400 bytes, and took 26 s for a schema of 2,000 columns."""
    batches = [pa.RecordBatch.from_pydict({"n": pa.array([n])}) for n in range(9)]
    data = arrow_pack(stream_of(*[each for batch in batches for each in (batch, batch[:0])]))
    wanted = pa.schema({"n": pa.int64(), "m": pa.string()})
    (found,) = rows_of(data, wanted, PackBounds())
    assert found.column(0).to_pylist() == [*range(9)]
    assert open_arrow(data, None, PackBounds()) == batches
    assert rows_of(arrow_pack(stream_of(*[batches[0][:0]] * 1_000)), wanted, PackBounds()) == []


@given(st.integers(0, 2**63))
def test_a_damaged_pack_has_rows_that_are_valid_or_is_corrupt(seed):
    assert opened(fuzzed(random.Random(seed), EVERY_TYPE), ArrowFormat.prepared(EVERY_TYPE).schema)
