"""What a slot gives that takes messages of a plan that was given up: they are deleted already.

Its task copies them from the segment of that plan into one of its own, so that nothing refers to
the old one when the batch is over.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from spark_azqueue.errors import LostSegment
from spark_azqueue.options.source_config import SourceConfig

from ..log.reading import Reading
from . import names
from .decided import slot_rows
from .folder import PlanFolder
from .plan import Plan
from .segment import SlotHeader, SlotSegment

log = logging.getLogger(__name__)


def segment_again(
    config: SourceConfig,
    folder: PlanFolder,
    plan: Plan,
    slot: int,
    attempt: str,
    *,
    lose: bool,
) -> SlotSegment:
    """What this slot is to give: the same whoever asks, but for the attempt.

    Messages that have their copy in the poison queue do not come again.

    Raises ServiceError, LogDamaged; LostSegment if the messages are gone, unless `lose`.
    """
    part = plan.slots[slot].again
    assert part is not None
    header = SlotHeader(
        plan.log,
        plan.id,
        slot,
        plan.account,
        attempt,
        reading=Reading.of(config).options,
    )
    source, settled = folder.segment_of(part.plan, part.slot), folder.settled_of(*part[:2])
    if source is None or settled is None:
        error = LostSegment(
            f"slot {part.slot} of batch {part.plan.number} is no longer in the write-ahead log"
            f" {folder.where}, and its messages come again in batch {plan.number}: restore it, or"
            " set failOnDataLoss=false to go on without its rows"
        )
        if not lose:
            raise error
        log.warning("%s", error)
        return SlotSegment(header, ())
    segment, _ = source
    stored = segment.header
    if part.end > len(segment.received):
        name = names.slot(part.plan, part.slot)
        raise folder.damaged(name, f"batch {plan.number} needs other messages of it")
    aside = slot_rows(folder, segment, Reading.of(config)).load().aside
    some = segment.received[part.first : part.end]
    received = tuple(each for each in some if each[0].key not in aside)
    return SlotSegment(
        replace(
            header,
            messages=len(received),
            oldest=stored.oldest,
            expires=stored.expires,
            queues=stored.queues,
            reading=stored.reading,
        ),
        received,
    )
