"""Only the first task of a write takes an account that cannot be reached for a mistake."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue.errors import ServiceUnavailable
from spark_azqueue.options.parse import sink_config
from spark_azqueue.service.account import Account
from spark_azqueue.sink import writers
from spark_azqueue.sink.columns import check_supplied
from spark_azqueue.sink.writers import AzQueueWriter

NOWHERE = "AccountName=shop;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:{}/shop"


def writer(port: int = 9) -> AzQueueWriter:
    given = {"secret.connectionString": NOWHERE.format(port), "queue": "orders"}
    config = sink_config(given, {})
    columns = check_supplied(
        (("body", "string"),),
        ignore_extra=False,
        queue="orders",
        operation=config.operation,
    )
    return AzQueueWriter(config, columns, None)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Account]:
    """The accounts that writers checked, which are not asked."""
    found: list[Account] = []
    monkeypatch.setattr(writers, "check_reachable", found.append)
    return found


def task(partition: int, batch: str | None) -> Any:
    properties = {"streaming.sql.batchId": batch}
    return SimpleNamespace(partitionId=lambda: partition, getLocalProperty=properties.get)


@pytest.mark.parametrize(
    ("partition", "batch", "is_start"),
    [(0, None, True), (0, "0", True), (1, None, False), (1, "0", False), (0, "7", False)],
)
def test_the_start_is_the_first_task_of_a_write_or_of_a_query(
    monkeypatch: pytest.MonkeyPatch,
    checked: list[Account],
    partition: int,
    batch: str | None,
    is_start: bool,
) -> None:
    monkeypatch.setattr(writers.TaskContext, "get", lambda: task(partition, batch))

    writer().write(iter(()))

    assert [account.name for account in checked] == ["shop"] * is_start


def test_outside_spark_nothing_is_a_start(checked: list[Account]) -> None:
    writer().write(iter(()))

    assert checked == []


def test_the_first_task_fails_soon_even_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        monkeypatch.setattr(writers.TaskContext, "get", lambda: task(0, None))

        with pytest.raises(ServiceUnavailable, match=f"port {port}: Connection refused"):
            writer(port).write(iter(()))
