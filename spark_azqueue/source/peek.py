"""Peek: reads visible messages once, without leasing them."""

from __future__ import annotations

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.calls import Peek
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import CONTROL

from .columns import Columns
from .intake.backlog import Isolation
from .rows import Row, content_of, partitions, undecodable


def peeked(config: SourceConfig, columns: Columns, client: QueueClient) -> list[bytes]:
    """Peek at each queue once. Return the rows with these columns, as partitions.

    Raises QueueNotFound, AccessDenied, ServiceError or UndecodableBody.
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
        rows = [_row(message, config) for message in messages]
        parts += partitions(rows, columns, len(rows))
    return parts


def _row(message: Message, config: SourceConfig) -> Row:
    """Decode a message.

    With onUndecodable=poison, an undecodable message has a row with a null body, because a peek
    cannot dead-letter it.
    """
    try:
        body, reference = content_of(message, config)
        return Row(message, body, reference=reference)
    except UndecodableBody as error:
        if config.on_undecodable is OnUndecodable.FAIL:
            raise undecodable(message, error, config.encoding) from error
        is_permissive = config.on_undecodable is OnUndecodable.PERMISSIVE
        return Row(message, None, corrupt=message.text if is_permissive else None)
