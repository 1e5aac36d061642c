"""Only the first task of a write takes an account that cannot be reached for a mistake."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue.errors import ServiceUnavailable
from spark_azqueue.options.sink_config import sink_config
from spark_azqueue.sink import writers
from spark_azqueue.sink.columns import check_supplied
from spark_azqueue.sink.writers import AzQueueWriter, _is_start


def task(partition: int, batch: str | None) -> Any:
    properties = {"streaming.sql.batchId": batch}
    return SimpleNamespace(partitionId=lambda: partition, getLocalProperty=properties.get)


@pytest.mark.parametrize(
    ("partition", "batch", "is_start"),
    [(0, None, True), (0, "0", True), (1, None, False), (1, "0", False), (0, "7", False)],
)
def test_the_start_is_the_first_task_of_a_write_or_of_a_query(
    partition: int, batch: str | None, is_start: bool
) -> None:
    assert _is_start(task(partition, batch)) is is_start


def test_outside_spark_nothing_is_a_start() -> None:
    assert not _is_start(None)


def test_the_first_task_fails_soon_even_without_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        text = f"AccountName=shop;AccountKey=a2V5;QueueEndpoint=http://127.0.0.1:{port}/shop"
        config = sink_config({"secret.connectionString": text, "queue": "orders"}, {})
        columns = check_supplied(
            (("body", "string"),),
            ignore_extra=False,
            queue_in_options=True,
            operation=config.operation,
        )
        monkeypatch.setattr(writers.TaskContext, "get", lambda: task(0, None))

        with pytest.raises(ServiceUnavailable, match=f"port {port}: Connection refused"):
            AzQueueWriter(config, columns).write(iter(()))
