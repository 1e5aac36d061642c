"""Copies a message to its poison queue, as it is or in a letter with the reason."""

from __future__ import annotations

import logging

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch
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
    is in a letter whatever the option says, or in several. Raises CheckpointMismatch for a message
    of a queue that the query does not read: a log has it, and steers no request.
    """
    if not config.selection.includes(message.queue):
        raise CheckpointMismatch(
            f"message {message.message_id} in the write-ahead log is to be set aside, and option"
            f" 'queue' does not name its queue '{message.queue.name}' any more: add it until its"
            " batch is over",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )
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
