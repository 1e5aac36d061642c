"""Limits that show what they allow a queue now."""

from __future__ import annotations

from typing import NamedTuple

from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.wire.concurrency import Limits, QueueLimits


class Allowed(NamedTuple):
    """What the limits of a queue are now: requests at once, and a second (None: no bound)."""

    at_once: int
    per_s: float | None


class ObservedLimits(Limits):
    """For one thread."""

    def __init__(self) -> None:
        super().__init__(self._made)
        self._of: dict[QueueRef, QueueLimits] = {}

    def _made(self, queue: QueueRef) -> QueueLimits:
        return self._of.setdefault(queue, QueueLimits())

    def allowed(self, queue: QueueRef) -> Allowed | None:
        """The limits of this queue as they are now; None if nothing was asked yet."""
        found = self._of.get(queue)
        return found and Allowed(int(found.concurrency.size), found.rate.per_s)
