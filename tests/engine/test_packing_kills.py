"""A chain of two queues with packed messages, killed: each row is in the table exactly once."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_azqueue.rows.packing.bodies import FORMATS
from spark_azqueue.testing import FakeQueueService

from .test_chain_kills import Chain

MESSAGES = 10
ROWS = 100
"""Rows of a message that is sent."""


class PackedChain(Chain):
    """Sends packs of rows, in both formats by turns. The first hop makes others of them."""

    def __init__(self, folder: Path, fake: FakeQueueService, queue: str) -> None:
        super().__init__(folder, fake, queue)
        self.environment["PACKED"] = "id BIGINT, text STRING"
        self.ids = 0

    def send(self, count: int = MESSAGES, rows_each: int = ROWS) -> None:
        bodies = []
        for number in range(count):
            ids = range(self.ids, self.ids + rows_each)
            self.ids += rows_each
            rows = pa.RecordBatch.from_pydict({"id": ids, "text": [f"row {each}" for each in ids]})
            chosen = FORMATS[("arrow", "json")[number % 2]]
            bodies.append(base64.b64encode(chosen.packed(chosen.prepared(rows))).decode())
        self.fake.put_many(self.queue, bodies)

    def wait_until_deleted(self, total: int) -> None:
        self.fake.wait_until(lambda: self.fake.requests["delete"] >= total, self.patience_s)

    def found(self, spark: SparkSession) -> Counter[tuple[int, str]]:
        rows = spark.read.parquet(str(self.folder / "output")).collect()
        return Counter((row.id, row.text) for row in rows)

    @property
    def expected(self) -> Counter[tuple[int, str]]:
        return Counter((each, f"row {each}") for each in range(self.ids))


@pytest.fixture
def chain(tmp_path: Path, fake: FakeQueueService, queue: str) -> Iterator[PackedChain]:
    made = PackedChain(tmp_path, fake, queue[:50])
    yield made
    made.destroy()


def test_each_row_once_through_two_packed_queues_whatever_is_killed(
    chain: PackedChain, spark: SparkSession
) -> None:
    """The second hop is killed in the middle of its work each time, too."""
    chain.hold_at("recorded")
    chain.send()
    chain.start()
    chain.wait_until_held()
    chain.destroy()
    chain.let_go("recorded")
    chain.send()
    chain.start()
    chain.wait_until_deleted(chain.fake.requests["delete"] + 4)
    chain.destroy()
    chain.start()
    chain.wait_until_settled()
    chain.end()

    assert chain.expected.total() == 2 * MESSAGES * ROWS
    assert chain.found(spark) == chain.expected


@pytest.mark.long
def test_a_million_rows_and_four_kills(chain: PackedChain, spark: SparkSession) -> None:
    """Each kill is at another share of the requests that a quarter of the rows takes."""
    chain.environment["PACK_ROWS"] = "5000"
    for quarter in range(4):
        chain.send(50, 5_000)
        deletes = chain.fake.requests["delete"]
        chain.start()
        chain.wait_until_deleted(deletes + 20 * (quarter + 1))
        chain.destroy()
    chain.start()
    chain.wait_until_settled()
    chain.end()

    rows = spark.read.parquet(str(chain.folder / "output"))
    assert rows.count() == rows.select("id").distinct().count() == chain.ids == 1_000_000
