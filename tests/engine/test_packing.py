"""`pack` and `unpack` on real Spark: each row once, in its order, of every type, by any options."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from azure.storage.blob import ContainerClient
from packed import in_base64, json_pack
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_azqueue import pack, unpack
from spark_azqueue.errors import InvalidOption, InvalidSchema
from spark_azqueue.errors.explanation import explain
from spark_azqueue.rows.duplicates import without_duplicates
from spark_azqueue.rows.packing.bodies import BodyKind, body_of
from spark_azqueue.rows.packing.opening import CORRUPT
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_large_bodies import by_blob

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers have no `tests`

ORDER = "id BIGINT, note STRING, total DECIMAL(10,2), at TIMESTAMP"
FORMATS = ["arrow", "json"]


def orders(spark: SparkSession, count: int, parts: int = 2) -> DataFrame:
    return spark.range(0, count, 1, parts).selectExpr(
        "id",
        "repeat(sha2(string(id), 256), 3) AS note",
        "cast(id / 4 AS DECIMAL(10,2)) AS total",
        "timestamp_micros(id * 1000003) AS at",
    )


def send(rows: DataFrame, fake: FakeQueueService, queue: str, **options: str) -> None:
    fake.create_queue(queue)
    writer = rows.write.format("azqueue").mode("append").options(**options)
    account = {"secret.connectionString": fake.connection_string}
    writer.options(**account, **({} if "queue" in rows.columns else {"queue": queue})).save()


def same(found: DataFrame, expected: DataFrame) -> bool:
    columns = expected.columns
    return sorted(map(tuple, found.select(*columns).collect())) == sorted(
        map(tuple, expected.collect())
    )


@pytest.mark.core
@pytest.mark.parametrize("name", FORMATS)
def test_each_row_once_through_a_queue(
    name: str, spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    rows = orders(spark, 2_000)
    send(pack(rows, format=name), fake, queue)
    assert 2 <= fake.count(queue) < 40

    read = unpack(streams.read(fake.connection_string, queue), ORDER)
    streams.read_all(read)

    assert fake.count(queue) == 0
    found = [tuple(row[each] for each in ("id", "note", "total", "at")) for row in streams.rows]
    assert sorted(found) == sorted(map(tuple, rows.collect()))
    identities = {(row.message_id, row.message_row) for row in streams.rows}
    assert len(identities) == 2_000
    assert read.columns[:2] == ["message_id", "queue"]
    assert read.columns[-5:] == ["message_row", "id", "note", "total", "at"]
    by_message: dict[str, list[int]] = {}
    for row in sorted(streams.rows, key=lambda row: row.message_row):
        by_message.setdefault(row.message_id, []).append(row.id)
    assert all(ids == sorted(ids) for ids in by_message.values())


def test_a_stream_packs(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """A task without rows sends nothing."""
    fake.create_queue(queue)
    rows = orders(spark, 500)
    rows.write.parquet(str(tmp_path / "orders"))
    given = spark.readStream.schema(rows.schema).parquet(str(tmp_path / "orders"))
    writer = pack(given).writeStream.format("azqueue").option("queue", queue)
    writer.option("secret.connectionString", fake.connection_string).option(
        "checkpointLocation", str(tmp_path / "packing")
    ).trigger(availableNow=True).start().awaitTermination(120)

    found = unpack(peeked(spark, fake, queue), ORDER)
    assert same(found, rows)
    assert fake.count(queue) <= 8

    send(pack(orders(spark, 3, parts=8)), fake, f"{queue}-few")
    assert fake.count(f"{queue}-few") == 3


def peeked(spark: SparkSession, fake: FakeQueueService, queue: str, **options: str) -> DataFrame:
    account = {"secret.connectionString": fake.connection_string, "queue": queue}
    return spark.read.format("azqueue").options(**account, **options).load()


ENCODINGS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    ("text", {}, {}),
    ("text", {}, {"messageEncoding": "auto"}),
    ("text", {}, {"messageEncoding": "auto", "bodyType": "binary"}),
    ("text", {}, {"messageEncoding": "base64", "bodyType": "binary"}),
    ("binary", {"messageEncoding": "base64"}, {"messageEncoding": "base64", "bodyType": "binary"}),
    ("binary", {"messageEncoding": "base64"}, {"messageEncoding": "auto", "bodyType": "binary"}),
    ("binary", {"messageEncoding": "base64"}, {"messageEncoding": "auto"}),
    ("binary", {"messageEncoding": "base64"}, {}),
]
"""What `pack` makes, the sink's options, and those of a source that reads it."""


@pytest.mark.parametrize("name", FORMATS)
def test_each_encoding_of_a_queue(
    name: str, spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    rows = orders(spark, 300)
    for number, (body, sink, source) in enumerate(ENCODINGS):
        own = f"{queue[:50]}-{number}"
        send(pack(rows, format=name, body=body), fake, own, **sink)
        assert same(unpack(peeked(spark, fake, own, **source), ORDER), rows), (body, sink, source)


TYPES = """
    flag BOOLEAN, tiny TINYINT, small SMALLINT, number INT, big BIGINT, single FLOAT,
    double DOUBLE, price DECIMAL(38,18), text STRING, raw BINARY, day DATE, at TIMESTAMP,
    local TIMESTAMP_NTZ, gap INTERVAL DAY TO SECOND, items ARRAY<STRUCT<sku: STRING, count: INT>>,
    tags MAP<STRING, BIGINT>, pair STRUCT<left: ARRAY<TINYINT>, right: DECIMAL(4,2)>
"""
VALUES = (
    *(True, -128, 32_767, -(2**31), 2**63 - 1, 0.5, 1e300),
    *(Decimal("1.5"), "Grüße\u2028\n", b"\x00\xff", datetime.date(2026, 2, 28)),
    datetime.datetime(2026, 11, 27, 22, 0, 0, 123_456),
    datetime.datetime(2026, 11, 27, 22, 0, 0, 1),
    datetime.timedelta(days=-3, microseconds=7),
    [("a", 1), None],
    {"b": None, "c": 3},
    ([1, None], Decimal("1.25")),
)


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_type_passes(zone: str, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rows = spark.createDataFrame([VALUES, (None,) * len(VALUES)], TYPES)
        for name in FORMATS:
            found = unpack(pack(rows.coalesce(1), format=name), TYPES).select(*rows.columns)
            assert found.collect() == rows.collect()
            assert found.dtypes == rows.dtypes
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize("name", FORMATS)
def test_a_null_struct_of_what_is_not_null_passes(name: str, spark: SparkSession) -> None:
    """`CASE WHEN … THEN struct(id)` is one, inside a map and a struct, too, in any zone."""
    one = "CASE WHEN id % 2 = 0 THEN struct(id AS n, timestamp_micros(id) AS t) END"
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        rows = spark.range(0, 4, 1, 1).selectExpr(
            f"{one} AS s", f"map('k', {one}) AS m", f"struct({one} AS s, now() AS t) AS u"
        )
        found = unpack(pack(rows, format=name), rows.schema).select(*rows.columns)
        expected = rows.select("s", "m", "u.s").collect()
        assert found.select("s", "m", "u.s").collect() == expected
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_what_no_reader_takes_fails_the_task_that_packs_it(spark: SparkSession) -> None:
    for value in ("cast(X'ff' AS STRING)", "TIMESTAMP'9999-12-31 23:59:59' + INTERVAL 1 DAY"):
        with pytest.raises(Exception, match=r"AZQUEUE_INVALID_ROW\] pack.*'odd'"):
            pack(spark.sql(f"SELECT 1 AS id, {value} AS odd")).collect()


def test_variant_and_time_pass_where_spark_has_them(spark: SparkSession) -> None:
    rows = spark.sql("""SELECT parse_json('{"a": [1, "b"]}') AS v""")
    found = unpack(pack(rows), "v VARIANT")
    assert found.selectExpr("to_json(v)").first()[0] == '{"a":[1,"b"]}'
    try:
        timed = spark.sql("SELECT TIME '12:34:56.789012' AS t")
        timed.schema  # noqa: B018 - older Spark says here that it has none
    except Exception:  # noqa: BLE001
        return
    for name in FORMATS:
        found = unpack(pack(timed, format=name), "t TIME(6)").selectExpr("string(t) AS t")
        assert found.first().t == "12:34:56.789012"


def test_routes_are_grouped(spark: SparkSession, fake: FakeQueueService, queue: str) -> None:
    """Rows of one route share a message, whatever came between them, and keep their order."""
    names = [f"{queue[:50]}-{n}" for n in range(3)]
    for name in names:
        fake.create_queue(name)
    rows = spark.range(0, 3_000, 1, 1).selectExpr(
        "id",
        f"concat('{queue[:50]}-', id % 3) AS queue",
        "int(60) AS time_to_live",
        "IF(id % 2 = 0, NULL, timestamp '2026-01-01 00:00:00') AS visible_at",
    )
    packed = pack(rows, route=["queue", "time_to_live", "visible_at"])
    assert packed.columns == ["body", "queue", "time_to_live", "visible_at"]
    assert len(packed.collect()) == 6
    send(packed.drop("visible_at"), fake, queue)
    for number, name in enumerate(names):
        found = unpack(peeked(spark, fake, name), "id BIGINT").orderBy("message_id", "message_row")
        ids = [row.id for row in found.collect()]
        assert sorted(ids) == [*range(number, 3_000, 3)]


def test_old_and_new_senders_share_a_queue(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    rows = orders(spark, 100)
    send(pack(rows.where("id < 40")), fake, queue)
    send(pack(rows.where("id BETWEEN 40 AND 79"), format="json"), fake, queue)
    fake.put_many(
        queue,
        [
            json.dumps({"id": row.id, "note": row.note, "total": 20, "more": [1]})
            for row in rows.where("id >= 80").collect()
        ],
    )
    streams.read_all(unpack(streams.read(fake.connection_string, queue), ORDER))
    assert sorted(row.id for row in streams.rows) == [*range(100)]
    assert {row.message_row for row in streams.rows if row.id >= 80} == {0}


def test_corrupt_bodies_become_rows_of_their_own(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    half = json_pack('{"id":1}', '{"id":"no number"}')
    good = json_pack('{"id":1}', '{"id":2}')
    bad = ["no pack", '{"other":1}', "azqpack9AAAA", in_base64(half)]
    fake.put_many(queue, [*bad, in_base64(good)])
    read = unpack(streams.read(fake.connection_string, queue), "id BIGINT", corrupt="column")
    streams.read_all(read)
    found = {row[CORRUPT]: row for row in streams.rows if row[CORRUPT]}
    assert found.keys() == set(bad)
    assert {(row.id, row.message_row) for row in found.values()} == {(None, 0)}
    assert sorted(row.id for row in streams.rows if row.id) == [1, 2]


def test_a_permissive_source_and_unpack_share_their_column(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, ["%", "bm90aGluZw==", in_base64(json_pack('{"id":1}'))])
    options = {"messageEncoding": "base64", "bodyType": "binary", "onUndecodable": "permissive"}
    read = peeked(spark, fake, queue, **options)
    found = unpack(read, "id BIGINT", corrupt="column", keep_body=True).collect()
    assert [(row.id, row[CORRUPT]) for row in found] == [
        (None, "%"),
        (None, "bm90aGluZw=="),
        (1, None),
    ]
    assert bytes(found[2].body) == json_pack('{"id":1}')


def test_a_corrupt_body_fails_with_what_to_do(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("m-1", "q", "secret")], "message_id STRING, queue STRING, body STRING"
    )
    with pytest.raises(Exception, match="AZQUEUE_CORRUPT_PACK") as raised:
        unpack(rows, "id BIGINT").collect()
    text = explain(raised.value)
    assert "message m-1 of queue 'q'" in str(text)
    assert "secret" not in str(raised.value)


def test_a_large_message_leaves_in_batches_of_spark(spark: SparkSession) -> None:
    """A row that keeps its body is as large as that."""
    rows = spark.range(0, 50_000, 1, 1)
    packed = pack(rows)
    sizes = unpack(packed, "id BIGINT", keep_body=True)
    found = sizes.mapInArrow(_sizes, "rows BIGINT").collect()
    assert sum(row.rows for row in found) == 50_000
    assert max(row.rows for row in found) <= 10_000


def _sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def test_limits_of_a_message(spark: SparkSession) -> None:
    packed = pack(spark.range(0, 10_000, 1, 1))
    assert pack(spark.range(0, 100, 1, 1), max_rows=10).count() == 10
    for more, reason in (({"max_rows": 100}, "max_rows=100"), ({"max_bytes": 1_000}, "max_bytes")):
        with pytest.raises(Exception, match=reason):
            unpack(packed, "id BIGINT", **more).collect()


def test_a_row_that_is_too_large_is_a_message_of_its_own(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    """The sink says what it says to every large body."""
    large = "concat_ws('', transform(sequence(1, 2000), n -> sha2(concat(id, n), 256)))"
    rows = spark.range(0, 3, 1, 1).selectExpr("id", f"IF(id = 1, {large}, 'small')").toDF("id", "t")
    packed = pack(rows).collect()
    sizes = [len(row.body) for row in packed]
    assert max(sizes) > 65_536
    assert sum(size < 10_000 for size in sizes) == len(sizes) - 1
    with pytest.raises(Exception, match="largeBody=blob"):
        send(pack(rows), fake, queue)


def test_rows_over_64_kib_go_by_blob_there_and_back(
    spark: SparkSession,
    streams: Streams,
    azurite_connection_string: str,
    blobs: ContainerClient,
    queue: str,
) -> None:
    large = "concat_ws('', transform(sequence(1, 4000), n -> sha2(concat(id, n), 256)))"
    rows = spark.range(0, 40, 1, 2).selectExpr("id", f"IF(id % 10 = 3, {large}, 'small') AS t")
    options = by_blob(azurite_connection_string, queue, blobs)
    writer = pack(rows).write.format("azqueue").mode("append")
    writer.options(**options, createQueue="true").save()
    assert len(list(blobs.list_blob_names())) == 4

    messages = spark.readStream.format("azqueue").options(**options).load()
    streams.read_all(unpack(messages, "id BIGINT, t STRING").select("id", "t"))

    assert sorted(map(tuple, streams.rows)) == sorted(map(tuple, rows.collect()))
    assert list(blobs.list_blob_names()) == []


REFUSED: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("id", {"format": "avro"}, InvalidOption, "arrow, json"),
    ("id", {"body": "base64"}, InvalidOption, "text, binary"),
    ("id", {"max_rows": 0}, InvalidOption, "above 0"),
    ("id", {"max_rows": 300_000}, InvalidOption, "100,000"),
    ("id", {"route": "queue"}, InvalidOption, "list of names"),
    ("id", {"route": ["id"]}, InvalidOption, "no column that the sink reads"),
    ("id", {"route": ["queue"]}, InvalidSchema, "there is none"),
    ("'a' AS queue", {"route": ["queue"]}, InvalidSchema, "no column to pack"),
    ("id, id AS ID", {}, InvalidSchema, "twice"),
    ("id, NULL AS n", {}, InvalidSchema, "'n' is void"),
    ("make_ym_interval(1) AS n", {}, InvalidSchema, "'n' is interval year to month"),
    ("make_interval(1) AS n", {}, InvalidSchema, "'n' is interval"),
    ("named_struct('a', 1, 'A', 2) AS n", {}, InvalidSchema, "'n.A' is there twice"),
    ("array(named_struct('a', NULL)) AS n", {}, InvalidSchema, "'n.element.a' is void"),
    ("map(1, 2) AS n", {"format": "json"}, InvalidSchema, "texts"),
    ("parse_json('1') AS n", {"format": "json"}, InvalidSchema, "VARIANT"),
    *(
        (f"id, 'q' AS queue, {column}", {"route": ["queue"]}, InvalidSchema, "sent back")
        for column in ("1 AS message_row", "1 AS dequeue_count", "'r' AS pop_receipt")
    ),
]


def test_what_cannot_be_packed_is_refused_at_the_call(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        for columns, options, error, reason in REFUSED:
            rows = spark.range(1).selectExpr(*_split(columns))
            with pytest.raises(error, match=re.escape(reason)):
                pack(rows, **options)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def _split(columns: str) -> list[str]:
    return re.split(r", (?![^()]*\))", columns)


UNREADABLE: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("id BIGINT", {"corrupt": "drop"}, InvalidOption, "fail, column"),
    ("id BIGINT", {"max_bytes": 1.5}, InvalidOption, "above 0"),
    ("BIGINT", {}, InvalidSchema, "needs a schema"),
    ("Queue STRING", {}, InvalidSchema, "'Queue' twice"),
    ("message_row INT", {}, InvalidSchema, "'message_row' twice"),
    ("a INT, A INT", {}, InvalidSchema, "'A' is there twice"),
    ("_corrupt_record STRING", {"corrupt": "column"}, InvalidSchema, "twice"),
    ("body STRING", {"keep_body": True}, InvalidSchema, "twice"),
    ("n INTERVAL YEAR TO MONTH", {}, InvalidSchema, "year to month"),
    ("n INTERVAL DAY", {}, InvalidSchema, "INTERVAL DAY TO SECOND"),
    ("n VARCHAR(5)", {}, InvalidSchema, "STRING"),
    ("n MAP<ARRAY<INT>, INT>", {}, InvalidSchema, "keys of the map"),
]


def test_what_cannot_be_unpacked_is_refused_at_the_call(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'm' AS message_id, 'q' AS queue, 'b' AS body")
    for schema, options, error, reason in UNREADABLE:
        with pytest.raises(error, match=re.escape(reason)):
            unpack(rows, schema, **options)
    for other in (rows.drop("body"), rows.withColumn("body", sf.lit(1))):
        with pytest.raises(InvalidSchema, match="needs the column 'body'"):
            unpack(other, "id BIGINT")


def test_what_is_packed_says_what_it_is(spark: SparkSession) -> None:
    for name in FORMATS:
        (row,) = pack(spark.range(0, 9, 1, 1), format=name).collect()
        assert body_of(row.body, 2**20).kind is BodyKind(name)


def test_names_that_spark_quotes(spark: SparkSession) -> None:
    rows = spark.range(0, 3, 1, 1).selectExpr("id AS `a.b`", "id AS `c``d`", "string(id) AS `e f`")
    found = unpack(pack(rows), "`a.b` BIGINT, `c``d` BIGINT, `e f` STRING").drop("message_row")
    assert found.columns == rows.columns
    assert found.collect() == rows.collect()


def test_rows_of_a_message_are_no_duplicates_of_each_other(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    """Without a key a row is known by its message and its place in it."""
    send(
        pack(spark.range(0, 60, 1, 1).selectExpr("id", "IF(id < 20, id % 5, NULL) AS k")),
        fake,
        queue,
    )
    rows = unpack(streams.read(fake.connection_string, queue), "id BIGINT, k BIGINT")
    streams.read_all(without_duplicates(rows, "k"))
    found = sorted(row.id for row in streams.rows)
    assert len(found) == 45
    assert found[5:] == [*range(20, 60)]
