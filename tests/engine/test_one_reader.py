"""One load() has one reader: what Spark does with one DataFrame, and what is refused."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark_azqueue import explain
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

SENT = [f"order {number}" for number in range(20)]


@pytest.fixture
def orders(streams: Streams, fake: FakeQueueService, queue: str) -> DataFrame:
    fake.create_queue(queue)
    fake.put_many(queue, SENT)
    return streams.read(fake.connection_string, queue)


@pytest.mark.core
def test_a_stream_joined_with_itself_is_refused_and_loses_nothing(
    streams: Streams, fake: FakeQueueService, queue: str, orders: DataFrame
) -> None:
    """Its two readers would each get, and delete, a part of the messages."""
    joined = orders.join(orders.select("message_id", sf.col("body").alias("again")), "message_id")
    with pytest.raises(Exception, match="AZQUEUE_LOAD_CONFLICT") as raised:
        streams.collect(joined, availableNow=True).awaitTermination(120)
    explanation = explain(raised.value)
    assert explanation.error == "LoadConflict"
    assert streams.rows == []
    fake.clock.advance(3_600)
    assert fake.count(queue) == len(SENT)

    streams.read_all(orders)
    assert sorted(streams.bodies()) == sorted(SENT), "the load can be read afterwards"


def test_a_second_start_of_a_dataframe_is_refused_while_the_first_runs(
    streams: Streams, fake: FakeQueueService, queue: str, orders: DataFrame, tmp_path: Path
) -> None:
    first = streams.collect(orders)
    first.processAllAvailable()
    second = orders.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "2"))
    with pytest.raises(Exception, match="AZQUEUE_LOAD_CONFLICT"):
        second.start().awaitTermination(120)
    fake.put_many(queue, ["later"])
    fake.wait_until(lambda: len(streams.rows) > len(SENT), 60)
    first.stop()
    assert sorted(streams.bodies()) == sorted([*SENT, "later"])


def test_a_query_that_stops_and_starts_at_once_waits_for_its_earlier_process(
    streams: Streams, orders: DataFrame
) -> None:
    for _ in range(3):
        query = streams.collect(orders)
        query.processAllAvailable()
        query.stop()
    assert sorted(streams.bodies()) == sorted(SENT)
    for each in Path(tempfile.gettempdir()).glob("spark-azqueue-*.lock"):
        with contextlib.suppress(FileNotFoundError):  # that of another test's query
            assert each.stat().st_size == 0, "locks hold nothing"


def test_a_load_that_is_used_twice_in_one_process_is_read_once(
    streams: Streams, orders: DataFrame
) -> None:
    """Spark makes one source of a self-union, and of two filters of one load."""
    both = orders.where("length(body) > 7").union(orders.where("length(body) <= 7"))
    streams.read_all(both)
    assert sorted(streams.bodies()) == sorted(SENT)
