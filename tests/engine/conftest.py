"""Small ways to run streams in the tests' Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lines import read_all
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService

from .chains import Chain


@pytest.fixture(params=["fake", "azurite"])
def connection_string(request: pytest.FixtureRequest) -> str:
    """Both services: what a test shows must hold on each."""
    if request.param == "fake":
        service: FakeQueueService = request.getfixturevalue("fake")
        return service.connection_string
    text: str = request.getfixturevalue("azurite_connection_string")
    return text


class Streams:
    """Starts streams on one service and stops them at the test's end."""

    def __init__(self, spark: SparkSession, checkpoint: Path) -> None:
        self.spark = spark
        self.checkpoint = checkpoint
        self.queries: list[StreamingQuery] = []
        self.rows: list[Any] = []

    def read(self, connection_string: str, queue: str, **options: str) -> DataFrame:
        return (
            self.spark.readStream.format("azqueue")
            .option("secret.connectionString", connection_string)
            .option("queue", queue)
            .options(**options)
            .load()
        )

    def collect(
        self,
        frame: DataFrame,
        on_batch: Callable[[DataFrame, int], None] | None = None,
        **trigger: Any,
    ) -> StreamingQuery:
        """Run a stream that appends its rows to `self.rows`."""

        def take(batch: DataFrame, number: int) -> None:
            if on_batch:
                on_batch(batch, number)
            self.rows.extend(batch.collect())

        return self.each_batch(frame, take, **trigger)

    def each_batch(
        self, frame: DataFrame, work: Callable[[DataFrame, int], None], **trigger: Any
    ) -> StreamingQuery:
        """Run a stream that does this with each batch, and nothing else."""
        writer = frame.writeStream.foreachBatch(work)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        if trigger:
            writer = writer.trigger(**trigger)
        query = writer.start()
        self.queries.append(query)
        return query

    def read_all(
        self, frame: DataFrame, on_batch: Callable[[DataFrame, int], None] | None = None
    ) -> None:
        """The same with availableNow, until all is read and deleted; on old Spark in many runs."""
        read_all(lambda: self.collect(frame, on_batch, availableNow=True))

    def roll_back(self, batches: int, logs: tuple[str, ...] = ("offsets", "commits")) -> None:
        """Remove the newest entries of these of Spark's logs; "commits" alone: as a kill does."""
        for log in logs:
            folder = self.checkpoint / log
            numbers = sorted(int(path.name) for path in folder.glob("[0-9]*"))
            for number in numbers[-batches:]:
                (folder / f"{number}").unlink()
                (folder / f".{number}.crc").unlink(missing_ok=True)

    def bodies(self) -> list[Any]:
        return [row.body for row in self.rows]

    def stop(self) -> None:
        for query in self.queries:
            query.stop()


@pytest.fixture
def streams(spark: SparkSession, tmp_path: Path) -> Iterator[Streams]:
    made = Streams(spark, tmp_path / "checkpoint")
    yield made
    made.stop()


@pytest.fixture
def chain(streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path) -> Chain:
    """From the queue of a test into one behind it."""
    return Chain(streams, fake, queue, tmp_path)
