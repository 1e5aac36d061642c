"""Deletes what a slot has stored, and says what is owed: in a task, or when a plan is closed.

It may be done twice, by different processes: deletes are by the same receipts.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Container, Sequence
from contextlib import closing
from dataclasses import replace

from spark_azqueue.errors import Outcome, QueueNotFound, UndecodableBody
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import UNKNOWN_TIME, Lease, Message, MessageKey
from spark_azqueue.service.queues.calls import DatedDelete, Deleted
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.queues.flow import results_of
from spark_azqueue.service.retry import REPLAY

from ..batches.poison_queue import copy_to_poison_queue
from ..log.decisions import About, LoggedRows
from ..log.progress import Owed, fingerprint
from ..log.reading import Reading
from . import names
from .folder import PlanFolder
from .plan import Learned
from .segment import Looked, SlotHeader, SlotSegment
from .settled import SlotReport


def slot_rows(
    folder: PlanFolder,
    segment: SlotSegment,
    today: Reading,
    read_as: Callable[[Reading], Reading] = lambda reading: reading,
) -> LoggedRows:
    """The rows of what a slot gave; nothing that was decided about them is known yet."""
    header = segment.header
    about = About(
        header.log,
        names.slot(header.plan, header.slot),
        header.plan.number,
        header.account,
        lambda place: names.decision(header.plan, header.slot, place),
    )
    return LoggedRows(segment.received, header.reading, today, folder, about, read_as)


def decided_rows(
    config: SourceConfig,
    folder: PlanFolder,
    client: QueueClient,
    segment: SlotSegment,
    *,
    is_new: bool = False,
) -> LoggedRows:
    """The same, and all is decided: what is set aside has its copy in the poison queue.

    But with onUndecodable=fail: a task settles its slot all the same, and the log keeps the
    messages for other options. is_new: it was put by this very task. Raises ServiceError,
    LogDamaged.
    """

    def copy(message: Message, reason: str) -> None:
        copy_to_poison_queue(config, client, message, reason)

    rows = slot_rows(folder, segment, Reading.of(config))
    if not is_new and segment.received:
        rows.load()
    with contextlib.suppress(UndecodableBody):
        rows.decide(copy)
    return rows


log = logging.getLogger(__name__)

MARGIN_S = 5
"""Times of the service are whole seconds, and those of its servers differ."""


def settle(
    config: SourceConfig,
    client: QueueClient,
    segment: SlotSegment,
    size: int,
    aside: Container[MessageKey],
    copies: Sequence[Lease] = (),
) -> SlotReport:
    """Delete the messages of a segment that stands, of `size` bytes, and copies of known messages.

    aside: those of its messages that are in the poison queue, see `decided.py`. A refused delete
    is owed. If the lease may have ended before, somebody else may have the message. Before that an
    earlier attempt has probably deleted it; but the service may also have delivered it once more
    within the lease, so it stays known for a day. Raises ServiceError if a delete has no final
    answer: then nothing may be given out yet.
    """
    until = segment.header.until
    deleted = 0
    owed: list[Owed] = []
    calls = [(message, DatedDelete(lease)) for message, lease in segment.received]
    answers = results_of(client, calls, REPLAY, most=config.delete_parallelism)
    with closing(answers) as results:
        for message, result in results:
            if isinstance(result, QueueNotFound) and config.selection.comes_and_goes(message.queue):
                deleted += 1  # it went with its queue
                continue
            if isinstance(result, Exception):
                raise result
            is_gone = _is_gone(result, until)
            deleted += is_gone
            if result.outcome is not Outcome.OK:
                owed.append(owed_of(message, result.at if is_gone else None))
    gone = tuple(lease.key for lease in delete_all(config, client, copies))
    return replace(
        without_deletes(segment, size, aside),
        deleted=deleted,
        owed=tuple(owed),
        gone=gone,
        looked=_learned(client, segment.header),
    )


def without_deletes(segment: SlotSegment, size: int, aside: Container[MessageKey]) -> SlotReport:
    """What is known of a slot, of `size` bytes, whose messages were deleted before it was put."""
    given = [message.size for message, _ in segment.received if message.key not in aside]
    return replace(
        SlotReport.of(segment.header, size),
        poison=len(segment.received) - len(given),
        given_bytes=sum(given),
    )


def _learned(client: QueueClient, header: SlotHeader) -> dict[str, Looked]:
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


def owed_of(message: Message, gone_at: int | None) -> Owed:
    """gone_at: when it was found to be gone, probably. Then it is kept as if it had expired."""
    expires = 0 if message.expiration_time == UNKNOWN_TIME else message.expiration_time // 1_000_000
    if gone_at is not None:
        expires = min(expires, gone_at) if expires else gone_at
    return Owed(message.key, fingerprint(message.text), expires)
