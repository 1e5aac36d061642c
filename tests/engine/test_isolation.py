"""What a transaction abandoned, on real Spark: no row with isolationLevel=readCommitted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeClock, FakeQueueService

from .conftest import Streams

TTL_S = 60


@pytest.fixture
def still() -> Iterator[FakeQueueService]:
    """A fake whose clock stands still, so that the last second lasts."""
    with FakeQueueService(FakeClock(time.time(), frozen=True)) as running:
        yield running


@pytest.mark.parametrize("logged", [False, True], ids=["no log", "log"])
@pytest.mark.parametrize("level", ["readCommitted", "readUncommitted"])
def test_what_was_abandoned_is_read_in_its_last_second_unless_the_option_says_no(
    streams: Streams,
    spark: SparkSession,
    still: FakeQueueService,
    queue: str,
    tmp_path: Path,
    level: str,
    logged: bool,
) -> None:
    still.create_queue(queue)
    for number in range(40):
        still.put(queue, f"abandoned {number}", delay=TTL_S - 1, ttl=TTL_S)
    still.clock.advance(TTL_S - 1)
    still.put(queue, "shown")
    options = {"isolationLevel": level}
    peeked = {
        row.body
        for row in spark.read.format("azqueue")
        .option("secret.connectionString", still.connection_string)
        .option("queue", queue)
        .options(**options)
        .load()
        .collect()
    }
    if logged:
        options["writeAheadLog"] = f"file:{tmp_path / 'log'}"

    streams.read_all(streams.read(still.connection_string, queue, **options))

    abandoned = {f"abandoned {number}" for number in range(40)}
    if level == "readCommitted":
        assert peeked <= {"shown"}
        assert streams.bodies() == ["shown"]
        assert abandoned <= {message.text for message in still.messages(queue)}
    else:
        assert len(peeked) == 32
        assert set(streams.bodies()) == abandoned | {"shown"}
