"""Duplicates by a key of the sender, in Spark's state."""

from __future__ import annotations

import json
from datetime import datetime

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark_azqueue.errors import InvalidOption
from spark_azqueue.rows.duplicates import without_duplicates
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams


@pytest.fixture(autouse=True)
def few_partitions(spark: SparkSession):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def orders(streams: Streams, fake: FakeQueueService, queue: str) -> DataFrame:
    order = sf.from_json("body", "id INT, at TIMESTAMP").alias("order")
    messages = streams.read(fake.connection_string, queue)
    return messages.select("*", order).select("message_id", "body", "order.id", "order.at")


def put(fake: FakeQueueService, queue: str, *ids: int | None, at: str = "2026-01-01") -> None:
    fake.put_many(queue, [json.dumps({"id": each, "at": at}) for each in ids])


def run(streams: Streams, frame: DataFrame) -> list[int | None]:
    streams.rows.clear()
    query = streams.collect(frame, availableNow=True)
    query.awaitTermination(240)
    return sorted((row.id for row in streams.rows), key=lambda each: (each is None, each))


def test_one_row_for_each_key_over_batches_and_restarts(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    put(fake, queue, 1, 2, 2)
    found = without_duplicates(orders(streams, fake, queue), "id")
    assert found.columns == ["message_id", "body", "id", "at"]
    assert run(streams, found) == [1, 2]

    put(fake, queue, 1, 3, at="1999-01-01")  # an old message is kept, however late
    assert run(streams, without_duplicates(orders(streams, fake, queue), "id")) == [3]
    assert fake.count(queue) == 0


def test_a_row_without_a_key_is_kept(streams: Streams, fake: FakeQueueService, queue: str) -> None:
    fake.create_queue(queue)
    put(fake, queue, None, None, 5, 5)

    found = without_duplicates(orders(streams, fake, queue), "id", "at")
    assert run(streams, found) == [5, None, None]


def test_a_batch_that_comes_again_gives_its_rows_again(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path
) -> None:
    """Spark goes back to the state before the batch, so nothing of it is taken for a duplicate."""
    fake.create_queue(queue)
    log = {"writeAheadLog": f"file:{tmp_path}/log"}

    def frame() -> DataFrame:
        messages = streams.read(fake.connection_string, queue, **log)
        ids = messages.select("message_id", "body", sf.get_json_object("body", "$.id").alias("id"))
        return without_duplicates(ids, "id")

    put(fake, queue, 1, 1, 2)
    assert run(streams, frame()) == ["1", "2"]
    streams.roll_back(1)  # the batch without rows that forgets old keys
    streams.roll_back(1, ("commits",))

    assert run(streams, frame()) == ["1", "2"]


def test_keys_are_forgotten_after_their_time(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    frame = without_duplicates(orders(streams, fake, queue), "id", within="1 second")

    def state_rows() -> int:
        (operator,) = streams.queries[-1].lastProgress["stateOperators"]
        return operator["numRowsTotal"]

    put(fake, queue, *range(20))
    assert len(run(streams, frame)) == 20
    put(fake, queue, 100)
    run(streams, frame)
    put(fake, queue, 100, 7)  # by now a second is over, and a watermark is a batch late
    again = run(streams, frame)

    assert state_rows() <= 2
    assert 7 in again


def test_a_key_is_remembered_for_its_time_and_not_twice_as_long(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    """Spark forgets a key when the watermark, which is `lag` behind, has passed its end."""
    fake.create_queue(queue)
    put(fake, queue, 1)
    run(streams, without_duplicates(orders(streams, fake, queue), "id", within="10 minutes"))

    (seen,) = [p["eventTime"]["max"] for p in streams.queries[-1].recentProgress if p.numInputRows]
    (row,) = spark.read.format("statestore").load(str(streams.checkpoint)).collect()
    batch = datetime.fromisoformat(seen.replace("Z", "+00:00")).timestamp()
    kept = row["value"]["expiresAtMicros"] / 1e6 - batch
    watermark = streams.queries[-1].lastProgress["eventTime"]["watermark"]
    lag = batch - datetime.fromisoformat(watermark.replace("Z", "+00:00")).timestamp()

    assert (kept, lag) == (pytest.approx(300), pytest.approx(300))


@pytest.mark.parametrize(
    ("keys", "within", "said"),
    [
        ((), "1 day", "at least one column"),
        (("number",), "1 day", "needs the column 'number'"),
        (("id",), "soon", "within='soon'"),
    ],
)
def test_mistakes(streams: Streams, fake, queue: str, keys, within, said) -> None:
    fake.create_queue(queue)
    with pytest.raises(InvalidOption, match=said):
        without_duplicates(orders(streams, fake, queue), *keys, within=within)
    if keys == ("id",):
        bare = orders(streams, fake, queue).drop("message_id")
        with pytest.raises(InvalidOption, match="message_id"):
            without_duplicates(bare, "id")
