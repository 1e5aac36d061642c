"""Rows as Arrow: the types that Spark compares exactly, and partitions that stay small."""

import base64
import random

import pyarrow as pa
import pytest
from refs import ORDERS

from spark_azqueue.service.encoding import BodyType
from spark_azqueue.service.messages import Lease, Message
from spark_azqueue.sink.writers import tuples
from spark_azqueue.source.batches.batch import BatchRows
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.rows import Row, partitions, record_batches

COLUMNS = source_columns(BodyType.STRING, permissive=True)


def message(number=1, text="hello", **changed):
    values = {
        "insertion_time": 1_700_000_000_000_000,
        "expiration_time": 1_700_604_800_000_000,
        "dequeue_count": 2,
        "next_visible_time": 1_700_000_300_000_000,
    }
    return Message(ORDERS, f"m{number}", text, **{**values, **changed})


def rows_of(parts):
    return [row for part in parts for batch in record_batches(part) for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("message_id", pa.string()),
        ("body", pa.string()),
        ("insertion_time", pa.timestamp("us", tz="UTC")),
        ("dequeue_count", pa.int32()),
    ],
)
def test_types_are_the_ones_that_spark_compares_with(name, expected):
    (part,) = partitions([Row(message(), "hello")], COLUMNS, 10)
    (batch,) = record_batches(part)

    assert batch.schema.field(name).type == expected
    assert batch.schema.field(name).nullable


@pytest.mark.parametrize(
    ("count", "most", "sizes"),
    [
        (0, 10, []),
        (1, 10, [1]),
        (10, 10, [10]),
        (11, 10, [10, 1]),
        (25, 10, [10, 10, 5]),
        (3, 1, [1] * 3),
    ],
)
def test_partitions_end_after_so_many_rows(count, most, sizes):
    rows = [Row(message(n), "hello") for n in range(count)]

    parts = partitions(rows, COLUMNS, most)

    assert [len(rows_of([part])) for part in parts] == sizes
    assert [row["message_id"] for row in rows_of(parts)] == [f"m{n}" for n in range(count)]


def hexadecimal(chance):
    return chance.randbytes(24_000).hex()


def base64_of_noise(chance):
    return base64.b64encode(chance.randbytes(36_000)).decode()


@pytest.mark.parametrize(
    ("text", "body_of", "rows_in_each"),
    [
        (lambda _: "é" * 24_000, str, range(160, 180)),  # 8 MiB of texts
        (hexadecimal, str, range(25, 40)),
        (base64_of_noise, str, range(18, 25)),
        (base64_of_noise, base64.b64decode, range(18, 25)),
    ],
)
def test_large_texts_make_partitions_below_the_size_that_spark_warns_of(
    text, body_of, rows_in_each
):
    chance = random.Random(1)
    texts = [text(chance) for _ in range(200)]
    bodies = list(map(body_of, texts))
    kind = BodyType.STRING if body_of is str else BodyType.BINARY
    columns = source_columns(kind, permissive=False)

    pairs = enumerate(zip(texts, bodies, strict=True))
    parts = partitions([Row(message(n, text), body) for n, (text, body) in pairs], columns)

    assert max(map(len, parts)) < 1000 * 1024
    assert len(rows_of(parts[:1])) in rows_in_each
    assert [row["body"] for row in rows_of(parts)] == bodies


def test_the_sink_takes_record_batches_apart():
    batch = pa.record_batch(
        [pa.array(["a", None]), pa.array([1, None]), pa.array([b"x", b"y"])], names=["a", "b", "c"]
    )
    empty = batch.slice(0, 0)

    assert list(tuples([batch, empty, batch.slice(1)], {0, 2})) == [
        ("a", None, b"x"),
        (None, None, b"y"),
        (None, None, b"y"),
    ]
    assert list(tuples([batch], {1})) == [(None, 1, None), (None, None, None)]


def test_a_batch_of_large_values_is_taken_apart_in_pieces():
    sizes = []
    real = pa.RecordBatch.slice
    batch = pa.record_batch([pa.array(["x" * 2**20] * 20)], names=["body"])

    class Spy:
        """A record batch that notes how it is sliced (Arrow's own cannot be patched)."""

        num_rows, nbytes = batch.num_rows, batch.nbytes

        def slice(self, start, length):
            part = real(batch, start, length)
            sizes.append(part.num_rows)
            return part

    assert sum(1 for _ in tuples([Spy()], {0})) == 20
    assert max(sizes) <= 8


def test_without_bodies_a_batch_is_cut_by_rows_alone_and_no_body_travels():
    text = random.Random(1).randbytes(30_000).hex()
    rows = [
        Row(message(number, text), text, Lease(ORDERS, f"m{number}", "r")) for number in range(300)
    ]

    def parts(columns, **how):
        return BatchRows.of(rows, columns, 300, None, deleted_by_user=False, **how).partitions

    few = (("message_id", "string"), ("queue", "string"))
    assert len(parts(COLUMNS)) > 2
    (part,) = parts(few)
    assert len(part) < 20_000
    assert rows_of([part]) == [
        {"message_id": f"m{number}", "queue": "orders"} for number in range(300)
    ]
    assert len(parts(few, is_logged=True)) > 2, "a later run may ask for bodies"
