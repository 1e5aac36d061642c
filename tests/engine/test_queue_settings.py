"""settingsFromQueue on real Spark: the queue says how it wants to be read."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_stream import PATIENCE_S


@pytest.mark.parametrize(
    ("options", "lease"),
    [({}, 777), ({"visibilityTimeout": "555"}, 555), ({"settingsFromQueue": "false"}, 60)],
    ids=["from the queue", "explicit wins", "not asked for"],
)
def test_the_lease_is_as_long_as_the_queue_says(
    streams: Streams, fake: FakeQueueService, queue: str, options: dict[str, str], lease: int
) -> None:
    fake.create_queue(queue)
    fake.set_metadata(queue, {"DefaultTimeout": "777"})
    fake.put(queue, "hello")
    leases: list[float] = []

    def look(batch: DataFrame, number: int) -> None:
        (view,) = fake.messages(queue)
        leases.append(view.next_visible - fake.clock.now())

    frame = streams.read(fake.connection_string, queue, **{"settingsFromQueue": "true", **options})
    streams.read_all(frame, look)

    assert streams.bodies() == ["hello"]
    assert lease - 100 < leases[0] <= lease


def test_a_poison_threshold_on_the_queue_switches_poison_handling_on(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.set_metadata(queue, {"poisonthreshold": "3"})
    fake.put_many(queue, ["not base64!", "aGVsbG8="])
    frame = streams.read(
        fake.connection_string, queue, settingsFromQueue="true", messageEncoding="base64"
    )
    streams.read_all(frame)

    assert streams.bodies() == ["hello"]
    (copy,) = fake.messages(f"{queue}-poison")
    assert json.loads(copy.text)["body"] == "not base64!"


def test_a_bad_value_stops_the_query_and_is_named(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.set_metadata(queue, {"poisonthreshold": "many"})
    fake.put(queue, "hello")
    query = streams.collect(streams.read(fake.connection_string, queue, settingsFromQueue="true"))
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(PATIENCE_S)

    expected = (
        f"the metadata 'poisonthreshold' of queue '{queue}' is 'many'; expected none, or a whole"
    )
    assert expected in str(caught.value)
    assert fake.requests["dequeue"] == 0
