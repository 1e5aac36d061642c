"""A wrong `messageEncoding` stops the query before it empties a queue into the poison queue."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from spark_azqueue.errors import TooManyPoison
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.dead_letters import DecodingRecord
from spark_azqueue.source.readers import AzQueueStreamReader
from spark_azqueue.testing import FakeQueueService

LOG = {"writeAheadLog": "file:{folder}/log"}
MODES: dict[str, dict[str, str]] = {
    "driver": {},
    "log": LOG,
    "executors": {**LOG, "deleteAfter": "log", "leaseOn": "executors"},
}
SENDER_CHANGED = "not base64!"


def reader_of(fake: FakeQueueService, folder: Path, mode: str, **more: str) -> AzQueueStreamReader:
    given = {name: text.format(folder=folder) for name, text in MODES[mode].items()}
    secret = {"secret.connectionString": fake.connection_string}
    options = {"queue": "orders", "messageEncoding": "base64", "onUndecodable": "poison"}
    config = source_config(secret | options | given | more, {})
    columns = source_columns(config.body_type, permissive=False)
    return AzQueueStreamReader(config, columns, columns)


def run(reader: AzQueueStreamReader, batches: int) -> int:
    """How many rows so many batches have."""
    rows, start = 0, reader.initialOffset()
    for _ in range(batches):
        end = reader.latestOffset(start)
        for part in reader.partitions(start, end):
            rows += sum(batch.num_rows for batch in reader.read(part))
        reader.commit(end)
        start = end
    return rows


@pytest.fixture
def orders(fake: FakeQueueService) -> FakeQueueService:
    fake.create_queue("orders")
    fake.create_queue("orders-poison")
    return fake


@pytest.mark.parametrize("mode", MODES)
def test_one_batch_of_them_moves_nothing(
    orders: FakeQueueService, tmp_path: Path, mode: str
) -> None:
    orders.put_many("orders", [SENDER_CHANGED] * 30)
    reader = reader_of(orders, tmp_path, mode, maxPoisonMessages="20")

    with pytest.raises(TooManyPoison, match=r"30 of 30 bodies .*=base64.*'auto'"):
        run(reader, 2)

    reader.stop()
    assert orders.count("orders-poison") == 0
    assert orders.count("orders") == 30


@pytest.mark.parametrize("mode", MODES)
def test_batches_of_few_count_together(orders: FakeQueueService, tmp_path: Path, mode: str) -> None:
    orders.put_many("orders", [SENDER_CHANGED] * 60)
    reader = reader_of(
        orders, tmp_path, mode, maxPoisonMessages="80", maxMessagesPerTrigger="8",
        messagesPerPartition="8",
    )  # fmt: skip

    with pytest.raises(TooManyPoison):
        run(reader, 30)

    reader.stop()
    assert 8 <= orders.count("orders-poison") <= 20 + 2 * 8  # executors: what tasks had begun


@pytest.mark.parametrize("mode", MODES)
def test_with_the_encoding_corrected_no_message_is_missing(
    orders: FakeQueueService, tmp_path: Path, mode: str
) -> None:
    orders.put_many("orders", [SENDER_CHANGED] * 30)
    reader = reader_of(orders, tmp_path, mode, maxPoisonMessages="20")
    start = reader.initialOffset()
    end = None
    with contextlib.suppress(TooManyPoison):
        end = reader.latestOffset(start)
        list(map(list, map(reader.read, reader.partitions(start, end))))
    reader.stop()

    again = reader_of(orders, tmp_path, mode, messageEncoding="auto")
    rows = 0
    for _ in range(2):  # with executors the plan with the old options gives nothing
        end = end or again.latestOffset(start)
        for part in again.partitions(start, end):
            rows += sum(batch.num_rows for batch in again.read(part))
        start, end = end, None

    assert rows == 30
    again.stop()


def test_with_the_maximum_reached_by_several_tasks_the_next_start_goes_on(
    orders: FakeQueueService, tmp_path: Path
) -> None:
    """No task has too many, but their plan has. A start that closes that plan again goes on."""
    for queue in ("orders", "returns"):
        if queue != "orders":
            orders.create_queue(queue)
            orders.create_queue(f"{queue}-poison")
        orders.put_many(queue, [SENDER_CHANGED] * 11 + ["b2s="] * 15)
    options = {"queue": "orders,returns", "maxPoisonMessages": "20", "executorSlots": "2"}
    reader = reader_of(orders, tmp_path, "executors", **options)
    start = reader.initialOffset()
    end = reader.latestOffset(start)
    for part in reader.partitions(start, end):
        list(reader.read(part))
    with pytest.raises(TooManyPoison):
        reader.latestOffset(end)
    reader.stop()

    orders.put_many("orders", ["b2s="] * 5)
    again = reader_of(orders, tmp_path, "executors", **options)
    following = again.latestOffset(end)
    rows = sum(
        batch.num_rows for part in again.partitions(end, following) for batch in again.read(part)
    )
    again.stop()
    assert rows == 5


def test_a_tenth_of_the_newest_may_be_bad(fake: FakeQueueService) -> None:
    secret = {"secret.connectionString": fake.connection_string}
    record = DecodingRecord(source_config(secret | {"queue": "orders"}, {}))
    for _ in range(100):
        record.check(rows=950, undecodable=50)
        record.add(rows=950, undecodable=50)

    record.check(undecodable=100)
    with pytest.raises(TooManyPoison):
        record.check(undecodable=1_000)
