"""messageFormat=cloudevents on real Spark: rows become events, and come back as they were."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

from spark_azqueue import parsed_events
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_docs_examples import examples, local
from .test_stream import PATIENCE_S, finish

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AT = datetime(2026, 11, 22, 11, 30, 0, 250_000, timezone.utc)
COLUMNS = "body, id, type, source, time, subject, datacontenttype, traceparent"
SCHEMA = COLUMNS.replace(",", " STRING,").replace("time STRING", "time TIMESTAMP") + " STRING"
ROWS = [
    ('{"quantity": 1e3}', "order-1", "order", "/shop", AT, "Zürich/1", "application/json", TRACE),
    ("so \"it\"\n'is' 💎", "order-2", "note", "/shop", None, None, "text/plain", None),
    ("no json", "order-3", "note", "https://shop.example/a%20b", AT, None, None, TRACE),
]


@pytest.mark.core
def test_events_come_back_as_they_were_sent(
    spark: SparkSession, streams: Streams, azurite_connection_string: str, queue: str
) -> None:
    options = {"secret.connectionString": azurite_connection_string, "queue": queue}
    options |= {"messageFormat": "cloudevents", "createQueue": "true"}
    texts = spark.createDataFrame(ROWS, SCHEMA)
    binary = texts.where("id = 'order-2'").selectExpr(
        "encode(body, 'utf-8') AS body", "'order-4' AS id", "type", "source"
    )
    for frame in (texts, binary):
        frame.write.format("azqueue").mode("append").options(**options).save()

    streams.collect(
        parsed_events(streams.read(azurite_connection_string, queue)), availableNow=True
    )
    finish(streams.queries[0])

    found = {row.id: row for row in streams.rows}
    assert [row.reason for row in streams.rows] == [None] * 4
    assert {row.event_schema for row in streams.rows} == {"CloudEventSchemaV1_0"}
    for body, key, kind, source, time, subject, _, traceparent in ROWS:
        row = found[key]
        assert (row.type, row.source, row.subject) == (kind, source, subject)
        assert row.traceparent == traceparent
        assert row.time == (time and time.astimezone().replace(tzinfo=None))
        assert row.data == body.replace("1e3", "1000.0").replace(": ", ":" if "{" in body else ": ")
    assert found["order-4"].data == ROWS[1][0]
    sent = json.loads(found["order-4"].body)
    assert base64.b64decode(sent["data_base64"]).decode() == ROWS[1][0]
    assert '"data": {"quantity": 1e3}' in found["order-1"].body


def test_rows_that_make_no_event(spark: SparkSession, fake: FakeQueueService, queue: str) -> None:
    for name in (queue, "rejects"):
        fake.create_queue(name)
    rows = [("1", "order-1", "00-bad"), ("2", None, None), ("3", "order-3", TRACE)]
    frame = spark.createDataFrame(rows, "body STRING, id STRING, traceparent STRING")
    whole = frame.selectExpr("*", "'order' AS type", "'/shop' AS source")
    options = {"secret.connectionString": fake.connection_string, "queue": queue}
    options["messageFormat"] = "cloudevents"

    with pytest.raises(PythonException, match="its 'traceparent' is '00-bad'; expected W3C's form"):
        whole.coalesce(1).write.format("azqueue").mode("append").options(**options).save()
    with pytest.raises((AnalysisException, PythonException), match="the column 'type' is missing"):
        frame.write.format("azqueue").mode("append").options(**options).save()
    assert fake.count(queue) == 0

    options |= {"onRowError": "queue", "rowErrorQueue": "rejects"}
    whole.write.format("azqueue").mode("append").options(**options).save()

    assert [json.loads(view.text)["id"] for view in fake.messages(queue)] == ["order-3"]
    told = {each["body"]: each for each in (json.loads(v.text) for v in fake.messages("rejects"))}
    assert told["1"]["attributes"]["id"] == "order-1"
    assert told["2"]["reason"] == "[AZQUEUE_INVALID_ROW] its 'id' is null; an event needs one"


def test_the_example_of_the_page(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path
) -> None:
    fake.create_queue("order-events")
    (code,) = examples("docs/writing.md", begin="## Send events")
    orders = spark.sql(
        "SELECT 7 AS order_id, 2 AS quantity, timestamp'2026-11-22 11:30' AS created"
    )

    azure = {"secret.connectionString": fake.connection_string}
    exec(local(code, fake, tmp_path), {"azure": azure, "orders": orders})

    (view,) = fake.messages("order-events")
    assert json.loads(view.text) == {
        "specversion": "1.0",
        "id": "order-7",
        "type": "com.example.order.created",
        "source": "/shop/orders",
        "time": "2026-11-22T11:30:00Z",
        "data": {"order_id": 7, "quantity": 2},
    }


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    """What OpenTelemetry exports. Its provider is global, and can be set once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    yield exporter
    provider.shutdown()


def test_a_trace_goes_on_behind_the_queue(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    """docs/metrics.md: producer, sink, queue, source, foreachBatch."""
    fake.create_queue("orders")
    names: dict[str, Any] = {
        "spark": spark,
        "azure": {"secret.connectionString": fake.connection_string},
        "orders": spark.range(5).withColumnRenamed("id", "order_id"),
    }
    send, *_ = examples("docs/metrics.md", begin="## Traces")

    exec(local(send, fake, tmp_path), names)
    fake.put_many("orders", ["no event"])
    exec(local(GO_ON, fake, tmp_path), names)
    try:
        fake.wait_until(lambda: fake.count("orders") == 0, PATIENCE_S)
    finally:
        names["query"].stop()

    sent, *processed = spans.get_finished_spans()
    of_trace = [span for span in processed if span.context.trace_id == sent.context.trace_id]
    assert sent.name == "send orders"
    assert [span.name for span in of_trace] == ["process orders"]
    assert of_trace[0].parent.span_id == sent.context.span_id
    assert len(processed) == 2, "what is no event has a trace of its own"
    rows = spark.read.parquet(f"{tmp_path}/data/orders").collect()
    assert sorted(row.id or row.reason for row in rows) == [
        *(f"order-{number}" for number in range(5)),
        "the body is neither JSON nor base64 of JSON",
    ]

    # A context for each message, as a sender may choose them: and not a job for each.
    many = [f"00-{number:032x}-{number:016x}-01" for number in range(1001, 1201)]
    bodies = [(json.dumps({**CONTEXT, "id": each, "traceparent": each}),) for each in many]
    frame = spark.createDataFrame(bodies, "body STRING")
    before = len(spans.get_finished_spans())
    names["work"](frame, 1)
    assert len(spans.get_finished_spans()[before:]) == 1
    written = [row.id for row in spark.read.parquet(f"{tmp_path}/data/orders").collect()]
    assert sorted({*many} & {*written}) == many


GO_ON = """
from opentelemetry.propagate import extract
from spark_azqueue import parsed_events


MOST_TRACES = 10


def work(batch, number):
    events = parsed_events(batch).persist()
    found = events.select("traceparent").distinct().limit(MOST_TRACES + 1).collect()
    same = F.col("traceparent").eqNullSafe
    parts = [(each, events.where(same(each))) for (each,) in found]
    if len(parts) > MOST_TRACES:
        parts = [(None, events)]
    for context, mine in parts:
        with tracer.start_as_current_span(
            "process orders",
            context=extract({"traceparent": context or ""}),
            kind=trace.SpanKind.CONSUMER,
            attributes={"spark.batch": number},
        ):
            rows = mine.select("id", "data", "reason")
            rows.write.mode("append").parquet("/data/orders")
    events.unpersist()


query = (
    spark.readStream.format("azqueue")
    .options(**azure)
    .option("queue", "orders")
    .load()
    .writeStream.foreachBatch(work)
    .option("checkpointLocation", "/checkpoints/orders")
    .start()
)
"""
"""A reader that continues the traces, in a stream of its own."""

CONTEXT = {"specversion": "1.0", "type": "order", "source": "/shop"}
