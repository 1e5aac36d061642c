"""The committed batches of a log of leaseOn=executors (`executors/`), as who only reads sees them.

A plan is closed when its `next` stands, or it is marked as committed: every slot has its object
then, for ever. So closed plans are listed first, and their slots after that. The writer raises the
floor before it removes an object, so the floor is read last. One that Spark asked for again may
have been given up: then its `next` says that it has no rows (`objects.py` looks).
"""

from __future__ import annotations

from spark_azqueue.journal.numbers import standing

from ..executors import names
from ..executors.folder import PlanFolder
from ..executors.names import PlanId
from .batches import UNKNOWN, Chained, Logged, LogSurvey, Piece

_CLOSED = ("next", "committed")


class PlanHistory:
    """Used by one thread. Writes nothing. Raises ServiceError, LogDamaged."""

    def __init__(self, folder: PlanFolder) -> None:
        self._folder = folder
        self._store = folder.store

    def has_news(self, found: LogSurvey) -> bool:
        """False if nothing was committed since. For a few small requests."""
        listed = self._store.names(names.SLOTS, f"{found.committed + 1:012d}-")
        return any(map(_closed, listed))

    def survey(self) -> LogSurvey:
        """What the log holds now."""
        closed = {
            plan.number: plan for plan in map(_closed, self._store.names(names.SLOTS)) if plan
        }
        slots: dict[PlanId, dict[int, tuple[int, float]]] = {}
        repeated: set[PlanId] = set()
        decided: set[tuple[PlanId, int]] = set()
        for stored in self._store.entries(names.SLOTS):
            found = names.parsed(stored.name)
            if found is not None and found.kind == "s":
                slots.setdefault(found.plan, {})[found.slot] = (stored.size, stored.written)
            elif found is not None and found.kind == "r":
                decided.add((found.plan, found.slot))
            elif found is not None and found.kind == "t":
                repeated.add(found.plan)
        floor, committed = self._folder.floor(), max(closed, default=0)
        batches = []
        for number in standing(range(floor + 1, committed + 1), closed):
            plan, before = closed[number], closed.get(number - 1)
            if before is not None and plan in slots:
                batches.append(_logged(plan, before, slots[plan], decided, plan in repeated))
        return LogSurvey(self._store.where, floor, committed, tuple(batches))


def _closed(name: str) -> PlanId | None:
    """The plan that is closed, if this object says so."""
    found = names.parsed(name)
    return found.plan if found is not None and found.kind in _CLOSED else None


def _logged(
    plan: PlanId,
    before: PlanId,
    slots: dict[int, tuple[int, float]],
    decided: set[tuple[PlanId, int]],
    has_verdict: bool,
) -> Logged:
    """A batch. Its time is that of the first object that was put for it."""
    times = [written for _, written in slots.values() if written]
    at = int(min(times) * 1_000_000) if times else UNKNOWN
    places = tuple(sorted(slots))
    pieces = tuple(
        Piece(
            plan.number,
            at,
            slots[place][0],
            has_verdict,
            (plan, place) in decided,
            plan=plan,
            slot=place,
            chained=Chained(before, places) if place == places[0] else None,
        )
        for place in places
    )
    return Logged(plan.number, at, pieces)
