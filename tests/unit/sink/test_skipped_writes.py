"""A `df.write` whose `txnVersion` is recorded already: nothing is sent, and a warning says so."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from spark_azqueue.options.parse import sink_config
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.writers import AzQueueWriter, plan_of
from spark_azqueue.testing import FakeQueueService


@pytest.fixture
def fake() -> Iterator[FakeQueueService]:
    with FakeQueueService() as service:
        service.create_queue("orders")
        yield service


@pytest.fixture
def log(tmp_path: Path) -> str:
    return f"file:{tmp_path}/txn"


def write(fake: FakeQueueService, log: str, number: int, *bodies: str) -> None:
    options = {
        "secret.connectionString": fake.connection_string,
        "queue": "orders",
        "transactionLog": log,
        "txnAppId": "nightly",
        "txnVersion": str(number),
    }
    config = sink_config(options)
    writer = AzQueueWriter(config, SinkColumns(body=0), plan_of(config))
    rows = pa.RecordBatch.from_pydict({"body": list(bodies)})
    writer.commit([writer.write(iter([rows]))])


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (2, "It was recorded before: 1 messages.* The 3 rows of this write were not sent"),
        (1, "these 3 rows were not sent: this txnVersion was written before"),
    ],
)
def test_every_skip_warns_with_its_rows(
    fake: FakeQueueService, log: str, number: int, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    write(fake, log, 1, "a", "b")
    write(fake, log, 2, "c")
    puts = fake.requests["put"]
    caplog.clear()
    write(fake, log, number, "x", "y", "z")
    assert fake.requests["put"] == puts
    (line,) = [each for each in caplog.records if each.name.endswith("writers")]
    assert line.levelno == logging.WARNING
    assert re.search(said, line.getMessage())
