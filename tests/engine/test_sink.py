"""The sink on real Spark: batch and stream, per-row columns, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from spark_azqueue.metrics.query_metrics import metrics_of
from spark_azqueue.testing import FakeQueueService, Fault

from .conftest import Streams
from .test_stream import PATIENCE_S, finish

HOUR_S, DAY_S = 3600, 24 * 3600


def writer(
    frame: DataFrame, fake: FakeQueueService, queue: str | None = None, **options: Any
) -> DataFrameWriter:
    write = frame.write.format("azqueue").mode("append").options(**options)
    write = write.option("secret.connectionString", fake.connection_string)
    return write.option("queue", queue) if queue else write


@pytest.mark.core
def test_rows_choose_their_queue_delay_and_time_to_live(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    other = f"{queue}-other"
    fake.create_queue(queue)
    fake.create_queue(other)
    rows = [
        ("default", None, None, None),
        ("elsewhere", other, None, None),
        ("later", None, 60, None),
        ("short", None, None, HOUR_S),
        ("for ever", None, 5, -1),
    ]
    schema = "body string, queue string, visibility_delay int, time_to_live int"
    frame = spark.createDataFrame(rows, schema)
    by_row = writer(frame, fake, None, visibilityDelay="10", timeToLive="2 days")
    by_row.option("defaultQueue", queue).save()

    sent = {view.text: view for name in (queue, other) for view in fake.messages(name)}
    delays = {text: round(view.next_visible - view.insertion) for text, view in sent.items()}
    assert delays == {"default": 10, "elsewhere": 10, "later": 60, "short": 10, "for ever": 5}
    lives = {text: round(view.expiration - view.insertion) for text, view in sent.items()}
    assert lives.pop("for ever") > 1_000 * 365 * DAY_S
    assert lives == {
        "default": 2 * DAY_S,
        "elsewhere": 2 * DAY_S,
        "later": 2 * DAY_S,
        "short": HOUR_S,
    }
    assert [view.text for view in fake.messages(other)] == ["elsewhere"]

    # What the service makes of them, by its clock: not visible before, gone after.
    assert fake.visible(queue) == 0
    fake.clock.advance(11)
    assert fake.visible(queue) == 3  # default, short, for ever
    fake.clock.advance(50)
    assert fake.visible(queue) == 4
    fake.clock.advance(HOUR_S)
    assert fake.count(queue) == 3
    fake.clock.advance(3 * DAY_S)
    assert [view.text for view in fake.messages(queue)] == ["for ever"]


@pytest.mark.core
def test_a_stream_from_one_queue_into_another(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(120)])
    target = f"{queue}-out"
    query = (
        streams.read(fake.connection_string, queue)
        .selectExpr("upper(body) AS body")
        .writeStream.format("azqueue")
        .option("secret.connectionString", fake.connection_string)
        .option("queue", target)
        .option("createQueue", "true")
        .option("checkpointLocation", str(streams.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)

    assert fake.count(queue) == 0
    assert sorted(view.text for view in fake.messages(target)) == sorted(
        f"M{i}" for i in range(120)
    )
    progress = next(p for p in query.recentProgress if p.numInputRows)
    assert progress.sink.numOutputRows == 120
    metrics = metrics_of(json.loads(progress.json))
    assert metrics is not None
    assert metrics.sink_rows == 120


def test_a_stream_of_another_source_is_written_with_every_column(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    fake.create_queue(queue)
    lines = [f"line {n}" for n in range(100)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "lines.txt").write_text("\n".join(lines))
    frame = spark.readStream.text(str(tmp_path / "in")).selectExpr(
        "100 AS time_to_live", "'not for the sink' AS more", "value AS body", "length(value) AS n"
    )
    query = (
        frame.withColumnRenamed("n", "visibility_delay")
        .writeStream.format("azqueue")
        .option("secret.connectionString", fake.connection_string)
        .option("queue", queue)
        .option("ignoreExtraColumns", "true")
        .option("checkpointLocation", str(streams.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    finish(query)

    sent = {view.text: view for view in fake.messages(queue)}
    assert sorted(sent) == sorted(lines)
    delays = {text: round(view.next_visible - view.insertion) for text, view in sent.items()}
    assert delays == {line: len(line) for line in lines}
    assert {round(view.expiration - view.insertion) for view in sent.values()} == {100}


@pytest.mark.parametrize(
    "kind", [pytest.param("busy_503", marks=pytest.mark.core), "error_500", "reset"]
)
def test_puts_that_fail_for_a_moment_are_tried_again(
    spark: SparkSession, fake: FakeQueueService, queue: str, kind: str
) -> None:
    fake.create_queue(queue)
    fake.faults.add(Fault("put", kind, every=5, times=8, seconds=0))
    frame = spark.range(100).selectExpr("concat('m', id) AS body")
    writer(frame, fake, queue).save()

    assert sorted(view.text for view in fake.messages(queue)) == sorted(f"m{i}" for i in range(100))
    assert fake.faults.injected[kind] == 8


@pytest.mark.core
def test_a_lost_reply_may_repeat_a_message_but_loses_none(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.faults.add(Fault("put", "reply_lost", every=10, times=5))
    frame = spark.range(100).selectExpr("concat('m', id) AS body")
    writer(frame, fake, queue).save()

    texts = [view.text for view in fake.messages(queue)]
    assert set(texts) == {f"m{i}" for i in range(100)}
    assert len(texts) <= 100 + fake.faults.injected["reply_lost"]


@pytest.mark.parametrize(
    "row",
    [pytest.param(7, id="in the middle", marks=pytest.mark.core), pytest.param(19, id="the last")],
)
def test_a_write_fails_when_a_put_does(
    spark: SparkSession, fake: FakeQueueService, queue: str, row: int
) -> None:
    fake.create_queue(queue)
    fake.faults.add(Fault("put", "forbidden", nth=row + 1))
    frame = spark.range(20).selectExpr("concat('m', id) AS body").coalesce(1)
    with pytest.raises(PythonException) as caught:
        writer(frame, fake, queue, parallelism="1").save()

    text = str(caught.value)
    assert f"row {row} of this task was not accepted" in text
    assert "'Storage Queue Data Message Sender'" in text
    sent = fake.count(queue)
    assert sent >= row
    assert f"that were acknowledged: {sent} (a retry of the task sends them again)" in text


def test_a_queue_that_does_not_exist(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    frame = spark.range(3).selectExpr("cast(id AS string) AS body")
    with pytest.raises(PythonException, match=f"queue '{queue}'.*QueueNotFound.*createQueue=true"):
        writer(frame, fake, queue).save()
    query = streams.collect(streams.read(fake.connection_string, queue))
    with pytest.raises(StreamingQueryException, match=f"queue '{queue}'.*QueueNotFound"):
        query.awaitTermination(PATIENCE_S)

    writer(frame, fake, queue, createQueue="true").save()
    assert fake.count(queue) == 3


def test_the_counters_of_a_write_are_in_sparks_table_of_worker_logs(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.faults.add(Fault("put", "busy_503", nth=3, seconds=0), Fault("put", "error_500", nth=5))
    frame = spark.range(20).selectExpr("concat('m', id % 10) AS body")
    spark.conf.set(WORKER_LOGS, "true")
    try:
        writer(frame, fake, queue).save()
        logs = spark.tvf.python_worker_logs().where("logger = 'spark_azqueue.sink.writers'")
        (row,) = logs.collect()
    finally:
        spark.conf.unset(WORKER_LOGS)

    assert row.msg.startswith("all written: 20 rows acknowledged, 0 with a stale receipt, 0 dead-")
    counts = {name: row.context[name] for name in ("rows", "bytes", "retries", "throttled")}
    assert counts == {"rows": "20", "bytes": "40", "retries": "2", "throttled": "1"}


WORKER_LOGS = "spark.sql.pyspark.worker.logging.enabled"
