"""The main job on real Spark: messages in, rows out, queue empty."""

from __future__ import annotations

import time
from typing import Any

import pytest
from lines import needs_true_available_now
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

PATIENCE_S = 240


def send(spark: SparkSession, connection_string: str, queue: str, bodies: list[Any]) -> None:
    frame = spark.createDataFrame([(body,) for body in bodies], "body string").coalesce(1)
    write = frame.write.format("azqueue").mode("append")
    write = write.option("secret.connectionString", connection_string).option("queue", queue)
    write.option("createQueue", "true").save()


@pytest.mark.core
def test_every_message_is_a_row_once_and_the_queue_ends_empty(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(300)])
    streams.collect(
        streams.read(
            fake.connection_string, queue, visibilityTimeout="60", maxMessagesPerTrigger="128"
        )
    )

    # No new message comes, and yet the last batch is settled.
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)

    assert sorted(streams.bodies()) == sorted(f"m{i}" for i in range(300))
    for _ in range(3):  # three visibility timeouts later nothing has come back
        looks = fake.requests["dequeue"]
        fake.clock.advance(61)
        fake.wait_until(lambda looks=looks: fake.requests["dequeue"] > looks + 1, PATIENCE_S)
    assert len(streams.rows) == 300
    assert fake.requests["delete"] == 300


@pytest.mark.core
def test_two_actions_on_a_batch_see_the_same_messages_and_nothing_is_deleted_before_the_commit(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(100)])
    counts: list[tuple[int, int, int]] = []

    def count_first(batch: DataFrame, number: int) -> None:
        counts.append((batch.count(), fake.requests["delete"], fake.count(queue)))

    streams.collect(streams.read(fake.connection_string, queue), count_first)
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)

    assert [c for c in counts if c[0]] == [(100, 0, 100)]
    assert sorted(streams.bodies()) == sorted(f"m{i}" for i in range(100))


def test_an_idle_stream_asks_seldom_and_wakes_up_for_a_message(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    streams.collect(streams.read(fake.connection_string, queue, maxPollInterval="500 ms"))
    fake.wait_until(lambda: fake.requests["dequeue"] >= 16, PATIENCE_S)  # the pause has grown

    before, since = fake.requests["dequeue"], time.monotonic()
    fake.wait_until(lambda: fake.requests["dequeue"] >= before + 6, PATIENCE_S)
    # Six further looks cannot take less than five full pauses: however slow the machine.
    assert time.monotonic() - since >= 5 * 0.5

    fake.put(queue, "wake up")
    fake.wait_until(lambda: fake.requests["delete"] == 1, PATIENCE_S)
    assert streams.bodies() == ["wake up"]


def test_columns_and_a_users_choice_of_them(
    spark: SparkSession, streams: Streams, connection_string: str, queue: str
) -> None:
    send(spark, connection_string, queue, ["hello"])
    frame = (
        spark.readStream.format("azqueue")
        .schema("dequeue_count int, body string, insertion_time timestamp")
        .option("secret.connectionString", connection_string)
        .option("queue", queue)
        .load()
    )
    streams.read_all(frame)

    (row,) = streams.rows
    assert row.asDict().keys() == {"dequeue_count", "body", "insertion_time"}
    assert (row.dequeue_count, row.body) == (1, "hello")


def finish(query: StreamingQuery) -> None:
    assert query.awaitTermination(PATIENCE_S), "the query did not end by itself"


@needs_true_available_now  # docs/supervision.md: some of what arrives is read
def test_available_now_on_10000_ends_with_these_settled_and_leaves_what_came_meanwhile(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(10_000)])
    fake.reset_counters()
    late: list[str] = []

    def somebody_else_sends(batch: DataFrame, number: int) -> None:
        if number == 1:  # later than the second in which the query started
            fake.clock.advance(2)
            late.extend(fake.put_many(queue, [f"late {i}" for i in range(50)]))

    frame = streams.read(fake.connection_string, queue)
    streams.read_all(frame, somebody_else_sends)

    assert sorted(streams.bodies()) == sorted(f"m{i}" for i in range(10_000))
    assert {view.id for view in fake.messages(queue)} == set(late)
    assert fake.visible(queue) == 50, "they can be read at once by whoever comes next"


def test_requests_per_message_over_a_drain_of_10000(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(10_000)])
    fake.reset_counters()
    streams.read_all(streams.read(fake.connection_string, queue))

    assert len(streams.rows) == 10_000
    assert fake.count(queue) == 0
    assert sum(fake.requests.values()) <= 1.04 * 10_000, fake.requests


def test_queues_of_a_pattern_come_and_go_while_the_stream_runs(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    first, second = f"{queue}-1", f"{queue}-2"
    fake.create_queue(first)
    fake.put_many(first, [f"a{i}" for i in range(40)])
    streams.collect(streams.read(fake.connection_string, f"{queue}-*", maxDequeueCount="3"))
    fake.wait_until(lambda: fake.count(first) == 0, PATIENCE_S)

    fake.create_queue(second)
    fake.put_many(second, [f"b{i}" for i in range(40)])
    fake.delete_queue(first)  # the next dequeue from it shows that, and so the second is found
    fake.wait_until(lambda: fake.count(second) == 0, PATIENCE_S)

    assert sorted(streams.bodies()) == sorted(f"{q}{i}" for q in "ab" for i in range(40))
