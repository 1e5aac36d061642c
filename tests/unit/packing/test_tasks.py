"""What tasks of `pack` and `unpack` do with the record batches that Spark gives them."""

from __future__ import annotations

import base64
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packed import json_pack

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.rows.packing.bodies import FORMATS, FULL_BYTES, rows_of
from spark_azqueue.rows.packing.bounds import PackBounds
from spark_azqueue.rows.packing.filling import Filling, PackWork
from spark_azqueue.rows.packing.opening import UnpackWork

WANTED = pa.schema({"id": pa.int64(), "text": pa.string()})
ROWS_AT_MOST = 100_000


def batch(first: int, texts: list[str], *routes: list[object]) -> pa.RecordBatch:
    columns = [range(first, first + len(texts)), texts, *routes]
    return pa.RecordBatch.from_pydict({f"_{n}": values for n, values in enumerate(columns)})


def pack_work(name: str = "arrow", max_rows: int = ROWS_AT_MOST) -> PackWork:
    return PackWork(name, True, ("id", "text"), max_rows)


def unpack_work(**more: object) -> UnpackWork:
    defaults = {"keeps_body": False, "fails": True, "bounds": PackBounds(), "batch_rows": 10_000}
    return UnpackWork(("message_id",), WANTED, **defaults | more)


def messages(bodies: list[str | bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_0": [f"m{n}" for n in range(len(bodies))], "_1": bodies})


def bodies_of(batches: object) -> list[str]:
    return [body for each in batches for body in each.column(0).to_pylist()]


def opened(bodies: list[str], **more: object) -> list[tuple[object, ...]]:
    return [
        tuple(row.values())
        for each in unpack_work(**more).on([messages(bodies)])
        for row in each.to_pylist()
    ]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=30)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 20, 500, 9_000, 60_000]), max_size=60),
    cuts=st.integers(1, 20),
    max_rows=st.sampled_from([1, 7, ROWS_AT_MOST]),
    seed=st.integers(0, 9),
)
def test_each_row_once_in_its_order_whatever_their_sizes(name, sizes, cuts, max_rows, seed):
    random_ = random.Random(seed)
    texts = [random_.randbytes(size).hex() for size in sizes]
    given_ = [batch(n, texts[n : n + cuts]) for n in range(0, len(texts), cuts)]
    bodies = bodies_of(pack_work(name, max_rows).on(given_))
    rows = opened(bodies, bounds=PackBounds(max_rows=max_rows))
    assert [row[2:] for row in rows] == list(enumerate(texts))
    for body in bodies:
        alone = [row for row in rows if row[0] == f"m{bodies.index(body)}"]
        assert len(base64.b64decode(body)) <= FULL_BYTES or len(alone) == 1


@pytest.mark.parametrize("name", FORMATS)
def test_messages_are_full(name):
    random_ = random.Random(1)
    texts = [random_.randbytes(100).hex() for _ in range(20_000)]
    given_ = [batch(n, texts[n : n + 1_000]) for n in range(0, len(texts), 1_000)]
    sizes = [len(base64.b64decode(body)) for body in bodies_of(pack_work(name).on(given_))]
    assert min(sizes[:-1]) >= 0.88 * FULL_BYTES
    assert max(sizes) <= FULL_BYTES


def test_rows_that_compress_well_open_within_the_bounds_of_a_reader():
    texts = ["x" * 10_000] * 2_000
    bodies = bodies_of(pack_work().on([batch(0, texts)]))
    assert len(bodies) >= 5
    assert len(opened(bodies)) == 2_000


@pytest.mark.parametrize("name", FORMATS)
def test_rows_of_very_different_sizes_open_within_the_bounds_of_a_reader(name):
    texts = ["x" * (3 * 2**20)] * 8 + ["y"] * 10_000
    bodies = bodies_of(pack_work(name).on([batch(0, texts)]))
    assert [row[3] for row in opened(bodies)] == texts


def test_what_is_packed_opens_by_default_however_narrow_its_columns_are():
    names = [f"c{n}" for n in range(200)]
    rows = pa.RecordBatch.from_arrays([pa.array([True] * 50_000)] * 200, names=names)
    wanted = pa.schema({name: pa.bool_() for name in names})
    work = PackWork("arrow", False, tuple(names), ROWS_AT_MOST)
    for body in bodies_of(work.on([rows, rows])):
        assert rows_of(body, wanted, PackBounds())


def test_a_route_shares_messages_with_rows_of_its_own_alone():
    """As many groups as delays, in random order: not as many messages as neighbours."""
    random_ = random.Random(3)
    delays = [random_.randrange(10) for _ in range(5_000)]
    (out,) = pack_work().on([batch(0, ["t"] * 5_000, delays)])
    assert sorted(out.column("_2").to_pylist()) == [*range(10)]
    for body, delay in zip(*(out.column(n).to_pylist() for n in (0, 1)), strict=True):
        assert all(delays[row[2]] == delay for row in opened([body]))


def test_no_more_groups_are_open_than_sixty_four():
    """Each row has a route of its own: the task sends, and does not hold them all."""
    work = pack_work()
    seen: list[int] = []

    def given_():
        for n in range(100):
            seen.append(n)
            yield batch(n, ["t"], [n])

    out = work.on(given_())
    first = next(out)
    assert first.column("_2").to_pylist() == [0]
    assert len(seen) == 65
    rest = [route for each in out for route in each.column("_2").to_pylist()]
    assert sorted(rest) == [*range(1, 100)]


def test_nulls_are_routes_of_their_own():
    (out,) = pack_work().on([batch(0, ["t"] * 4, [None, "a", None, "a"], [1, 1, None, 1])])
    assert len(out) == 3


def test_no_rows_are_no_messages():
    assert bodies_of(pack_work().on([])) == []
    assert bodies_of(pack_work().on([batch(0, [])])) == []
    assert [*Filling(FORMATS["json"], 9).rest()] == []


def in_text(*lines: str) -> str:
    return base64.b64encode(json_pack(*lines)).decode()


def test_rows_leave_in_batches_of_some_rows_and_bytes():
    bodies = [in_text(*['{"id":1}'] * 30)] * 10
    sizes = [len(each) for each in unpack_work(batch_rows=100).on([messages(bodies)])]
    assert sizes == [90, 90, 90, 30]
    many = in_text(*['{"id":1}'] * 1_000)
    sizes = [len(each) for each in unpack_work(batch_rows=300).on([messages([many])])]
    assert sizes == [300, 300, 300, 100]


def test_a_kept_body_is_not_held_for_all_rows_at_once():
    big = in_text(
        '{"id":1,"text":"' + random.Random(1).randbytes(20_000).hex() + '"}', *["{}"] * 999
    )
    batches = [*unpack_work(keeps_body=True).on([messages([big])])]
    assert max(each.nbytes for each in batches) < 5 * 2**20
    assert [n for each in batches for n in each.column(1).to_pylist()] == [*range(1_000)]


def test_a_long_column_beside_short_ones_is_not_held_for_all_rows_at_once():
    bodies = [in_text(*['{"id":1}'] * 1_000), *["{}"] * 99]
    kept = pa.array(["x" * 20_000] + [""] * 99)
    given_ = pa.RecordBatch.from_pydict({"_0": kept, "_1": bodies})
    batches = [*unpack_work(fails=False).on([given_])]
    assert max(each.nbytes for each in batches) < 5 * 2**20
    assert sum(map(len, batches)) == 1_099


def test_a_string_that_is_not_utf8_is_a_corrupt_message_of_its_own():
    """Spark's strings may be any bytes. A pack is one, too."""
    stored = [b'{"id":7}', b"\xff", json_pack('{"id":8}')]
    bodies = pa.array(stored).view(pa.string())
    given_ = pa.RecordBatch.from_pydict({"_0": ["m0", "m1", "m2"], "_1": bodies})
    (found,) = unpack_work(fails=False).on([given_])
    assert found.column(2).to_pylist() == [7, None, 8]
    assert found.column(4).to_pylist() == [None, "/w==", None]
    with pytest.raises(UndecodableBody, match="message m1"):
        [*unpack_work().on([given_])]


def test_a_message_is_corrupt_as_a_whole():
    half = in_text('{"id":1}', '{"id":2}', '{"id":"x"}')
    rows = opened([in_text('{"id":7}'), half, "nothing", None], fails=False)
    assert rows == [
        ("m0", 0, 7, None, None),
        ("m1", 0, None, None, half),
        ("m2", 0, None, None, "nothing"),
        ("m3", 0, None, None, None),
    ]


def test_what_is_binary_is_base64_in_the_column():
    rows = opened([b"\x1f\x8b\x08\x00", b"{"], fails=False)
    assert [row[-1] for row in rows] == ["H4sIAA==", "ew=="]


def test_one_corrupt_message_fails_with_its_name_and_no_rows():
    work = unpack_work()
    with pytest.raises(UndecodableBody, match="message m1 cannot be opened: it is neither"):
        [*work.on([messages([in_text('{"id":7}'), "nothing"])])]


def test_a_required_column_may_be_null_in_a_corrupt_row():
    wanted = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    work = UnpackWork(("message_id",), wanted, False, False, PackBounds(), 10)
    (found,) = work.on([messages(["bad", '{"id":3}'])])
    assert found.column(2).to_pylist() == [None, 3]
