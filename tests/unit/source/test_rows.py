"""Rows as Arrow: the types that Spark compares exactly, and partitions that stay small."""

import base64
import datetime
import random

import pyarrow as pa
import pytest
from refs import ORDERS

from spark_azqueue.service.encoding import BodyType
from spark_azqueue.service.messages import Lease, Message
from spark_azqueue.sink.writers import tuples
from spark_azqueue.source.batches.batch import BatchRows
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.rows import Row, partitions, record_batches, streams

COLUMNS = source_columns(BodyType.STRING, permissive=True)
UTC = datetime.timezone.utc


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


def test_a_row_holds_the_message_as_it_was_dequeued():
    leased = [Row(message(), "hello", Lease(ORDERS, "m1", "r+/="))]
    (part,) = streams([leased], COLUMNS, deleted_by_user=True)

    (row,) = rows_of([part])
    assert row.items() >= {
        ("message_id", "m1"),
        ("body", "hello"),
        ("queue", "orders"),
        ("insertion_time", datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("expiration_time", datetime.datetime(2023, 11, 21, 22, 13, 20, tzinfo=UTC)),
        ("next_visible_time", datetime.datetime(2023, 11, 14, 22, 18, 20, tzinfo=UTC)),
        ("dequeue_count", 2),
        ("pop_receipt", "r+/="),
        ("_corrupt_record", None),
    }


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


def test_a_receipt_says_that_the_source_deletes_unless_that_is_up_to_the_user():
    (part,) = partitions([Row(message(), "hello", Lease(ORDERS, "m1", "r+/="))], COLUMNS, 10)

    (row,) = rows_of([part])
    assert row["pop_receipt"] == "deleteOnCommit=true r+/="


def test_only_the_columns_asked_for_in_that_order():
    columns = (("queue", "string"), ("body", "binary"))

    (part,) = partitions([Row(message(), b"\xff")], columns, 10)

    (batch,) = record_batches(part)
    assert batch.schema.names == ["queue", "body"]
    assert batch.to_pylist() == [{"queue": "orders", "body": b"\xff"}]


def test_an_undecodable_body_is_null_and_its_text_is_in_the_extra_column():
    (part,) = partitions([Row(message(text="raw"), None, corrupt="raw")], COLUMNS, 10)

    (row,) = rows_of([part])
    assert (row["body"], row["_corrupt_record"]) == (None, "raw")


def test_what_a_peek_does_not_say_is_null():
    (part,) = partitions([Row(message(next_visible_time=None), "hello")], COLUMNS, 10)

    (row,) = rows_of([part])
    assert (row["next_visible_time"], row["pop_receipt"]) == (None, None)


def test_a_message_that_never_expires():
    # The service's way to say so: 9999-12-31T23:59:59Z
    (part,) = partitions(
        [Row(message(expiration_time=253_402_300_799_000_000), "hello")], COLUMNS, 10
    )

    (row,) = rows_of([part])
    assert row["expiration_time"].year == 9999


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


def test_the_same_partition_gives_the_same_rows_again():
    (part,) = partitions([Row(message(), "hello")], COLUMNS, 10)

    assert rows_of([part]) == rows_of([part])


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
