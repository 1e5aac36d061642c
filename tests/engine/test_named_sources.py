"""Spark's named sources: loads of a union come and go under one checkpoint (Spark 4.2)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

import pytest
from lines import needs_named_sources
from pyspark.sql import DataFrame, SparkSession

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

pytestmark = needs_named_sources

EVOLUTION = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"

MODES = {
    "leases": {},
    "log": {"writeAheadLog": "file:{folder}/{name}"},
    "executors": {
        "writeAheadLog": "file:{folder}/{name}",
        "deleteAfter": "log",
        "leaseOn": "executors",
    },
}


class Union:
    """A query over some of its loads, in any order."""

    def __init__(
        self, streams: Streams, fake: FakeQueueService, folder: Path, queue: str, mode: str
    ) -> None:
        self._streams = streams
        self._fake = fake
        self._folder = folder
        self._queue = queue
        self._mode = MODES[mode]
        self.sent: list[str] = []

    def put(self, name: str, part: str, count: int = 10) -> None:
        queue = f"{self._queue}-{name}"
        self._fake.create_queue(queue)
        bodies = [f"{name} {part} {number}" for number in range(count)]
        self._fake.put_many(queue, bodies)
        self.sent += bodies

    def left(self, name: str) -> int:
        return self._fake.count(f"{self._queue}-{name}")

    def load(self, name: str) -> DataFrame:
        options = {
            key: value.format(folder=self._folder, name=name) for key, value in self._mode.items()
        }
        return (
            self._streams.spark.readStream.format("azqueue")
            .name(name)
            .option("secret.connectionString", self._fake.connection_string)
            .option("queue", f"{self._queue}-{name}")
            .options(**options)
            .load()
        )

    def run(self, *names: str) -> None:
        frame = reduce(DataFrame.unionByName, map(self.load, names))
        self._streams.read_all(frame)


@pytest.fixture
def evolving(spark: SparkSession) -> Iterator[None]:
    spark.conf.set(EVOLUTION, "true")
    spark.conf.set(FORMAT, "2")
    yield
    spark.conf.unset(EVOLUTION)
    spark.conf.unset(FORMAT)


@pytest.fixture(params=MODES)
def union(
    streams: Streams,
    fake: FakeQueueService,
    tmp_path: Path,
    queue: str,
    evolving: None,
    request: pytest.FixtureRequest,
) -> Union:
    return Union(streams, fake, tmp_path, queue, request.param)


def test_loads_come_and_go_under_one_checkpoint(union: Union, streams: Streams) -> None:
    union.put("a", "1")
    union.put("b", "1")
    union.run("a", "b")

    union.put("b", "2")
    union.put("c", "2")
    union.run("c", "b")  # one was added, one removed, and the order is another

    union.put("a", "3")
    union.put("c", "3")
    union.run("a", "c")  # one comes back

    assert sorted(streams.bodies()) == sorted(union.sent)
    assert [union.left(name) for name in "abc"] == [0, 0, 0]


def test_a_load_is_added_while_a_batch_is_to_be_repeated(union: Union, streams: Streams) -> None:
    union.put("a", "1")
    union.put("b", "1")
    union.run("a", "b")
    streams.roll_back(1, ("commits",))  # as a kill before the commit leaves it
    streams.rows.clear()

    union.put("c", "2")
    union.run("a", "b", "c")

    assert set(streams.bodies()) >= {body for body in union.sent if body.startswith("c")}
    assert [union.left(name) for name in "abc"] == [0, 0, 0]
