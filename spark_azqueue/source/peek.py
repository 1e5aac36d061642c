"""The peek: reads visible messages once, without a lease."""

from __future__ import annotations

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .columns import Columns
from .rows import decoded, partitions


def peeked(config: SourceConfig, columns: Columns, client: QueueClient) -> list[bytes]:
    """Peek at each queue once. Returns the rows with these columns, as partitions (see `rows`).

    Raises QueueNotFound, AccessDenied, ServiceError, UndecodableBody.
    """
    parts: list[bytes] = []
    queues = config.queues
    if config.selection.patterns:
        queues = config.selection.among(client.names(config.selection.prefix))
    for queue in queues:
        messages = CONTROL(client.queue(queue).peek, config.peek_messages)
        rows = [decoded(message, config, None, goes_back=False) for message in messages]
        parts += partitions(rows, columns, len(rows))
    return parts
