"""Writes from threads that did not make the session: Spark's defect, and the way around it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from processes import PATIENCE_S
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_azqueue import DeadLetter, drain, explain, settle
from spark_azqueue.testing import FakeQueueService


def in_a_thread(work: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE_S)


def send(frame: DataFrame, fake: FakeQueueService, queue: str) -> None:
    sink = frame.write.format("azqueue").mode("append").option("queue", queue)
    sink.option("secret.connectionString", fake.connection_string).save()


def test_a_thread_writes_once_an_empty_frame_has_made_its_session_active(
    spark: SparkSession, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    frame = spark.range(3).selectExpr("string(id) AS body")

    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND") as failed:
        in_a_thread(lambda: send(frame, fake, queue))  # if it passes, Spark is mended: see the page
    said = explain(failed.value)
    assert said.error == "DATA_SOURCE_NOT_FOUND on a write"
    assert "in that thread" in said.remedy

    def work() -> None:
        spark.createDataFrame([], "a INT")
        send(frame, fake, queue)

    in_a_thread(work)
    assert sorted(each.text for each in fake.messages(queue)) == ["0", "1", "2"]


def test_streams_and_settle_in_threads(
    spark: SparkSession, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """A drain in a thread, whose sink is a queue; and a batch that is settled in a pool."""
    answers, dead = f"{queue}-answers", f"{queue}-dead"
    for name in (queue, answers, dead):
        fake.create_queue(name)
    azure = {"secret.connectionString": fake.connection_string}
    fake.put_many(queue, ["good", "bad"])

    def forward() -> Any:
        spark.createDataFrame([], "a INT")
        frame = spark.readStream.format("azqueue").options(**azure, queue=queue).load()
        sink = frame.select("body").writeStream.format("azqueue").options(**azure, queue=answers)
        sink = sink.option("checkpointLocation", str(tmp_path / "forward"))
        return sink.trigger(availableNow=True).start()

    assert in_a_thread(lambda: drain(forward, {**azure, "queue": queue}, restarts=0)).finished

    def work(batch: DataFrame, number: int) -> None:
        is_bad = F.col("body") == "bad"
        in_a_thread(lambda: settle(batch, azure, done=~is_bad, dead=DeadLetter(is_bad, dead)))

    frame = spark.readStream.format("azqueue").options(**azure, queue=answers)
    writer = frame.option("deleteOnCommit", "false").load().writeStream.foreachBatch(work)
    writer = writer.option("checkpointLocation", str(tmp_path / "settle"))
    assert writer.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)
    assert (fake.count(answers), fake.count(dead)) == (0, 1)
