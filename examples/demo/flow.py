"""The two ends of the demo: orders into the queue with the sink, out of it with the source."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from azure.storage.queue import LinearRetry, QueueClient
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from orders import SCHEMA, Order
from spark_azqueue import RunResult, run_until_done

QUEUE = "orders"

_CHUNK = 240
_HELD_AT_MOST = 480
"""Azurite gets slower with every message that it holds."""

_LEASES = "10 seconds"
"""What a killed process had leased ahead of its batches comes back after so long."""

_SENT_COLUMNS = "body STRING, visibility_delay INT, time_to_live INT"


class Feeder:
    """Writes the orders into the queue, chunk by chunk, as room becomes free in it.

    `sent` counts what was acknowledged.
    """

    def __init__(
        self, spark: SparkSession, connection_string: str, orders: Sequence[Order]
    ) -> None:
        self.sent = 0
        self._spark = spark
        self._connection_string = connection_string
        self._orders = orders
        self._enough = threading.Event()
        self._thread = ThreadPoolExecutor(1, "feeder")
        self._work: Future[None] = self._thread.submit(self._feed)

    def check(self) -> None:
        """Raise what stopped it, if something did."""
        if self._work.done():
            self._work.result()

    def end(self) -> None:
        """Stop it after the chunk at hand, and wait for that."""
        self._enough.set()
        self._thread.shutdown()

    def _feed(self) -> None:
        with open_queue(self._connection_string) as queue:
            for first in range(0, len(self._orders), _CHUNK):
                chunk = self._orders[first : first + _CHUNK]
                while not self._enough.is_set() and held(queue) + len(chunk) > _HELD_AT_MOST:
                    self._enough.wait(0.1)
                if self._enough.is_set():
                    return
                self._write(chunk)
                self.sent += len(chunk)

    def _write(self, chunk: Sequence[Order]) -> None:
        rows = [(order.body, order.visibility_delay, order.time_to_live) for order in chunk]
        (
            self._spark.createDataFrame(rows, _SENT_COLUMNS)
            .write.format("azqueue")
            .option("secret.connectionString", self._connection_string)
            .option("queue", QUEUE)
            .mode("append")
            .save()
        )


class Stream:
    """The query that streams the queue into Parquet, an order a row, under `folder`.

    It starts in the background, since Spark takes seconds to do so, and again after a failure.
    """

    def __init__(self, spark: SparkSession, connection_string: str, folder: Path) -> None:
        self._rows: dict[int, int] = {}
        self._runs: list[StreamingQuery] = []
        self._ending = False
        self._thread = ThreadPoolExecutor(1, "stream")

        def start() -> StreamingQuery:
            self._runs.append(_start_stream(spark, connection_string, folder))
            if self._ending:
                self._runs[-1].stop()
            return self._runs[-1]

        self._result: Future[RunResult] = self._thread.submit(run_until_done, start)

    @property
    def restarts(self) -> int:
        """How often it was started again."""
        return max(0, len(self._runs) - 1)

    def check(self) -> None:
        """Raise what stopped it, if something did."""
        if self._result.done() and (problem := self._result.result().error):
            raise problem

    def received(self) -> int:
        """How many rows finished micro-batches have written by now."""
        for run in [*self._runs]:
            for progress in run.recentProgress:
                self._rows[progress.batchId] = progress.numInputRows
        return sum(self._rows.values())

    def kill(self) -> bool:
        """Kill (-9) the source's process, which holds the leases. False if it has not begun."""
        if SparkContext._gateway is None:
            return False
        java = SparkContext._gateway.jvm.java.lang.ProcessHandle.current()
        return any(
            each.destroyForcibly()
            for each in java.children().toArray()
            if _SOURCE in each.info().commandLine().orElse("")
        )

    def end(self) -> None:
        """Stop it, and wait until it has ended."""
        self._ending = True
        while self._runs and not wait([self._result], 0.2).done:
            self._runs[-1].stop()
        self._thread.shutdown()


_SOURCE = "python_streaming_source_runner"


def _start_stream(spark: SparkSession, connection_string: str, folder: Path) -> StreamingQuery:
    messages = (
        spark.readStream.format("azqueue")
        .option("secret.connectionString", connection_string)
        .option("queue", QUEUE)
        .option("maxMessagesPerTrigger", "480")
        .option("visibilityTimeout", _LEASES)
        .option("writeAheadLog", f"file:{folder / 'log'}")
        .load()
    )
    return (
        _orders(messages)
        .writeStream.format("parquet")
        .option("path", str(folder / "orders"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def _orders(messages: DataFrame) -> DataFrame:
    """The transformation: JSON in, a total per order out."""
    return messages.select(
        F.from_json("body", SCHEMA).alias("order"), "message_id", "body", "insertion_time"
    ).select(
        "order.order_id",
        F.col("order.customer.name").alias("customer"),
        F.col("order.customer.city").alias("city"),
        F.size("order.items").alias("items"),
        F.expr("aggregate(order.items, 0L, (sum, i) -> sum + i.quantity * i.cents)").alias(
            "total_cents"
        ),
        "order.note",
        "order.placed_at",
        "message_id",
        "body",  # what is not such JSON becomes NULLs: so it is kept
        "insertion_time",
    )


@dataclass(frozen=True)
class Arrived:
    """What the Parquet files hold, against what was sent."""

    rows: int
    right: int
    """Distinct orders with the customer and the total that they were sent with."""
    distinct: int

    @property
    def duplicates(self) -> int:
        """Rows beyond the first of each order."""
        return self.rows - self.distinct


def compare(spark: SparkSession, folder: Path, orders: Sequence[Order]) -> Arrived:
    """Read the Parquet files and compare them with what was sent."""
    columns = "order_id STRING, customer STRING, total_cents BIGINT"
    rows = spark.read.schema(columns).parquet(str(folder / "orders")).collect()
    sent = {(order.order_id, order.customer, order.total_cents) for order in orders}
    return Arrived(
        rows=len(rows),
        right=len(sent & {tuple(row) for row in rows}),
        distinct=len({row.order_id for row in rows}),
    )


def open_queue(connection_string: str) -> QueueClient:
    """The Azure SDK's own view of the queue, to look at it from outside; use it in `with`."""
    # The SDK's usual retries would sleep for a minute and a half.
    retry = LinearRetry(backoff=1, retry_total=2, random_jitter_range=0)
    return QueueClient.from_connection_string(connection_string, QUEUE, retry_policy=retry)


def held(queue: QueueClient) -> int:
    """How many messages the service says there are: visible, delayed and leased ones."""
    return queue.get_queue_properties().approximate_message_count or 0


def nothing_to_dequeue(queue: QueueClient) -> bool:
    """Whether the queue gives no message."""
    return not list(queue.receive_messages(max_messages=1))
