"""The rows of what a slot gave, and what is set aside before they are given out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.client import QueueClient

from ..batches.poison_queue import copy_to_poison_queue
from ..log.decisions import About, LoggedRows
from ..log.reading import Reading
from . import names
from .folder import PlanFolder
from .segment import SlotSegment


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
