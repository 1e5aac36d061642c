"""Tests of the job, on a fake of the queue service: no account, no waiting."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import orders_job
import pytest
from pyspark.sql import SparkSession
from spark_azqueue.testing import FakeQueueService, Fault


# [recipe]
@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests: Spark takes seconds to start."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture
def service() -> Iterator[FakeQueueService]:
    """A queue service of its own for each test."""
    with FakeQueueService() as fake:
        fake.create_queue("orders")
        yield fake


def run(
    spark: SparkSession, service: FakeQueueService, folder: Path
) -> list[int | None]:
    """Run the job once, and return what its output holds by then."""
    orders_job.run(
        spark, {"secret.connectionString": service.connection_string}, str(folder)
    )
    rows = spark.read.parquet(f"{folder}/orders").collect()
    return sorted((row.order_id for row in rows), key=str)


def test_each_order_becomes_a_row(
    spark: SparkSession, service: FakeQueueService, tmp_path: Path
) -> None:
    service.put_many(
        "orders", ['{"order_id": 1, "quantity": 2}', '{"order_id": 2}', "oops"]
    )

    assert run(spark, service, tmp_path) == [1, 2, None]  # a body that is no JSON: NULL
    assert service.count("orders") == 0  # deleted, since the batch is committed


def test_each_is_there_once_although_the_service_is_busy(
    spark: SparkSession, service: FakeQueueService, tmp_path: Path
) -> None:
    service.faults.add(Fault("delete", "busy_503", every=3))  # 503 ServerBusy
    service.faults.add(
        Fault("dequeue", "delivered_twice", nth=1)
    )  # leased, and visible
    service.put_many("orders", [f'{{"order_id": {number}}}' for number in range(50)])

    assert len(run(spark, service, tmp_path)) == 50
    assert service.faults.injected["busy_503"] > 0
    assert service.faults.injected["delivered_twice"] == 1
    assert service.count("orders") == 0


def test_a_delayed_order_waits_for_its_time(
    spark: SparkSession, service: FakeQueueService, tmp_path: Path
) -> None:
    service.put("orders", '{"order_id": 1}')
    service.put("orders", '{"order_id": 2}', delay=3600)
    assert run(spark, service, tmp_path) == [1]

    service.clock.advance(3600)  # an hour, at once
    assert run(spark, service, tmp_path) == [1, 2]


# [end]
