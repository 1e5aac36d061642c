"""The peek: reads visible messages once, without a lease."""

from __future__ import annotations

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.calls import Peek
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .columns import Columns
from .isolation import Isolation
from .rows import decoded, partitions


def peeked(config: SourceConfig, columns: Columns, client: QueueClient) -> list[bytes]:
    """Peek at each queue once. Returns the rows with these columns, as partitions (see `rows`).

    Raises QueueNotFound, AccessDenied, ServiceError, UndecodableBody.
    """
    parts: list[bytes] = []
    queues = config.queues
    if config.selection.patterns:
        queues = config.selection.among(client.names(config.selection.prefix))
    isolation = Isolation(config.isolation_level)
    for queue in queues:
        found, answered_at = CONTROL(client.now, Peek(queue, config.peek_messages))
        messages = [each for each in found if not isolation.may_be_abandoned(each, answered_at)]
        isolation.left(len(found) - len(messages))
        rows = [decoded(message, config, None, goes_back=False) for message in messages]
        parts += partitions(rows, columns, len(rows))
    return parts
