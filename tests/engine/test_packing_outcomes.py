"""Rows of packed messages that fail, or have outcomes of their own: none is lost, one is guilty."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from lines import needs_true_available_now
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_azqueue import (
    DeadLetter,
    Retry,
    Settled,
    dead_letters,
    pack,
    run_until_done,
    settle,
    unpack,
)
from spark_azqueue.commands.command_line import main
from spark_azqueue.options.account import ENVIRONMENT_VARIABLE
from spark_azqueue.rows.packing.bodies import FORMATS
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

ROWS = 300
GUILTY = 137


def packed(ids: range) -> str:
    chosen = FORMATS["arrow"]
    rows = pa.RecordBatch.from_pydict({"id": ids})
    return base64.b64encode(chosen.packed(chosen.prepared(rows))).decode()


def texts(fake: FakeQueueService, queue: str) -> list[str]:
    return [message.text for message in fake.messages(queue)]


def ids_in(spark: SparkSession, *bodies: str) -> list[int]:
    messages = spark.createDataFrame([(body,) for body in bodies], "body STRING")
    return [row.id for row in unpack(messages, "id INT").collect()]


@needs_true_available_now
def test_of_three_hundred_rows_the_guilty_one_stays_alone(
    streams: Streams,
    spark: SparkSession,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    fake.create_queue(queue)
    fake.put_many(queue, [packed(range(start, start + 100)) for start in range(0, ROWS, 100)])
    options = {"maxDequeueCount": "1"}
    rows = unpack(streams.read(fake.connection_string, queue, **options), "id BIGINT")
    scored = rows.select(
        sf.when(sf.col("id") == GUILTY, sf.raise_error(sf.lit("guilty"))).otherwise(sf.col("id"))
    ).toDF("id")
    writer = scored.writeStream.format("parquet").option("path", str(tmp_path / "out"))
    writer = writer.option("checkpointLocation", str(streams.checkpoint)).trigger(availableNow=True)

    def delivered() -> Counter[int]:
        return Counter(row.id for row in spark.read.parquet(str(tmp_path / "out")).collect())

    assert run_until_done(writer.start, restarts=30, first_wait=0.1).finished
    assert delivered() == Counter([*range(100), *range(200, 300)])
    assert fake.count(f"{queue}-poison") == 1

    assert main(["redrive", f"{queue}-poison", "--split", "--execute"]) == 0
    assert fake.count(queue) == 100

    assert run_until_done(writer.start, restarts=60, first_wait=0.1).finished
    assert delivered() == Counter({*range(ROWS)} - {GUILTY})
    assert fake.count(queue) == 0
    assert fake.count(f"{queue}-poison") == 1
    assert main(["redrive", f"{queue}-poison", "--execute"]) == 0
    assert ids_in(spark, *texts(fake, queue)) == [GUILTY]


def test_dead_letters_of_unpacked_rows_are_rows_by_themselves(
    spark: SparkSession, fake: FakeQueueService, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, fake.connection_string)
    for name in (queue, f"{queue}-poison"):
        fake.create_queue(name)
    bodies = [
        *(("m1", queue, packed(range(5))), ("m2", queue, "no pack")),
        ("m3", queue, packed([3, 3])),  # two rows alike: neither is the other's twin
    ]
    messages = spark.createDataFrame(bodies, "message_id STRING, queue STRING, body STRING")
    rows = unpack(messages, "id BIGINT, more STRING", corrupt="column", keep_body=True)
    scored = rows.withColumn(
        "error", sf.when(sf.coalesce(sf.col("id"), sf.lit(3)) == 3, sf.lit("bad"))
    )
    account = {"secret.connectionString": fake.connection_string}
    writer = dead_letters(scored).write.format("azqueue").mode("append")
    writer.options(**account, queue=f"{queue}-poison").save()
    assert fake.count(f"{queue}-poison") == 4

    assert main(["redrive", f"{queue}-poison", "--execute"]) == 0

    found = [message.text for message in fake.messages(queue)]
    assert "no pack" in found
    (alone,) = {*found} - {"no pack"}
    assert found.count(alone) == 3
    (row,) = unpack(spark.createDataFrame([(alone,)], "body STRING"), "id BIGINT").collect()
    assert (row.message_row, row.id) == (0, 3)


def test_settle_keeps_a_message_whose_rows_differ(
    streams: Streams, spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    """What keeps it longest counts; the rows to try again go back by `pack`."""
    dead = f"{queue}-dead"
    for name in (queue, dead):
        fake.create_queue(name)
    fake.put_many(queue, [packed(range(start, start + 10)) for start in (0, 100, 200)])
    azure = {"secret.connectionString": fake.connection_string}
    seen: list[Settled] = []
    number = sf.col("id")

    def work(batch: DataFrame, _: int) -> None:
        rows = unpack(batch, "id BIGINT", keep_body=True).persist()
        again = rows.where(number % 10 == 7).where("id < 100").select("id")
        writer = pack(again.coalesce(1)).write.format("azqueue").mode("append")
        writer.options(**azure, queue=queue).save()
        seen.append(
            settle(
                rows,
                azure,
                done=number <= 100,
                retry=Retry((number > 100) & (number < 200), 600),
                dead=DeadLetter(number >= 200, dead),
            )
        )
        rows.unpersist()

    frame = streams.read(fake.connection_string, queue, deleteOnCommit="false")
    query = streams.each_batch(frame, work, availableNow=True)
    assert query.awaitTermination(120)

    # The rows sent again may come in this run too: a run takes what came within its second.
    outcomes = [(each.done, each.retry, each.dead, each.left) for each in seen if each.done]
    assert outcomes[0] == (1, 1, 1, 0)
    assert set(outcomes[1:]) <= {(1, 0, 0, 0)}
    (letter,) = (json.loads(message.text) for message in fake.messages(dead))
    assert ids_in(spark, letter["body"]) == [*range(200, 210)]
    left = [each for text in texts(fake, queue) for each in ids_in(spark, text)]
    assert sorted(left) == [7, *range(100, 110)]


def test_settle_collects_the_body_of_a_message_once(
    streams: Streams,
    spark: SparkSession,
    fake: FakeQueueService,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each row of a message may have its whole body: `unpack(…, keep_body=True)`."""
    dead = f"{queue}-dead"
    for name in (queue, dead):
        fake.create_queue(name)
    fake.put_many(queue, [packed(range(1_000)), packed(range(1_000, 2_000))])
    azure = {"secret.connectionString": fake.connection_string}
    collected: list[int] = []
    settled: list[Settled] = []

    def work(batch: DataFrame, _: int) -> None:
        rows = unpack(batch, "id BIGINT", keep_body=True)
        collect = type(rows).collect

        def counted(frame: DataFrame) -> list:
            found = collect(frame)
            collected.append(len(found))
            return found

        with monkeypatch.context() as patch:
            patch.setattr(type(rows), "collect", counted)
            failed = sf.col("id") >= 1_000
            reason = sf.concat(sf.lit("row "), sf.col("id"))
            settled.append(settle(rows, azure, done=~failed, dead=DeadLetter(failed, dead, reason)))

    frame = streams.read(fake.connection_string, queue, deleteOnCommit="false")
    query = streams.each_batch(frame, work, availableNow=True)
    assert query.awaitTermination(120)

    assert collected[0] == 2
    assert (settled[0].done, settled[0].dead) == (1, 1)
    (letter,) = (json.loads(message.text) for message in fake.messages(dead))
    assert letter["reason"] == "row 1000"
    assert ids_in(spark, letter["body"]) == [*range(1_000, 2_000)]
