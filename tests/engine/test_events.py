"""`parsed_events` and `blob_events`: every event of Azure Storage, and what is no event."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from storage_events import (
    BLOB,
    DFS,
    EVENTS,
    OF_BLOBS,
    OF_NO_BLOB,
    SCHEMAS,
    Event,
    base64_of,
    bodies,
    subject_of,
)

from spark_azqueue import blob_events, bounded_json, parsed_events
from spark_azqueue.files.events import blobs

CREATED = OF_BLOBS[1]
AZURITE = "http://127.0.0.1:10000/devstoreaccount1"
TRUSTED = [
    *(f"shopdata/{container}" for container in ("landing", "files", "$web", "$root")),
    "https://shopdata.dfs.core.chinacloudapi.cn/files",
    f"{AZURITE}/landing",
]


def frame(spark: SparkSession, given: Iterable[str | None]) -> DataFrame:
    return spark.createDataFrame([(body,) for body in given], "body STRING").coalesce(1)


def rows(spark: SparkSession, *given: str | None) -> list[list[Row]]:
    """What `blob_events` makes of each body, in order; in one job."""
    numbered = spark.createDataFrame(list(enumerate(given)), "number INT, body STRING")
    found = defaultdict(list)
    for row in blob_events(numbered.coalesce(1), trusted=TRUSTED).collect():
        whole = given[row.number] if row.event_index in (0, None) else None
        assert row.body == whole, "the body stays as it is, once"
        found[row.number].append(row)
    return [found[number] for number in range(len(given))]


def test_every_type_in_both_schemas_single_and_batched_plain_and_base64(
    spark: SparkSession,
) -> None:
    assert len({event.type for event in EVENTS}) == 14
    cases = [(event, form, text) for event in EVENTS for form, text in bodies(event).items()]

    results = rows(spark, *(text for _, _, text in cases))

    for (event, (schema, form, _), _), found in zip(cases, results, strict=True):
        assert len(found) == (2 if form == "batched" else 1)
        assert [row.event_index for row in found] == list(range(len(found)))
        for row in found:
            assert row.reason is None, (event, row.reason)
            assert json.loads(row.event) == event.of(schema)
            assert row.event_schema == schema
            assert (row.id, row.type, row.subject) == (event.id, event.type, event.subject)
            assert row.source.endswith("/storageAccounts/shopdata")
            assert utc(row.time).isoformat() == event.time[:26].rstrip("Z") + "+00:00"
            assert json.loads(row.data) == event.data
            expected = event.expected or dict.fromkeys(blobs.COLUMNS)
            assert {name: row[name] for name in blobs.COLUMNS} == expected


def utc(moment: datetime) -> datetime:
    return moment.astimezone(timezone.utc)


def test_a_time_without_a_zone_is_utc_whatever_the_sessions_zone(spark: SparkSession) -> None:
    (event,) = (event for event in OF_NO_BLOB if not event.time.endswith("Z"))
    body = json.dumps(event.event_grid())
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        seconds = parsed_events(frame(spark, [body])).selectExpr("unix_micros(time)").first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    expected = datetime(2026, 11, 20, 18, 41, 0, 958410, tzinfo=timezone.utc).timestamp()
    assert seconds[0] == round(expected * 1_000_000)


NAMES = {  # path -> as a URL has it
    "a b.json": "a%20b.json",
    "100%25 sure.json": "100%2525%20sure.json",
    "a+b=c&d.json": "a+b=c&d.json",
    "a%2Bb.json": "a%252Bb.json",
    "what? #1.json": "what%3F%20%231.json",
    "Zürich/日本 ✓.json": "Z%C3%BCrich/%E6%97%A5%E6%9C%AC%20%E2%9C%93.json",
    "💎.json": "%F0%9F%92%8E.json",
    "day=2026-11-20/hour=05/part.json": "day%3D2026-11-20/hour%3D05/part.json",
    "a//b/..c.json": "a//b/..c.json",
    "blobs/containers/x.json": "blobs/containers/x.json",
    "*[x]{y}.json": "*%5Bx%5D%7By%7D.json",
}


def named(container: str, path: str, url: str, **data: Any) -> str:
    given = {**CREATED.data, "url": url, **data}
    return json.dumps(Event(CREATED.type, subject_of(container, path), given).event_grid())


def test_names_of_blobs_come_as_they_are(spark: SparkSession) -> None:
    encoded = [named("$web", path, f"{BLOB}/$web/{url}") for path, url in NAMES.items()]
    as_they_are = [named("files", path, f"{DFS}/files/{path}") for path in NAMES]

    results = rows(spark, *encoded, *as_they_are)

    for path, found in zip([*NAMES, *NAMES], results, strict=True):
        (row,) = found
        assert (row.path, row.reason) == (path, None)
        root = f"{row.container}@shopdata"
        assert row.abfss == f"abfss://{root}.dfs.core.windows.net/{path}"
        assert row.wasbs == f"wasbs://{root}.blob.core.windows.net/{path}"
    for (_, url), found in zip(NAMES.items(), results, strict=False):
        assert unquoted(found[0].https) == unquoted(f"{BLOB}/$web/{url}")
        assert not set(found[0].https) & set(" ?#\n"), "it can be used as it is"


def unquoted(url: str) -> str:
    from urllib.parse import unquote

    return unquote(url)


def test_names_that_need_care(spark: SparkSession) -> None:
    in_root = f"{BLOB}/a.json"
    china = "https://shopdata.dfs.core.chinacloudapi.cn/files/a.json"
    lost = "\ufffd\ufffd.json"
    emoji = f"{BLOB}/files/%F0%9F%92%8E.json"
    renamed = {"destinationUrl": f"{DFS}/files/b%20c", "sourceUrl": f"{DFS}/files/a%20%2541"}
    moved = Event(
        "Microsoft.Storage.BlobRenamed", subject_of("files", "b c"), renamed
    ).cloud_event()

    (root,), (cloud,), (gem,), (gone,), (rename,) = rows(
        spark,
        named("$root", "a.json", in_root),
        named("files", "a.json", china),
        named("files", lost, emoji),
        named("files", lost, f"{BLOB}/files/{lost}"),
        json.dumps(moved),
    )

    assert (root.path, root.https, root.reason) == ("a.json", in_root, None)
    assert cloud.abfss == "abfss://files@shopdata.dfs.core.chinacloudapi.cn/a.json"
    assert cloud.https == "https://shopdata.blob.core.chinacloudapi.cn/files/a.json"
    assert (gem.path, gem.reason) == ("💎.json", None), "the URL knows what the subject lost"
    assert (gone.path, gone.reason) == (None, "subject and URL name different blobs")
    assert (rename.path, rename.renamed_from) == ("b c", "a %41")


@pytest.mark.parametrize("url", ["secrets/pw.json", "$root/secrets/pw.json", "secrets%2Fpw.json"])
def test_the_root_container_leads_to_no_other(spark: SparkSession, url: str) -> None:
    """URLs leave its name out, so that what looks like a folder of it is another container."""
    ((row,),) = rows(spark, named("$root", "secrets/pw.json", f"{BLOB}/{url}"))

    assert (row.https, row.path) == (None, None)
    assert row.reason == "the path could lead out of its container"


def changed(**fields: Any) -> str:
    """An event with other fields; None takes one away."""
    event = {**CREATED.event_grid(), **fields}
    return json.dumps({name: value for name, value in event.items() if value is not None})


def cloud(**fields: Any) -> str:
    event = {**CREATED.cloud_event(), **fields}
    return json.dumps({name: value for name, value in event.items() if value is not None})


def with_data(**fields: Any) -> str:
    return changed(data={**CREATED.data, **fields})


GOOD = changed()
NO_JSON = "the body is neither JSON nor base64 of JSON"
NOT_ONE = "the body is not one JSON value, or has more than 64 levels"
NO_OBJECT = "the event is not a JSON object, or has a name twice"
HOSTILE = {
    None: "the body is null",
    "": NO_JSON,
    "   ": NO_JSON,
    "order 7": NO_JSON,
    "12345678": NO_JSON,
    '"text"': NO_JSON,
    "null": NO_JSON,
    base64_of("order 7"): NO_JSON,
    "//79": NO_JSON,  # base64 of bytes that are not UTF-8
    base64_of(base64_of(GOOD)): NO_JSON,
    "{": NOT_ONE,
    GOOD[:-1]: NOT_ONE,
    base64_of(GOOD)[:100]: NOT_ONE,
    GOOD + GOOD: NOT_ONE,
    f"{GOOD}\n{GOOD}": NOT_ONE,
    f"[{GOOD}] [{GOOD}]": NOT_ONE,
    "{'id': 1}": NOT_ONE,
    "[" * 2000 + "]" * 2000: NOT_ONE,
    "[]": "the body is an empty list",
    "{}": "neither Event Grid's schema nor CloudEvents 1.0",
    '{"id": "1", "id": "2"}': NO_OBJECT,
    '{"order_id": 7}': "neither Event Grid's schema nor CloudEvents 1.0",
    cloud(specversion="0.3"): "neither Event Grid's schema nor CloudEvents 1.0",
    changed(id=None): "missing: id",
    changed(id="", subject=None): "missing: id, subject",
    changed(eventTime=None): "missing: eventTime",
    cloud(source=None, type=None): "missing: type, source",
    changed(id=5, subject={"a": 1}): "not a string: id, subject",
    cloud(specversion=1.0): "not a string: specversion",
    changed(eventTime="tomorrow"): "the time is not as in RFC 3339",
    changed(eventTime="12"): "the time is not as in RFC 3339",
    changed(eventTime="2026-13-45T99:00:00Z"): "the time is not as in RFC 3339",
    cloud(data=None, data_base64="//79"): "data_base64 is not base64 of UTF-8",
    changed(data=None): "the event of a blob has no data",
    changed(subject="orders"): "the subject does not name a blob",
    changed(subject="/blobServices/default/containers/c"): "the subject does not name a blob",
    changed(data="text"): "the data has no URL of a blob",
    changed(data=[1, 2]): "the data has no URL of a blob",
    with_data(url=5): "the data has no URL of a blob",
    with_data(url="file:///etc/passwd"): "the data has no URL of a blob",
    with_data(url=f"{BLOB}/landing/other.json"): "subject and URL name different blobs",
    with_data(url=f"{BLOB}/landing/in/orders-1.json?sv=1"): "subject and URL name different blobs",
    with_data(contentLength="large"): "contentLength is not a number of bytes",
    with_data(contentLength=-1): "contentLength is not a number of bytes",
    with_data(contentLength=2**70): "contentLength is not a number of bytes",
    with_data(contentLength={"a": 1}): "contentLength is not a number of bytes",
}


def test_what_is_no_event_stays_with_its_reason(spark: SparkSession) -> None:
    results = rows(spark, *HOSTILE)

    for (body, reason), found in zip(HOSTILE.items(), results, strict=True):
        assert [row.reason for row in found] == [reason], body
        assert found[0].event_index == (None if found[0].event is None else 0)


def test_what_is_odd_but_right_has_no_reason(spark: SparkSession) -> None:
    deep = {**CREATED.data, "more": json.loads("[" * 62 + "]" * 62)}
    huge = {**CREATED.data, "more": "x" * 1_000_000}
    odd = [
        "\ufeff" + GOOD,
        f"\r\n {GOOD}\t",
        base64_of("\ufeff" + GOOD),
        json.dumps({**CREATED.event_grid(), "new": {"data": 1}}),
        changed(data=deep),
        changed(data=huge),
        cloud(time="2026-11-20t19:41:00+01:00"),
        cloud(time=None),
        with_data(contentLength="524288"),
        with_data(eTag=None, etag="0x8DC2E4835CD0ABC"),
    ]

    results = rows(spark, *odd)

    assert [row.reason for found in results for row in found] == [None] * len(odd)
    assert [found[0].etag for found in results] == ["0x8DC2E4835CD0ABC"] * len(odd)
    assert utc(results[6][0].time) == datetime(2026, 11, 20, 18, 41, tzinfo=timezone.utc)
    assert results[7][0].time is None


def test_one_bad_event_of_a_batch_leaves_the_others(spark: SparkSession) -> None:
    batch = f'[{GOOD}, 5, "text", null, {{"id": 1}}, {cloud()}]'

    (found,) = rows(spark, batch)

    assert [row.reason for row in found] == [
        *(None, NO_OBJECT, NO_OBJECT, NO_OBJECT, "not a string: id", None)
    ]
    assert [row.event_index for row in found] == list(range(6))
    assert (found[0].path, found[5].path) == ("in/orders-1.json", "in/orders-1.json")
    assert json.loads(found[4].event) == {"id": 1}


def test_cloud_events_of_others(spark: SparkSession) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    own = {"specversion": "1.0", "id": "7", "source": "shop", "type": "order", "traceparent": trace}

    text, binary, none = (
        found[0]
        for found in rows(
            spark,
            json.dumps({**own, "datacontenttype": "text/plain", "data": 'so "it" is'}),
            json.dumps({**own, "data_base64": base64_of("Zürich")}),
            json.dumps(own),
        )
    )

    assert {row.reason for row in (text, binary, none)} == {None}
    assert {row.traceparent for row in (text, binary, none)} == {trace}
    assert (text.data, binary.data, none.data) == ('so "it" is', "Zürich", None)
    assert (none.source, none.type, none.change, none.container) == ("shop", "order", None, None)


def test_binary_bodies(spark: SparkSession) -> None:
    given = [(GOOD.encode(),), (base64_of(GOOD).encode(),), (b"\xff\xfe",), (None,)]

    frame = spark.createDataFrame(given, "body BINARY").selectExpr("body", "1 AS `a.b`")
    found = blob_events(frame.coalesce(1), trusted=TRUSTED).collect()

    assert [row.reason for row in found] == [None, None, NO_JSON, "the body is null"]
    assert [(row.body, row["a.b"]) for row in found] == [(body, 1) for (body,) in given]


def test_data_as_a_variant(spark: SparkSession) -> None:
    event = json.loads(cloud())
    binary = {**event, "data_base64": base64_of('{"n": 3}')}
    text = {**event, "data_base64": base64_of('say "n"')}
    for each in (binary, text):
        each.pop("data", None)
    given = [cloud(data=data) for data in ({"n": [1, {"m": 2}]}, "text", 7, None, "{")]
    given += [json.dumps(binary), json.dumps(text), cloud(data="[" * 100), "no JSON"]

    found = parsed_events(frame(spark, given), "variant")

    assert found.schema["data"].dataType.simpleString() == "variant"
    data = [row.data and row.data.toPython() for row in found.collect()]
    expected = [{"n": [1, {"m": 2}]}, "text", 7, None, "{", {"n": 3}, 'say "n"', "[" * 100, None]
    assert data == expected
    with pytest.raises(TypeError, match="struct or variant, not int"):
        parsed_events(frame(spark, []), "int")


def test_data_by_a_schema(spark: SparkSession) -> None:
    given = [GOOD, with_data(contentLength="x"), changed(data=[1]), changed(data=None), "no event"]
    schema = "api STRING, contentLength BIGINT, storageDiagnostics STRUCT<batchId: STRING>"

    events = parsed_events(frame(spark, given), schema)
    found = events.collect()

    assert events.schema["data"].dataType.simpleString() == (
        "struct<api:string,contentLength:bigint,storageDiagnostics:struct<batchId:string>>"
    )
    other = "the data is not of the given schema"
    assert [row.reason for row in found] == [None, other, other, None, NO_JSON]
    assert found[0].data.contentLength == 524288
    assert found[1].data.api == "PutBlob", "what can be read is there"
    assert found[3].data is None


def test_columns_and_types_are_those_of_the_docstrings(spark: SparkSession) -> None:
    empty = spark.createDataFrame([], "body STRING")
    fields = blob_events(empty, trusted=TRUSTED).schema.fields[1:]

    documented = f"{parsed_events.__doc__}{blob_events.__doc__}"
    for field in fields:
        kind = field.dataType.simpleString().upper()
        assert f"`{field.name}`".ljust(16) + kind in documented, field


def test_columns_that_are_there_already_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="has id, Reason already: rename or drop it"):
        parsed_events(spark.createDataFrame([], "body STRING, id INT, Reason INT"))
    with pytest.raises(ValueError, match="has path already"):
        blob_events(spark.createDataFrame([], "body STRING, path INT"), trusted=TRUSTED)
    with pytest.raises(TypeError, match="not array<int>"):
        parsed_events(spark.createDataFrame([], "body STRING"), "ARRAY<INT>")
    assert set(SCHEMAS) == {"EventGridSchema", "CloudEventSchemaV1_0"}


@pytest.mark.parametrize(
    ("body", "is_read"),
    [
        ('{"a": [1, "]]"]}', True),
        (" ", True),  # whether it is JSON is not asked
        ("[" * 64 + "]" * 64, True),
        ("[" * 65 + "]" * 65, False),
        ("[" * 20_000 + "]" * 20_000, False),
        ("{", False),
        ("[}", True),
        ("é" * 50, True),
        ("é" * 51, False),
    ],
)
def test_bounded_json_gives_what_a_reader_may_see(
    spark: SparkSession, body: str, is_read: bool
) -> None:
    longest = 100 if body.startswith("é") else 40_000
    frame = spark.createDataFrame([(body,), (None,)], "body string")
    found = frame.select(bounded_json(sf.col("body"), longest).alias("text"))

    assert [row.text for row in found.collect()] == [body if is_read else None, None]
