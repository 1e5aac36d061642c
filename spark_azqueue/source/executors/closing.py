"""Closes a plan: from then on nothing is put for it, and every message of it is deleted or known.

A slot for which nothing was put gets a tombstone, so that a task that comes too late finds it. One
whose deletes were not answered is settled here. Only then the next plan may follow.
"""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import Submits

from ..log.held import check_held
from . import names
from .decided import decided_rows
from .folder import PlanFolder, PlanStatus, tombstone
from .parts import Group, Part
from .plan import Plan
from .settle import settle, without_deletes
from .settled import SlotReport

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Closed:
    """What the slots of a plan gave, in their order; None for one without a task."""

    plan: Plan
    slots: tuple[SlotReport | None, ...]

    @property
    def settled(self) -> list[SlotReport]:
        """Of the slots that had a task."""
        return [each for each in self.slots if each is not None]

    @property
    def sizes(self) -> list[int]:
        """In bytes, of what each slot gave."""
        return [0 if each is None else each.size for each in self.slots]

    @property
    def waiting(self) -> tuple[Group, ...]:
        """What comes again after this plan: also what it should have given, and nobody read."""
        pairs = zip(self.plan.slots, self.slots, strict=True)
        unread = [slot.again for slot, gave in pairs if slot.again and gave is None]
        group = tuple(part for part in unread if part.messages)
        return (group, *self.plan.waiting) if group else self.plan.waiting

    @property
    def stored(self) -> list[Part]:
        """All that its slots gave."""
        return [
            Part(self.plan.id, place, 0, gave.messages)
            for place, gave in enumerate(self.slots)
            if gave is not None and gave.messages
        ]


class Closing:
    """Closes one plan after another. Repeatable. Used by one thread."""

    def __init__(
        self, config: SourceConfig, folder: PlanFolder, client: QueueClient, workers: Submits
    ) -> None:
        """workers: run several slots beside each other."""
        self._config = config
        self._folder = folder
        self._client = client
        self._workers = workers

    def close(self, plan: Plan, listed: PlanStatus) -> Closed:
        """Close this plan. listed: its objects, listed just before.

        Raises ServiceError, LogDamaged.
        """
        slots = [
            self._workers.submit(self._slot, plan, place, listed)
            for place in range(len(plan.slots))
        ]
        return Closed(plan, tuple(slot.result() for slot in slots))

    def _slot(self, plan: Plan, slot: int, listed: PlanStatus) -> SlotReport | None:
        if slot in listed.settled:
            found = self._folder.settled(plan, slot)
            if found is None:
                raise self._folder.damaged(names.settled(plan.id, slot), "it is missing")
            return found
        if slot not in listed.segments:
            ours = tombstone(plan, slot, uuid.uuid4().hex)
            if self._folder.put_segment(ours)[0]:
                return None
        segment, size = self._folder.first_segment(plan, slot)
        if segment.header.tombstone:
            return None
        if plan.slots[slot].again is None:
            check_held(self._config.selection, segment.received, plan.number, self._folder.where)
        aside = decided_rows(self._config, self._folder, self._client, segment).aside
        if plan.slots[slot].again is not None:
            answered = without_deletes(segment, size, aside)
        else:
            answered = settle(self._config, self._client, segment, size, aside)
        self._folder.put_settled(plan, slot, answered)
        return answered
