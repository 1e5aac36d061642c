"""`try_apply`, `dead_letters` and `split_apply` on real Spark: bad rows cost no restart."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from lines import needs_true_available_now
from processes import PATIENCE_S
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue import (
    SplitRows,
    dead_letters,
    explain,
    run_until_done,
    split_apply,
    try_apply,
)
from spark_azqueue.errors import InvalidOption, InvalidSchema
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers have no `tests`

ORDER = "order_id BIGINT, quantity INT"
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def zone(spark: SparkSession):
    """A session whose time zone is not the machine's."""
    spark.conf.set(ZONE, "America/New_York")
    yield
    spark.conf.set(ZONE, "UTC")


def parse(orders: pd.DataFrame) -> pd.DataFrame:
    parsed = [json.loads(body) for body in orders["body"]]
    return pd.DataFrame(
        {name: [order[name] for order in parsed] for name in ("order_id", "quantity")}
    )


def model(table: pa.Table) -> pa.Table:
    """Gives scores; on some messages it raises."""
    bodies = table["body"].to_pylist()
    if any(body.endswith("!") for body in bodies):
        raise RuntimeError("the model does not know '!'")
    return pa.table({"score": [len(body) / 2 for body in bodies]})


def split_into(
    spark: SparkSession, azure: dict[str, str], folder: Path, function: Any, schema: str
) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`: good rows into a table of files, the others into `poison`."""

    def take(batch: DataFrame, number: int) -> None:
        split_apply(
            batch,
            function,
            schema,
            good=lambda rows: rows.write.mode("overwrite").parquet(f"{folder}/good/batch={number}"),
            dead=lambda rows: (
                dead_letters(rows)
                .write.format("azqueue")
                .mode("append")
                .options(**azure, queue="poison", createQueue="true")
                .save()
            ),
        )

    return take


@pytest.mark.core
@pytest.mark.parametrize("name", ["orders that do not parse", "a model that raises"])
def test_bad_messages_cost_themselves_and_no_restart(
    streams: Streams,
    spark: SparkSession,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    name: str,
) -> None:
    if name == "a model that raises":
        count, bad, function, schema = 2_000, range(150, 2_000, 333), model, "score DOUBLE"
        bodies = [f"text {n}" + ("!" if n in bad else "") for n in range(count)]
    else:
        count, bad, function, schema = 500, range(7, 500, 25), parse, ORDER
        bodies = [f'{{"order_id": {n}, "quantity": 1}}'[: 9 if n in bad else None] for n in
                  range(count)]  # fmt: skip
    fake.create_queue(queue)
    fake.put_many(queue, bodies)
    azure = {"secret.connectionString": fake.connection_string}
    options = {"maxMessagesPerTrigger": "200", "writeAheadLog": f"file:{tmp_path}/log"}
    take = split_into(spark, azure, tmp_path, function, schema)

    frame = streams.read(fake.connection_string, queue, **options)
    query = streams.each_batch(frame, take)
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)
    query.stop()

    assert query.exception() is None
    good = spark.read.parquet(f"{tmp_path}/good")
    assert good.count() == good.select("message_id").distinct().count() == count - len(bad)
    letters = [json.loads(view.text) for view in fake.messages("poison")]
    assert sorted(each["body"] for each in letters) == sorted(bodies[n] for n in bad)
    assert {each["queue"] for each in letters} == {queue}
    reason = "(test_trying.py:"
    assert all(reason in each["reason"] for each in letters)


def test_in_a_stream_alone_with_the_reason_beside_the_columns(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, ['{"order_id": 1, "quantity": 2}', "no order", '{"order_id": 3}'])

    frame = try_apply(streams.read(fake.connection_string, queue), parse, ORDER)
    streams.read_all(frame)

    found = {row.body: (row.order_id, row.quantity, row.error) for row in streams.rows}
    assert found.pop('{"order_id": 1, "quantity": 2}') == (1, 2, None)
    assert found['{"order_id": 3}'][2].startswith("KeyError: 'quantity' (test_trying.py:")
    assert found["no order"][2].startswith("json.decoder.JSONDecodeError: Expecting value")
    assert fake.count(queue) == 0


ALL_TYPES = """
    SELECT id, CAST(id AS DECIMAL(20, 3)) AS price, CAST('x' AS BINARY) AS raw,
        TIMESTAMP '2026-10-25 06:30:00Z' AS at, TIMESTAMP_NTZ '9999-12-31 23:59:59' AS local,
        DATE '0001-01-01' AS day, ARRAY(1, NULL, 3) AS list, INTERVAL '1' DAY AS span,
        MAP('k', TIMESTAMP '2026-01-01 00:00:00Z') AS map, DOUBLE('nan') AS nan, 1Y AS tiny,
        NAMED_STRUCT('s', ARRAY(NAMED_STRUCT('t', TIMESTAMP '2026-07-01 12:00:00Z'))) AS deep,
        PARSE_JSON('{"a": [1, 2]}') AS variant, CAST(NULL AS STRING) AS nothing,
        IF(id = 1, NULL, 9007199254740993L) AS big, id AS `a.b`, id AS twice, id + 1 AS twice
    FROM range(0, 30, 1, 2)
"""


def on_odd_rows(frame: pd.DataFrame) -> pd.DataFrame:
    if (frame["id"] % 2).any():
        raise ValueError("odd")
    frame["big"] = 0  # its copy
    return frame.assign(seen=[str(value) for value in frame["at"]])


def test_columns_of_all_types_pass_untouched(spark: SparkSession, zone: None) -> None:
    rows = spark.sql(ALL_TYPES)

    tried = try_apply(rows, on_odd_rows, "seen STRING", batch_rows=4, limit=None)

    kept = tried.drop("seen", "error")
    assert kept.schema == rows.schema
    assert str(kept.collect()) == str(rows.collect())
    seen = [row.seen for row in tried.select("seen").collect()]
    assert seen == ["2026-10-25 02:30:00", None] * 15


def test_results_of_all_types(spark: SparkSession, zone: None) -> None:
    rows = spark.sql(ALL_TYPES).drop("variant", "nan").limit(3).toDF(*"abcdefghijklmnop")
    schema = ", ".join(f"`new {name}` {kind}" for name, kind in rows.dtypes)

    def same(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.rename(columns=lambda name: f"new {name}")

    def same_in_arrow(table: pa.Table) -> pa.Table:
        return table.rename_columns([f"new {name}" for name in table.schema.names])

    without_large = [row for row in rows.collect() if row.m is None]
    for function, expected in ((same, without_large), (same_in_arrow, rows.collect())):
        tried = try_apply(rows.where("m IS NULL") if function is same else rows, function, schema)
        found = [row.asDict() for row in tried.collect()]
        assert [row.pop("error") for row in found] == [None] * len(expected)
        for row, old in zip(found, expected, strict=True):
            assert {name: row[f"new {name}"] for name in rows.columns} == old.asDict()


def test_a_schema_that_forbids_null_gives_null_where_a_row_failed(spark: SparkSession) -> None:
    schema = spark.sql("SELECT 1L AS n, ARRAY(NAMED_STRUCT('x', 1)) AS deep").schema
    assert not schema["n"].nullable

    def half(frame: pd.DataFrame) -> pd.DataFrame:
        if len(frame) > 1 or frame["id"].iloc[0] % 2:
            raise ValueError("odd, or too many")
        return pd.DataFrame({"n": [1], "deep": [[{"x": None}]]})

    rows = try_apply(spark.range(4), half, schema).collect()

    assert [row.n for row in rows] == [1, None, 1, None]
    assert [row.deep for row in rows] == [[Row(x=None)], None] * 2


@pytest.mark.parametrize(
    ("columns", "more", "error"),
    [
        (["id", "Error"], {}, "would add the column 'error', and there is one: .* in error"),
        (["id", "SCORE"], {}, "would add the column 'score', and there is one: .* in the schema"),
        (["id"], {"error": "Score"}, "would add the column 'Score'"),
        ([], {}, "at least one column"),
        (["id"], {"schema": "BIGINT"}, "a schema of the columns to add"),
        (["id"], {"batch_rows": 0}, r"batch_rows=0\): give a whole number above 0"),
        (["id"], {"limit": True}, r"limit=True\): give a whole number above 0"),
        (["id"], {"function": iter}, ""),
        (["id"], {"function": 7}, "a plain Python function"),
        (["id"], {"function": sf.udf(len)}, "a plain Python function, not a UDF"),
        (["id"], {"function": lambda rows: (yield rows)}, "a generator or a coroutine"),
    ],
)
def test_what_is_refused(spark: SparkSession, columns: list, more: dict, error: str) -> None:
    rows = spark.range(1).select(*(sf.col("id").alias(name) for name in columns))
    arguments = {"function": model, "schema": "score DOUBLE", **more}
    function, schema = arguments.pop("function"), arguments.pop("schema")
    if not error:
        try_apply(rows, function, schema, **arguments)
        return
    with pytest.raises((InvalidOption, InvalidSchema), match=error):
        try_apply(rows, function, schema, **arguments)


def test_a_zone_that_pandas_does_not_know_is_no_error_of_a_row(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 'abcd' AS body, TIMESTAMP '2026-01-01 00:00:00Z' AS at")

    def score(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"score": [2.0] * len(frame)})

    spark.conf.set(ZONE, "UTC+3")
    try:
        with pytest.raises(InvalidOption, match=r"time zone 'UTC\+3'"):
            try_apply(rows, score, "score DOUBLE")
        for tried in (
            try_apply(rows, model, "score DOUBLE"),
            try_apply(rows.drop("at"), score, "score DOUBLE"),
        ):
            assert [(row.score, row.error) for row in tried.collect()] == [(2.0, None)]
    finally:
        spark.conf.set(ZONE, "UTC")


def test_names_may_have_any_characters(spark: SparkSession) -> None:
    written: list[Row] = []

    split_apply(
        spark.range(2).withColumnRenamed("id", "a.b"),
        lambda frame: pd.DataFrame({"x`y": frame["a.b"]}),
        "`x``y` BIGINT",
        error="e`.r",
        good=lambda rows: written.extend(rows.collect()),
        dead=print,
    )

    assert [row.asDict() for row in written] == [{"a.b": n, "x`y": n} for n in range(2)]


def test_names_may_differ_in_their_case_if_spark_says_so(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        rows = spark.range(1).withColumn("BODY", sf.lit("a")).withColumn("Error", sf.lit(1))
        tried = try_apply(rows.withColumn("body", sf.lit("abcd")), model, "score DOUBLE")
        assert [(row.score, row.error) for row in tried.collect()] == [(2.0, None)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_an_outage_fails_the_job_with_our_error(spark: SparkSession) -> None:
    def unreachable(frame: pd.DataFrame) -> pd.DataFrame:
        if frame["id"].iloc[-1] > 1_000:
            raise ConnectionError("model.internal: no answer")
        return pd.DataFrame({"x": frame["id"]})

    with pytest.raises(Exception, match="AZQUEUE_FUNCTION_FAILED") as raised:
        try_apply(spark.range(0, 9_000, 1, 1), unreachable, "x BIGINT").collect()

    found = explain(raised.value)
    assert "ConnectionError: model.internal: no answer (test_trying.py:" in found.sentence


def envelope_rows(spark: SparkSession, body: str = "body STRING") -> DataFrame:
    schema = f"message_id STRING, queue STRING, {body}, error STRING, dequeue_count INT"
    rows = spark.createDataFrame(
        [("1", "orders", "a\ufffe", "why", 2), ("2", "orders", "b", None, 1)]
        if "STRING" in body
        else [("1", "orders", b"\xff", "why", 2)],
        schema,
    )
    return rows.withColumn("insertion_time", sf.expr("TIMESTAMP '2026-11-23 09:30:00.5Z'"))


def test_the_envelopes_are_those_of_the_source(spark: SparkSession, zone: None) -> None:
    (row,) = dead_letters(envelope_rows(spark)).collect()

    assert row.time_to_live == -1
    assert row.body == (
        '{"reason":"why","queue":"orders","message_id":"1",'
        '"insertion_time":"2026-11-23T09:30:00Z","dequeue_count":2,"body":"a\\ufffe",'
        '"body_encoding":"text","written_by":"spark-azqueue"}'
    )
    (binary,) = dead_letters(envelope_rows(spark, "body BINARY"), "error").collect()
    assert '"body":"/w==","body_encoding":"base64"' in binary.body


def test_a_body_without_room_goes_alone_and_one_that_did_not_decode_as_stored(
    spark: SparkSession,
) -> None:
    rows = envelope_rows(spark).where("message_id = '1'")
    long = rows.withColumn("body", sf.expr("repeat('x', 65536)"))
    longer = rows.withColumn("body", sf.expr("repeat('x', 65537)"))
    stored = rows.withColumn("body", sf.lit(None).cast("string"))
    stored = stored.withColumn("_corrupt_record", sf.lit("no base64!"))

    assert [row.body for row in dead_letters(long).collect()] == ["x" * 65_536]
    assert dead_letters(longer).first().body.endswith('"written_by":"spark-azqueue"}')
    assert '"body":"no base64!","body_encoding":"stored"' in dead_letters(stored).first().body
    with pytest.raises(Exception, match="its body is null"):
        dead_letters(stored.drop("_corrupt_record")).collect()


def test_dead_letters_needs_the_columns_of_the_source(spark: SparkSession) -> None:
    rows = envelope_rows(spark)

    with pytest.raises(InvalidSchema, match="needs the column 'queue'"):
        dead_letters(rows.drop("queue"))
    with pytest.raises(InvalidSchema, match="needs the column 'why'"):
        dead_letters(rows, "why")
    with pytest.raises(InvalidSchema, match="it is struct"):
        dead_letters(rows.withColumn("body", sf.struct("body")))


def flaky(folder: Path) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Fails on a row every second time it gets it, beginning with a failure."""

    def once(frame: pd.DataFrame) -> pd.DataFrame:
        for n in frame["id"] if len(frame) == 1 else ():
            mark = folder / str(n)
            if not mark.exists():
                mark.touch()
                raise ValueError("not now")
            mark.unlink()
        if len(frame) > 1:
            raise ValueError("one by one")
        return pd.DataFrame({"x": frame["id"]})

    return once


def test_a_flaky_row_is_in_one_output_and_what_is_lost_is_not_evaluated_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(0, 40, 1, 2)
    (tmp_path / "twice").mkdir()
    (tmp_path / "once").mkdir()

    # As two writes of one DataFrame: rows that fall out of both
    tried = try_apply(rows, flaky(tmp_path / "twice"), "x BIGINT", limit=None)
    in_both = tried.where("error IS NULL").count() + tried.where("error IS NOT NULL").count()
    assert in_both != 40

    written: dict[str, list[int]] = {}
    split = split_apply(
        rows,
        flaky(tmp_path / "once"),
        "x BIGINT",
        limit=None,
        good=lambda rows: written.update(good=[row.id for row in rows.collect()]),
        dead=lambda rows: written.update(dead=[row.id for row in rows.collect()]),
    )
    assert split == SplitRows(good=0, dead=40)
    assert written == {"dead": list(range(40))}


def test_a_store_that_is_lost_fails_the_batch(spark: SparkSession) -> None:
    def lose(rows: DataFrame) -> None:
        stored = spark.sparkContext._jsc.getPersistentRDDs()
        for key in list(stored):
            stored[key].unpersist(True)
        rows.collect()

    with pytest.raises(Exception, match="Checkpoint block"):
        split_apply(
            spark.range(40),
            lambda frame: pd.DataFrame({"x": frame["id"]}),
            "x BIGINT",
            good=lose,
            dead=lambda rows: None,
        )


def test_two_attempts_of_a_task_cannot_leave_different_results(
    spark: SparkSession, tmp_path: Path
) -> None:
    def split() -> SplitRows:
        return split_apply(
            spark.range(4),
            lambda frame: pd.DataFrame({"x": frame["id"]}),
            "x BIGINT",
            good=lambda rows: rows.collect(),
            dead=lambda rows: None,
        )

    checkpoints, speculation = "spark.checkpoint.dir", "spark.speculation"
    context = spark.sparkContext
    assert context.getCheckpointDir() is None
    session = _Conf(spark, {speculation: "true"})
    with session, pytest.raises(InvalidOption, match=checkpoints):
        split()


class _Conf:
    """Settings of the context, which a session may not change, as if it had begun with them."""

    def __init__(self, spark: SparkSession, values: dict[str, str]) -> None:
        self._conf = spark._jsparkSession.sessionState().conf()
        self._values = values

    def __enter__(self) -> None:
        for name, value in self._values.items():
            self._conf.setConfString(name, value)

    def __exit__(self, *_: object) -> None:
        for name in self._values:
            self._conf.unsetConf(name)


def test_split_apply_is_for_batches(streams: Streams, fake: FakeQueueService, queue: str) -> None:
    fake.create_queue(queue)
    frame = streams.read(fake.connection_string, queue)

    with pytest.raises(InvalidOption, match="the batch that foreachBatch gives"):
        split_apply(frame, parse, ORDER, good=print, dead=print)


@needs_true_available_now
def test_a_function_that_kills_its_worker_is_isolated_by_restarts(
    streams: Streams, spark: SparkSession, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """No error reaches the task, so no row can have it."""
    fake.create_queue(queue)
    fake.put_many(queue, ["1", "2", "kills", "4"])

    def cruel(frame: pd.DataFrame) -> pd.DataFrame:
        if "kills" in set(frame["body"]):
            os._exit(7)
        return pd.DataFrame({"n": [int(body) for body in frame["body"]]})

    options = {"maxDequeueCount": "1", "poisonFormat": "copy"}
    rows = streams.read(fake.connection_string, queue, **options)
    writer = try_apply(rows, cruel, "n INT").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.option("path", str(tmp_path / "out")).trigger(availableNow=True)

    result = run_until_done(writer.start, restarts=20, first_wait=0.1)

    assert result.finished
    assert [view.text for view in fake.messages(f"{queue}-poison")] == ["kills"]
    assert {row.n for row in spark.read.parquet(str(tmp_path / "out")).collect()} == {1, 2, 4}


@needs_true_available_now
@pytest.mark.parametrize("mode", ["no log", "log", "executors"])
def test_a_message_that_restarts_isolate_has_the_error_of_the_query_in_its_dead_letter(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path, mode: str
) -> None:
    """The error is one of the JVM, within two wrappers of Spark."""
    fake.create_queue(queue)
    fake.put_many(queue, ['{"id": 1}', '{"id": 2}', "no JSON", '{"id": 4}'])
    options = {"maxDequeueCount": "1"}
    if mode != "no log":
        options["writeAheadLog"] = f"file:{tmp_path}/log"
    if mode == "executors":
        options |= {"leaseOn": "executors", "deleteAfter": "log"}
    arrived = streams.read(fake.connection_string, queue, **options)
    parsed = arrived.select(sf.from_json("body", "id INT", {"mode": "FAILFAST"}).id.alias("id"))
    rows: dict[int, list[int]] = {}

    def take(batch: DataFrame, number: int) -> None:
        rows[number] = [row.id for row in batch.collect()]

    def start() -> StreamingQuery:
        return streams.each_batch(parsed, take, availableNow=True)

    assert run_until_done(start, restarts=20, first_wait=0.1).finished
    (poison,) = fake.messages(f"{queue}-poison")
    envelope = json.loads(poison.text)
    assert envelope["body"] == "no JSON"
    assert "The last error: org.apache.spark.SparkException: [MALFORMED_" in envelope["reason"]
    assert "(raised in take, " in envelope["reason"]
    assert sorted(chain(*rows.values())) == [1, 2, 4]


def never(orders: pd.DataFrame) -> pd.DataFrame:
    if len(orders):
        raise ValueError("another encoding")
    return pd.DataFrame({"x": orders["body"].str.len()})


def test_an_outage_is_counted_over_small_batches(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, ["bad"] * 120)
    dead: list[int] = []

    def take(batch: DataFrame, _: int) -> None:
        split_apply(
            batch,
            never,
            "x BIGINT",
            good=lambda rows: None,
            dead=lambda rows: dead.append(rows.count()),
        )

    frame = streams.read(fake.connection_string, queue, maxMessagesPerTrigger="12")
    query = streams.each_batch(frame, take, availableNow=True)
    with pytest.raises(Exception, match="AZQUEUE_FUNCTION_FAILED"):
        query.awaitTermination(PATIENCE_S)

    assert sum(dead) == 24
