"""Dead letters: undecodable and poison messages are moved to their poison queues.

Messages are decoded before their batch is stored or delivered. So each message in a log has a row,
and a later run never dead-letters a message of the log. A copy is put into the poison queue before
the message is deleted. A crash between the put and the delete makes a second copy, but loses no
message.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from types import MappingProxyType
from typing import Any

from spark_azqueue.errors import AccessDenied, QueueNotFound, TooManyPoison, UndecodableBody
from spark_azqueue.options.choices import PoisonFormat
from spark_azqueue.options.source_config import SourceConfig, check_poison_name
from spark_azqueue.service.encoding import can_be_put
from spark_azqueue.service.envelopes import poison_envelope, poison_envelopes
from spark_azqueue.service.messages import (
    NEVER_EXPIRES,
    Lease,
    Message,
    MessageKey,
    QueueRef,
    Received,
)
from spark_azqueue.service.queues.calls import DatedDelete, Put
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import results_of
from spark_azqueue.service.retry import SEND, RetryPolicy
from spark_azqueue.service.wire.calls import Call

from .refusals import queue_of_dead_letter
from .rows import Row, decoded, is_dead_letter

log = logging.getLogger(__name__)

_PART = 10
_WITHOUT_ROWS = 4
"""Before a process has decoded its first body, the limit is `maxPoisonMessages` divided by this
number."""
_WINDOW = 10_000
_SHORTEST_S = 1.0
_SEND_S = 60.0
_AT_ONCE = 32
"""Maximum number of messages that are copied at once with parallelism=auto."""


class DecodingRecord:
    """Counts of rows and of undecodable bodies among the newest messages of a process, about
    10,000.

    If too many bodies do not decode, the cause may be a wrong option and not the messages. The
    limit is lower until one body has been decoded. Each process starts at 0; with
    leaseOn=executors, each task starts at 0. Used by one thread.
    """

    def __init__(self, config: SourceConfig) -> None:
        self._most = config.max_poison_messages
        self._encoding = config.encoding
        self._rows = self._undecodable = 0

    def check(self, *, rows: int = 0, undecodable: int = 0) -> None:
        """Raise TooManyPoison if these bodies and the earlier undecodable bodies are too many."""
        undecodable += self._undecodable
        read = rows + self._rows + undecodable
        most = self._most if read > undecodable else self._most // _WITHOUT_ROWS
        if undecodable <= most or undecodable * _PART <= read:
            return
        raise TooManyPoison(
            f"{undecodable:,} of {read:,} bodies do not decode with messageEncoding="
            f"{self._encoding.value}, and at most {most:,} and a tenth are dead-lettered for"
            " that. If senders changed their encoding, set 'messageEncoding' ('auto' reads both)."
            " Else raise 'maxPoisonMessages'"
        )

    def add(self, *, rows: int = 0, undecodable: int = 0) -> None:
        """Add to the counts of rows and of undecodable bodies that were dead-lettered."""
        self._rows += rows
        self._undecodable += undecodable
        if self._rows + self._undecodable >= _WINDOW:
            self._rows, self._undecodable = self._rows // 2, self._undecodable // 2


def rows_and_reasons(
    received: Iterable[Received], config: SourceConfig, record: DecodingRecord
) -> tuple[list[Row], dict[Message, str]]:
    """Decode messages. Return the rows, and the reason for each message that must be dead-lettered.

    Sends nothing. Raises UndecodableBody with onUndecodable=fail, and TooManyPoison.
    """
    rows: list[Row] = []
    reasons: dict[Message, str] = {}
    for message, lease in received:
        try:
            rows.append(decoded(message, config, lease))
        except UndecodableBody as error:
            if not is_dead_letter(message, config.on_undecodable):
                raise
            reasons[message] = error.sentence
    if reasons:
        record.check(rows=len(rows), undecodable=len(reasons))
    record.add(rows=len(rows))
    return rows, reasons


def dead_lettered(
    config: SourceConfig,
    client: QueueClient,
    reasons: Mapping[Message, str],
    within_s: float,
    clock: Callable[[], float],
    leases: Mapping[MessageKey, Lease] = MappingProxyType({}),
) -> Iterator[Message]:
    """Copy messages to their poison queues in parallel. Yield each message that was copied.

    within_s: after this many seconds, no further message is copied. The first message is always
    copied. leases: leases by the key of the message. A message with such a lease is deleted after
    it is copied. If the delete fails, the message is dequeued and copied again.

    Raises ServiceError, InvalidOption for an illegal name of a poison queue, and CheckpointMismatch
    as `copy_to_poison_queue` does.
    """
    if not reasons:
        return
    within_s = max(within_s, _SHORTEST_S)
    until = clock() + within_s
    left = iter(reasons.items())
    missing = Counter[MessageKey]()
    copied = deque[Message]()

    def next_puts() -> Iterator[tuple[_Step, Call[Any]]]:
        """Yield the puts that copy the next message, if there is time."""
        is_late = missing and clock() >= until
        for message, reason in () if is_late else islice(left, 1):
            poison = _poison_queue(config, message)
            texts = _copies(message, reason, config.poison_format)
            missing[message.key] = len(texts)
            for text in texts:
                yield (message, text), Put(poison, text, ttl_s=NEVER_EXPIRES)

    def then(step: _Step, result: object) -> Iterable[tuple[_Step, Call[Any]]]:
        message, text = step
        if text is None:
            if isinstance(result, Exception):
                log.warning("a dead letter will be copied again, since it stays: %s", result)
            return
        poison = config.poison_queue_for(message.queue)
        if isinstance(result, QueueNotFound):  # the poison queue was removed after the start
            client.create(poison)
            SEND(client.queue(poison).put, text, 0, NEVER_EXPIRES)
        elif isinstance(result, AccessDenied):
            raise _denied(message, poison, result)
        elif isinstance(result, Exception):
            raise result
        missing[message.key] -= 1
        if missing[message.key]:
            return
        copied.append(message)
        log.warning(
            "message %s of queue '%s' was dead-lettered in '%s': %s",
            *(message.message_id, message.queue.name, poison.name, reasons[message]),
        )
        if lease := leases.get(message.key):
            yield (message, None), DatedDelete(lease)
        yield from next_puts()

    retry, most = RetryPolicy(within_s, attempt_s=within_s), config.parallelism
    first = [each for _ in range(most or _AT_ONCE) for each in next_puts()]
    with closing(results_of(client, first, retry, most=most, then=then)) as results:
        for _ in results:
            while copied:
                yield copied.popleft()


_Step = tuple[Message, "str | None"]
"""A message and the request for it: a put of this text or, if the text is None, a delete of the
message."""


def copy_to_poison_queue(
    config: SourceConfig, client: QueueClient, message: Message, reason: str
) -> None:
    """Copy a message to its poison queue in the form that `poisonFormat` sets. Raises ServiceError.

    The text is put unchanged, or in an envelope if the envelope is small enough for a message. A
    text that a queue cannot store is always copied in one or several envelopes.

    Raises CheckpointMismatch if the query does not read the message's queue, because the contents
    of a log must not cause requests to other queues.
    """
    deque(dead_lettered(config, client, {message: reason}, _SEND_S, time.monotonic), maxlen=0)


def was_moved(config: SourceConfig, client: QueueClient, message: Message, reason: str) -> bool:
    """Copy a poison message to its poison queue. Return False if access to the poison queue is
    denied.

    If access is denied, the caller delivers the message again, after other batches. If this
    function raised AccessDenied, a query with a log would fail in the same way after each restart,
    and deliver no other batch. Raises ServiceError for other failures.
    """
    try:
        copy_to_poison_queue(config, client, message, reason)
    except AccessDenied as error:
        log.warning("%s. It is delivered again", error)
        return False
    return True


def _poison_queue(config: SourceConfig, message: Message) -> QueueRef:
    if not config.selection.includes(message.queue):
        raise queue_of_dead_letter(message.message_id, message.queue.name)
    poison = config.poison_queue_for(message.queue)
    check_poison_name(poison)  # a pattern found the queue
    return poison


def _denied(message: Message, poison: QueueRef, error: AccessDenied) -> AccessDenied:
    return AccessDenied(
        f"message {message.message_id} of queue '{message.queue.name}' cannot be dead-lettered in"
        f" '{poison.name}': {error.sentence}",
        condition=error.condition,
        status=error.status,
        code=error.code,
        request_id=error.request_id,
    )


def _copies(message: Message, reason: str, chosen: PoisonFormat) -> list[str]:
    if not can_be_put(message.text):
        return poison_envelopes(message, reason)
    envelope = poison_envelope(message, reason) if chosen is PoisonFormat.ENVELOPE else None
    return [envelope or message.text]
