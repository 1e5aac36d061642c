"""A query that runs for one batch at a time, with many queues that have a backlog: none starves."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget import more

from spark_azqueue.options.parse import source_config
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService

MODES = {
    "driver": {},
    "log": {"writeAheadLog": "file:{folder}/log"},
    "executors": {
        "writeAheadLog": "file:{folder}/log",
        "deleteAfter": "log",
        "leaseOn": "executors",
    },
}


@pytest.mark.parametrize("count", [8, *more(20)])
@pytest.mark.parametrize("by", ["pattern", *more("names")])
@pytest.mark.parametrize("mode", MODES)
def test_each_queue_is_read(
    fake: FakeQueueService, tmp_path: Path, mode: str, by: str, count: int
) -> None:
    """Each run began with the first queues before: the others were never read."""
    queues = [f"queue-{number:02d}" for number in range(count)]
    for name in queues:
        fake.create_queue(name)
        fake.put_many(name, [name] * 200)
    given = {name: text.format(folder=tmp_path) for name, text in MODES[mode].items()}
    given |= {
        "queue": ",".join(queues) if by == "names" else "queue-*",
        "maxMessagesPerTrigger": "64",
        "dequeueAhead": "false",
    }
    if mode == "executors":
        del given["dequeueAhead"]
    config = source_config({"secret.connectionString": fake.connection_string} | given, {})
    columns = source_columns(config.body_type, permissive=False)
    committed: dict[str, object] | None = None
    read: set[str] = set()

    for _ in range(len(queues)):
        reader = AzQueueStreamReader(config, columns, columns)
        start = committed or reader.initialOffset()
        offset = reader.latestOffset(start)
        for part in reader.partitions(start, offset):
            for batch in reader.read(part):
                read.update(batch.column("queue").to_pylist())
        reader.stop()
        committed = offset

    assert sorted(read) == queues
