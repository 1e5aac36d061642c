"""onFailure=retract on real Spark: nothing of a failed write stays, and a retry makes no copies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import wait_for
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from spark_azqueue.testing import FakeQueueService, Fault

from .conftest import Streams
from .test_stream import PATIENCE_S


def failing_in_the_last_task(spark: SparkSession, port: int) -> DataFrame:
    """30 rows in three tasks. The last one has a bad row, and waits until this port lets it go."""

    def wait(rows: Iterator[Any]) -> Iterator[Any]:
        for batch in rows:
            if batch["id"].max() == 29:
                with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as gate:
                    gate.recv(1)
            yield batch

    frame = spark.range(0, 30, 1, 3).mapInPandas(wait, "id BIGINT")
    return frame.selectExpr("IF(id = 29, NULL, concat('m', id)) AS body")


def let_go_when_one_task_runs(
    spark: SparkSession, gate: socket.socket, fake: FakeQueueService
) -> None:
    """Let the last row come once 20 messages are put, and Spark's scheduler has one task left."""
    # The stages' counts that Spark publishes are renewed at its next event only.
    scheduler = spark.sparkContext._jsc.sc().taskScheduler()
    waiting, _ = gate.accept()
    with waiting:
        fake.wait_until(lambda: fake.requests["put"] == 20, PATIENCE_S)
        wait_for(
            lambda: "driver -> 1)" in scheduler.runningTasksByExecutors().toString(),
            "the other tasks to end",
        )


@pytest.mark.parametrize("on_failure", ["keep", "retract"])
def test_finished_tasks_are_taken_back_by_the_driver(
    spark: SparkSession, fake: FakeQueueService, queue: str, on_failure: str
) -> None:
    fake.create_queue(queue)
    options = {"secret.connectionString": fake.connection_string, "queue": queue}
    options |= {"onFailure": on_failure, "visibilityDelay": "600"}
    with socket.create_server(("127.0.0.1", 0)) as gate:
        gate.settimeout(PATIENCE_S)
        thread = threading.Thread(target=let_go_when_one_task_runs, args=(spark, gate, fake))
        thread.start()
        frame = failing_in_the_last_task(spark, gate.getsockname()[1])
        with pytest.raises(PythonException, match="the body is null"):
            frame.write.format("azqueue").mode("append").options(**options).save()
        thread.join()

    assert fake.requests["put"] == 20, "two tasks had finished"
    assert fake.count(queue) == (0 if on_failure == "retract" else 20)


@pytest.mark.core
def test_a_batch_that_failed_is_sent_once_when_it_comes_again(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    other = f"{queue}-out"
    for name in (queue, other):
        fake.create_queue(name)
    fake.put_many(queue, [f"m{number}" for number in range(20)])
    fake.faults.add(Fault("put", "forbidden", nth=13, queue=other))

    def start() -> Any:
        frame = streams.read(fake.connection_string, queue, writeAheadLog=f"file:{tmp_path}/wal")
        sink = frame.select("body").coalesce(1).writeStream.format("azqueue")
        sink = sink.option("secret.connectionString", fake.connection_string)
        sink = sink.option("queue", other).option("onFailure", "retract")
        sink = sink.option("sendParallelism", "1").trigger(availableNow=True)
        query = sink.option("checkpointLocation", str(streams.checkpoint)).start()
        streams.queries.append(query)
        return query

    with pytest.raises(StreamingQueryException, match="12 deleted again, 0 dequeued by a consum"):
        start().awaitTermination(PATIENCE_S)
    assert fake.count(other) == 0

    assert start().awaitTermination(PATIENCE_S)
    sent = [view.text for view in fake.messages(other)]
    assert sorted(sent) == sorted(f"m{number}" for number in range(20))
