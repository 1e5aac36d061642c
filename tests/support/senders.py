"""Tasks of the sink that send to the queue 'orders', and rows that have only a body."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from spark_azqueue.options.parse import sink_config
from spark_azqueue.options.sink_config import SinkConfig
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.sink.columns import Row, SinkColumns
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.tally import Sent

QUEUE = "orders"
BODY = SinkColumns(body=0)


@dataclass(frozen=True)
class Task:
    """A sender, and the config that its rows are checked with."""

    config: SinkConfig
    sender: Sender


def config_of(connection_string: str, **options: str) -> SinkConfig:
    return sink_config(
        {"secret.connectionString": connection_string, "queue": QUEUE, **options}, {}
    )


def client_of(connection_string: str) -> QueueClient:
    """The client that a task makes if it is given none."""
    return QueueClient(config_of(connection_string).account)


def task(connection_string: str, client: QueueClient | None = None, **options: str) -> Task:
    config = config_of(connection_string, **options)
    return Task(config, Sender(config, client))


def send(task: Task, rows: Iterable[Row], columns: SinkColumns = BODY) -> Sent:
    return task.sender.send(requests(rows, columns, task.config))
