"""minMessagesPerTrigger on real Spark, in each way to work."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams

PATIENCE_S = 120.0
LOG = {"writeAheadLog": "file:{folder}/log"}
MODES = {
    "leases": {},
    "log": LOG,
    "executors": LOG | {"deleteAfter": "log", "leaseOn": "executors"},
}


def sizes(query: StreamingQuery) -> list[int]:
    return [each["numInputRows"] for each in query.recentProgress if each["numInputRows"]]


@pytest.mark.parametrize("mode", MODES)
def test_each_batch_waits_for_enough_messages(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path, mode: str
) -> None:
    fake.create_queue(queue)
    options = {name: text.format(folder=tmp_path) for name, text in MODES[mode].items()}
    rows = streams.read(
        fake.connection_string,
        queue,
        minMessagesPerTrigger="10",
        maxTriggerDelay="1 hour",
        maxPollInterval="100 milliseconds",
        **options,
    )
    fake.put_many(queue, ["a"] * 6)
    query = streams.collect(rows)

    def wait_until(is_so) -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert query.exception() is None, str(query.exception())
            assert time.monotonic() < until
            time.sleep(0.02)

    def is_counted_and_waits(visible: int) -> None:
        counted, dequeued = fake.requests["properties"], fake.requests["dequeue"]
        wait_until(lambda: fake.requests["properties"] >= counted + 5)
        assert fake.requests["dequeue"] == dequeued
        assert fake.visible(queue) == visible

    is_counted_and_waits(6)
    fake.put_many(queue, ["b"] * 5)
    wait_until(lambda: fake.count(queue) == 0 and sum(sizes(query)) == 11)

    fake.put_many(queue, ["c"] * 4)  # with those of the first batch they would be enough
    is_counted_and_waits(4)
    fake.put_many(queue, ["d"] * 8)
    wait_until(lambda: fake.count(queue) == 0 and sum(sizes(query)) == 23)
    assert sizes(query) == [11, 12]
