"""A logged body that the new column cannot hold: `onUndecodable` never decides about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService

LOG = {"writeAheadLog": "file:{folder}/log", "maxDequeueCount": "1"}
MODES: dict[str, dict[str, str]] = {
    "log": LOG,
    "executors": {**LOG, "deleteAfter": "log", "leaseOn": "executors"},
}
BYTES = b"\xff\xfe"


def reader_of(fake: FakeQueueService, folder: Path, mode: str, **more: str) -> AzQueueStreamReader:
    given = {name: text.format(folder=folder) for name, text in MODES[mode].items()}
    secret = {"secret.connectionString": fake.connection_string}
    options = {"queue": "orders", "messageEncoding": "base64"}
    config = source_config(secret | options | given | more, {})
    permissive = more.get("onUndecodable") == "permissive"
    columns = source_columns(config.body_type, permissive=permissive)
    return AzQueueStreamReader(config, columns, columns)


def bodies(reader: AzQueueStreamReader, start: dict, end: dict) -> list[object]:
    try:
        parts = reader.partitions(start, end)
        batches = [batch for part in parts for batch in reader.read(part)]
        return [body for batch in batches for body in batch.column("body").to_pylist()]
    finally:
        reader.stop()


@pytest.mark.parametrize("wish", ["permissive", "poison", "fail"])
@pytest.mark.parametrize("mode", MODES)
def test_it_stops_the_query_until_the_option_is_back_and_is_no_attempt(
    fake: FakeQueueService, tmp_path: Path, mode: str, wish: str
) -> None:
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    fake.put_many("orders", ["//4="])
    first = reader_of(fake, tmp_path, mode, bodyType="binary")
    start = first.initialOffset()
    end = first.latestOffset(start)
    assert bodies(first, start, end) == [BYTES]  # and the process dies before the commit

    for _ in range(4):
        again = reader_of(fake, tmp_path, mode, bodyType="string", onUndecodable=wish)
        with pytest.raises(UndecodableBody, match="bodyType=binary: set bodyType=binary again"):
            bodies(again, start, end)

    assert fake.count("orders-poison") == 0
    assert bodies(reader_of(fake, tmp_path, mode, bodyType="binary"), start, end) == [BYTES]
