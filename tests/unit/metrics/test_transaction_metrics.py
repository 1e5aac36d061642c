"""What a transaction log says of a query: read seldom, checked, and no harm if it cannot be."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from progress_events import ID, ended, went_on

from spark_azqueue import transaction_reader
from spark_azqueue.errors import InvalidOption
from spark_azqueue.metrics.exported import METRICS, Snapshot
from spark_azqueue.metrics.listener import TRANSACTION_EVERY_S, AzQueueListener, SeldomRead
from spark_azqueue.metrics.report import TransactionReport
from spark_azqueue.options.parse import sink_config
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.transaction.commit import Transactions
from spark_azqueue.sink.transaction.task import Writer
from spark_azqueue.testing import FakeQueueService, Fault

FIRST = TransactionReport(published=20, prepared=0, orphaned=1, missing=0, publish_seconds=0.5)
SECOND = TransactionReport(published=5, prepared=15, orphaned=0, missing=0)
QUERY = "0b5e7f0e-1111-4222-8333-444455556666"
NEW_RUN = "f" * 32


class Log:
    """Gives reports in turn, and the last one again and again."""

    def __init__(self, *reports: TransactionReport | Exception | None) -> None:
        self.reports = list(reports)
        self.asked: list[str] = []

    def __call__(self, query_id: str) -> TransactionReport | None:
        self.asked.append(query_id)
        found = self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]
        if isinstance(found, Exception):
            raise found
        return found


def test_the_log_is_read_at_most_every_half_minute_for_each_query() -> None:
    now = [100.0]
    log = Log(FIRST, SECOND)
    read = SeldomRead(log, clock=lambda: now[0])
    assert [read.of("a") for _ in range(3)] == [FIRST] * 3
    now[0] += TRANSACTION_EVERY_S - 1
    assert read.of("a") == FIRST
    assert read.of("b") == SECOND
    now[0] += 1
    assert read.of("a") == SECOND
    assert log.asked == ["a", "b", "a"]


def test_a_log_that_cannot_be_read_costs_these_metrics_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    read = SeldomRead(Log(OSError("no such disk")), clock=lambda: now[0])
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert read.of("a") is None
            now[0] += TRANSACTION_EVERY_S
    assert [record.getMessage() for record in caplog.records] == [
        "the metrics of query a lack its transactions: no such disk"
    ]


def test_metrics_have_the_transaction_and_the_last_one_at_the_end() -> None:
    log = Log(FIRST, SECOND)
    listener = AzQueueListener(transactions=log)
    for batch in range(3):
        went_on(listener, batch)
    latest = listener.latest("orders")
    assert latest is not None
    assert (latest.sink_published, latest.sink_orphaned, latest.sink_publish_seconds) == (
        20,
        1,
        0.5,
    )

    found = {
        metric.name: [value for _, value in metric.samples(Snapshot.of(listener))]
        for metric in METRICS
        if "transaction" in metric.name
    }
    assert found == {
        "azqueue_transaction_published_messages": [20],
        "azqueue_transaction_prepared_messages": [0],
        "azqueue_transaction_orphaned_messages": [1],
        "azqueue_transaction_missing_messages": [0],
        "azqueue_transaction_publish_duration_seconds": [0.5],
    }

    ended(listener)
    latest = listener.latest("orders")
    assert latest is not None
    assert (latest.batch_id, latest.sink_published, latest.sink_prepared) == (2, 5, 15)
    assert log.asked == [ID, ID]


def test_without_a_reader_the_metrics_are_unknown() -> None:
    listener = AzQueueListener()
    went_on(listener)
    ended(listener)
    assert listener.metrics("orders")[0]["sink_prepared"] is None


# ── what the reader finds ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def options(tmp_path: Path) -> Iterator[dict[str, str]]:
    with FakeQueueService() as fake:
        fake.create_queue("orders")
        fake.faults.add(Fault("put", "reply_lost", nth=2))
        yield {
            "secret.connectionString": fake.connection_string,
            "queue": "orders",
            "transactionLog": f"file:{tmp_path}/txn",
        }


def write(options: dict[str, str], batch: int, before_commit: Callable[[], None]) -> None:
    config = sink_config(options)
    transactions = Transactions(config)
    plan = transactions.plan()
    sender = Sender(config)
    sent = sender.send(requests([("a",), ("b",), ("c",)], SinkColumns(body=0), config))
    writer = Writer(QUERY, NEW_RUN, batch)
    before_commit()
    transactions.commit(
        plan, [writer.prepared(sent.done, sender.hidden, sender.abandoned, plan.log)]
    )
    transactions.close()


def test_the_reader_tells_the_newest_transaction(options: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "txn").mkdir()
    read = transaction_reader(options)
    assert read(QUERY) is None

    write(options, 0, lambda: None)
    found = read(QUERY)
    assert found is not None
    assert found.publish_seconds is not None
    assert dataclasses.replace(found, publish_seconds=1.0) == TransactionReport(3, 0, 1, 0, 1.0)
    assert read("00000000-0000-0000-0000-000000000000") is None

    (mark,) = (tmp_path / "txn" / "txn").glob("*-m*")
    mark.unlink()  # as after a kill while messages are shown
    assert read(QUERY) == TransactionReport(published=0, prepared=3, orphaned=1, missing=0)


def test_messages_that_vanished_are_told(options: dict[str, str]) -> None:
    fake_clear = _clearing(options)
    write(options, 0, fake_clear)
    found = transaction_reader(options)(QUERY)
    assert found is not None
    assert (found.published, found.prepared, found.missing) == (0, 0, 3)


def _clearing(options: dict[str, str]) -> Callable[[], None]:
    from azure.storage.queue import QueueClient

    client = QueueClient.from_connection_string(options["secret.connectionString"], "orders")

    def clear() -> None:
        with client:
            client.clear_messages()

    return clear


def test_options_without_a_log_are_refused(options: dict[str, str]) -> None:
    del options["transactionLog"]
    with pytest.raises(InvalidOption, match="name no transaction log"):
        transaction_reader(options)
