"""Copies a message to its poison queue, as it is or in a letter with the reason."""

from __future__ import annotations

import logging

from spark_azqueue.options.choices import PoisonFormat
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.encoding import can_be_put
from spark_azqueue.service.letters import poison_letter, poison_letters
from spark_azqueue.service.messages import NEVER_EXPIRES, Message
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import SEND

log = logging.getLogger(__name__)


def copy_to_poison_queue(
    config: SourceConfig, client: QueueClient, message: Message, reason: str
) -> None:
    """Copy the message to its poison queue, as `poisonFormat` says. Raises ServiceError.

    The text is unchanged: by itself, or within a letter if that fits. A text that no queue can hold
    is in a letter whatever the option says, or in several.
    """
    poison = config.poison_queue_for(message.queue)
    for text in _copies(message, reason, config.poison_format):
        SEND(client.queue(poison).put, text, 0, NEVER_EXPIRES)
    log.warning(
        "message %s of queue '%s' was set aside in '%s': %s",
        message.message_id,
        message.queue.name,
        poison.name,
        reason,
    )


def _copies(message: Message, reason: str, chosen: PoisonFormat) -> list[str]:
    if not can_be_put(message.text):
        return poison_letters(message, reason)
    letter = poison_letter(message, reason) if chosen is PoisonFormat.LETTER else None
    return [letter or message.text]
