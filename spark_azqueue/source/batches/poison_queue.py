"""Copies a message to its poison queue."""

from __future__ import annotations

import logging

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import NEVER_EXPIRES, Message
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import SEND

log = logging.getLogger(__name__)


def copy_to_poison_queue(
    config: SourceConfig, client: QueueClient, message: Message, reason: str
) -> None:
    """Copy the message, unchanged, to its poison queue. Raises ServiceError."""
    poison = config.poison_queue_for(message.queue)
    SEND(client.queue(poison).put, message.text, 0, NEVER_EXPIRES)
    log.warning(
        "message %s of queue '%s' was set aside in '%s': %s",
        message.message_id,
        message.queue.name,
        poison.name,
        reason,
    )
