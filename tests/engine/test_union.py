"""Several loads in one query: each with its own source, queues and limits, and one checkpoint."""

from __future__ import annotations

from collections import Counter

from pyspark.sql import DataFrame

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams


def test_a_union_of_two_loads_is_one_query_with_one_checkpoint(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    """Each load keeps to its own maxMessagesPerTrigger; after a restart nothing comes again."""
    urgent, usual = f"{queue}-urgent", f"{queue}-usual"
    for name in (urgent, usual):
        fake.create_queue(name)
    batches: list[Counter[str]] = []

    def union() -> DataFrame:
        text = fake.connection_string
        first = streams.read(text, urgent, maxMessagesPerTrigger="40")
        return first.unionByName(streams.read(text, usual, maxMessagesPerTrigger="10"))

    def count(batch: DataFrame, number: int) -> None:
        batches.append(Counter(row.queue for row in batch.select("queue").collect()))

    def run(part: int) -> None:
        fake.put_many(urgent, [f"urgent {part} {number}" for number in range(60)])
        fake.put_many(usual, [f"usual {part} {number}" for number in range(20)])
        streams.read_all(union(), count)
        assert fake.count(urgent) == fake.count(usual) == 0

    run(1)
    run(2)

    sent = [
        f"{name} {part} {number}"
        for part in (1, 2)
        for name, count_of in (("urgent", 60), ("usual", 20))
        for number in range(count_of)
    ]
    assert sorted(streams.bodies()) == sorted(sent)
    assert max(each[urgent] for each in batches) == 40
    assert max(each[usual] for each in batches) == 10
    assert any(each[urgent] and each[usual] for each in batches), "one batch has rows of both"
