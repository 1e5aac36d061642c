"""leaseOn=executors: what Spark may log of a batch shows no secret."""

from __future__ import annotations

import json

import pytest
from door import Door
from log_stores import MemoryLogStore

from spark_azqueue.options.parse import source_config
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.executors.consumer import ExecutorsConsumer
from spark_azqueue.source.readers import AzQueueStreamReader, QueuePartition
from spark_azqueue.source.runtime import Runtime

BLOB_KEY = "YmxvYi1rZXk="


@pytest.fixture
def config(fake):
    fake.create_queue("orders")
    fake.put("orders", "a-body")
    blobs = f"AccountName=logs;AccountKey={BLOB_KEY};BlobEndpoint=http://127.0.0.1:1/logs"
    return source_config(
        {
            "secret.connectionString": fake.connection_string,
            "queue": "orders",
            "leaseOn": "executors",
            "writeAheadLog": "blob:logs/orders",
            "secret.blobConnectionString": blobs,
            "deleteAfter": "log",
        },
        {},
    )


def test_partitions_plans_and_readers_show_no_secret(config, fake):
    client = QueueClient(config.account)
    driver = Door(
        ExecutorsConsumer(
            config,
            config.write_ahead_log,
            config.executors,
            store=MemoryLogStore(kind=EXECUTORS),
            runtime=Runtime(client=client),
        )
    )
    offset = driver.latest(driver.initial, None)
    parts = driver.plan(driver.initial, offset)
    columns = source_columns(config.body_type, permissive=False)

    shown = [
        *map(repr, map(QueuePartition, parts)),
        *(part.decode() for part in parts),
        json.dumps(offset),
        repr(config),
        repr(AzQueueStreamReader(config, columns, columns)),
    ]

    driver.close()
    assert len(parts) == 1
    for secret in (fake.key, BLOB_KEY, "a-body"):
        assert not [text for text in shown if secret in text]
