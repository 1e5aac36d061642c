"""Deletes what a slot has stored, and says what is owed: in a task, or when a plan is closed.

It may be done twice, by different processes: deletes are by the same receipts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from spark_azqueue.errors import Outcome, UndecodableBody
from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import UNKNOWN_TIME, Lease, Message
from spark_azqueue.service.queues.calls import DatedDelete, Deleted
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import results_of
from spark_azqueue.service.retry import REPLAY

from ..batches.poison_queue import copy_to_poison_queue
from ..log.progress import Owed, fingerprint
from ..rows import content_of
from .plan import Learned
from .segment import Header, Looked, Segment
from .settled import Settled

log = logging.getLogger(__name__)

MARGIN_S = 5
"""Times of the service are whole seconds, and those of its servers differ."""


def settle(
    config: SourceConfig,
    client: QueueClient,
    segment: Segment,
    size: int,
    copies: Sequence[Lease] = (),
) -> Settled:
    """Delete the messages of a segment that stands, of `size` bytes, and copies of known messages.

    Messages that do not decode are copied to the poison queue first, if the options say so.
    A refused delete is owed if the lease may have ended before: somebody else may have the message.
    Before that it was deleted by an earlier attempt. Raises ServiceError if a delete has no final
    answer: then nothing may be given out yet.
    """
    poison = _set_aside(config, client, segment)
    until = segment.header.until
    deleted = 0
    owed: list[Owed] = []
    calls = [(message, DatedDelete(lease)) for message, lease in segment.received]
    answers = results_of(client, calls, REPLAY, most=config.delete_parallelism)
    with closing(answers) as results:
        for message, result in results:
            if isinstance(result, Exception):
                raise result
            if _is_gone(result, until):
                deleted += 1
            else:
                owed.append(_owed(message))
    gone = tuple(lease.key for lease in delete_all(config, client, copies))
    return replace(
        Settled.of(segment.header, size),
        deleted=deleted,
        owed=tuple(owed),
        gone=gone,
        poison=poison,
        looked=_learned(client, segment.header),
    )


def _learned(client: QueueClient, header: Header) -> dict[str, Looked]:
    """What the header says of each queue, with what this process has learned of it by deleting."""
    looked = dict(header.looked)
    for queue in header.queues:
        found, before = client.limits.learned(queue), looked.get(queue.name)
        if found and before:
            looked[queue.name] = replace(before, limits=Learned(*found))
    return looked


def delete_all(config: SourceConfig, client: QueueClient, leases: Sequence[Lease]) -> list[Lease]:
    """Delete messages that are known, or that another segment holds. Returns those that are gone.

    Raises nothing for one that fails: its lease ends, and it comes again, still known.
    """
    gone = []
    calls = [(lease, DatedDelete(lease)) for lease in leases]
    answers = results_of(client, calls, REPLAY, most=config.delete_parallelism)
    with closing(answers) as results:
        for lease, result in results:
            if isinstance(result, Exception):
                log.warning("a copy of a message was not deleted, and will come again: %s", result)
            elif result.outcome is Outcome.OK:
                gone.append(lease)
    return gone


def _is_gone(result: Deleted, until: int) -> bool:
    if result.outcome is Outcome.OK:
        return True
    return result.at is not None and 0 < result.at < until - MARGIN_S


def _owed(message: Message) -> Owed:
    expires = message.expiration_time
    return Owed(
        message.key,
        fingerprint(message.text),
        0 if expires == UNKNOWN_TIME else expires // 1_000_000,
    )


def _set_aside(config: SourceConfig, client: QueueClient, segment: Segment) -> int:
    """Copy messages that do not decode to their poison queues. Returns how many."""
    if config.on_undecodable is not OnUndecodable.POISON:
        return 0
    poison = 0
    for message, _ in segment.received:
        try:
            content_of(message, config)
        except UndecodableBody as error:
            copy_to_poison_queue(config, client, message, error.sentence)
            poison += 1
    return poison
