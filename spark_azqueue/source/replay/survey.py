"""Finds the committed batches of both kinds of log, for readers that never write.

The order of the steps matters, because the writer may write at the same time.

In a driver's log, the newest header and mark are read first, because they say which batches are
committed. Outcomes are listed after the header and mark, because an abandoned batch gets its
outcome before a header or mark counts it as committed.

With leaseOn=executors, a plan is closed when its `next` exists, or when the plan is marked as
committed. In a closed plan, every slot has its final segment. So closed plans are listed first, and
their slots afterwards. A plan that Spark asked for again may have been abandoned. The `next` of an
abandoned plan says that the plan has no rows (`objects.py` checks this).

A writer raises its floor before it removes an object. The floor is read last, so the lists contain
every object above this floor.
"""

from __future__ import annotations

from typing import Protocol

from spark_azqueue.errors import LostSegment
from spark_azqueue.journal.identity import IDENTITY, IDENTITY_AT_MOST, Identity
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import number_in, standing
from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.options.replay import ReplayConfig
from spark_azqueue.service.names import EXECUTORS, WRITE_AHEAD, Kind

from ..executors import names as slot_names
from ..executors.folder import PlanFolder
from ..executors.names import PlanId
from ..log import names
from ..log.log import newest_mark
from ..log.names import SEGMENTS
from ..log.progress import SegmentHeader
from ..log.segment import Segments
from ..refusals import log_without_messages, no_log_there
from .batches import UNKNOWN, Chained, Logged, LogSurvey, Piece

_TRIES = 5


class SegmentHistory:
    """Committed batches of a driver's log.

    Used by one thread. Writes nothing. Raises ServiceError, LogDamaged, LostSegment.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._store = journal.store
        self._segments = Segments(journal)

    def has_new_batches(self, found: LogSurvey) -> bool:
        """Return False if no batch was committed after the survey `found`. Sends a few small
        requests."""
        head = max((each.number for each in found.batches), default=found.committed)
        newest = self._header(head + 1)
        while newest is not None:
            if newest.progress.committed > found.committed:
                return True
            newest = self._header(newest.number + 1)
        return newest_mark(self._journal).committed > found.committed

    def survey(self, *, uncommitted: bool = False) -> LogSurvey:
        """See `History`."""
        for _ in range(_TRIES):
            entries = self._store.entries(names.SEGMENTS)
            stored = {number: each for each in entries if (number := number_in(each.name))}
            head = max(stored, default=0)
            newest, progress = self._header(head) if head else None, newest_mark(self._journal)
            if newest is not None:
                progress = max(progress, newest.progress, key=lambda each: each.age)
            if progress.committed <= head:  # if not, segments were put after the listing
                break
        outcomes = set(map(number_in, self._store.names(names.OUTCOMES)))
        floor = newest.floor if newest else 0
        while newest is not None:
            floor, newest = newest.floor, self._header(newest.number + 1)
        last = max(progress.committed, head) if uncommitted else progress.committed
        batches = []
        for number in standing(range(floor + 1, last + 1), stored):
            each = stored[number]
            at = int(each.written * 1_000_000) if each.written else UNKNOWN
            piece = Piece(number, at, each.size, number in outcomes)
            batches.append(Logged(number, at, (piece,)))
        return LogSurvey(self._store.where, floor, last, tuple(batches))

    def _header(self, number: int) -> SegmentHeader | None:
        try:
            return self._segments.header(number)
        except LostSegment:
            return None


_CLOSED = ("next", "committed")


class PlanHistory:
    """Committed batches of a log that executors write.

    Used by one thread. Writes nothing. Raises ServiceError, LogDamaged.
    """

    def __init__(self, folder: PlanFolder) -> None:
        self._folder = folder
        self._store = folder.store

    def has_new_batches(self, found: LogSurvey) -> bool:
        """Return False if no batch was committed after the survey `found`. Sends a few small
        requests."""
        listed = self._store.names(slot_names.SLOTS, f"{found.committed + 1:012d}-")
        return any(map(_closed, listed))

    def survey(self, *, uncommitted: bool = False) -> LogSurvey:
        """See `History`."""
        closed = {
            plan.number: plan for plan in map(_closed, self._store.names(slot_names.SLOTS)) if plan
        }
        slots: dict[PlanId, dict[int, tuple[int, float]]] = {}
        repeated: set[PlanId] = set()
        for stored in self._store.entries(slot_names.SLOTS):
            found = slot_names.as_slot_name(stored.name)
            if found is not None and found.kind == "s":
                slots.setdefault(found.plan, {})[found.slot] = (stored.size, stored.written)
            elif found is not None and found.kind == "t":
                repeated.add(found.plan)
        floor, committed = self._folder.floor(), max(closed, default=0)
        batches = []
        for number in standing(range(floor + 1, committed + 1), closed):
            plan, before = closed[number], closed.get(number - 1)
            if before is not None and plan in slots:
                batches.append(_logged(plan, before, slots[plan], plan in repeated))
        is_open = uncommitted and committed in closed
        following = self._folder.following(closed[committed]) if is_open else None
        if following is not None and following.id in slots:
            # Tasks may still put objects for this plan, so the listed slots are not compared with
            # the plan.
            put = slots[following.id]
            batch = _logged(following.id, None, put, following.id in repeated)
            batches.append(batch)
            committed = following.number
        return LogSurvey(self._store.where, floor, committed, tuple(batches))


def _closed(name: str) -> PlanId | None:
    """Return the plan that is closed if an object with this name exists, or None."""
    found = slot_names.as_slot_name(name)
    return found.plan if found is not None and found.kind in _CLOSED else None


def _logged(
    plan: PlanId,
    before: PlanId | None,
    slots: dict[int, tuple[int, float]],
    has_outcome: bool,
) -> Logged:
    """Return the batch of a plan. before: see `Chained`.

    The time of the batch is the time at which its first object was stored.
    """
    times = [written for _, written in slots.values() if written]
    at = int(min(times) * 1_000_000) if times else UNKNOWN
    places = tuple(sorted(slots))
    pieces = tuple(
        Piece(
            plan.number,
            at,
            slots[place][0],
            has_outcome,
            plan=plan,
            slot=place,
            chained=Chained(before, places) if before and place == places[0] else None,
        )
        for place in places
    )
    return Logged(plan.number, at, pieces)


_KINDS = {kind.name: kind.for_reading() for kind in (WRITE_AHEAD, EXECUTORS)}


class History(Protocol):
    """Committed batches of a log. Used by one thread. Writes nothing."""

    def has_new_batches(self, found: LogSurvey) -> bool:
        """Return False if no batch was committed after the survey `found`. Sends a few small
        requests."""

    def survey(self, *, uncommitted: bool = False) -> LogSurvey:
        """Return the current contents of the log. Raises ServiceError, LogDamaged, LostSegment.

        uncommitted: include the newest batch, which is not committed yet and may still be
        abandoned.
        """


def history_of(journal: Journal) -> History:
    """Return the history of this log."""
    return PlanHistory(journal) if isinstance(journal, PlanFolder) else SegmentHistory(journal)


def opened_log(config: ReplayConfig) -> Journal:
    """Return the log that the options name. Changes nothing.

    Returns a PlanFolder if executors wrote the log. Raises InvalidOption if there is no log,
    LogConflict for a log of another kind, LogDamaged, ServiceError.
    """
    store = store_of(config, WRITE_AHEAD.for_reading())
    data = store.get(IDENTITY, IDENTITY_AT_MOST)
    if data is None:
        raise no_log_there(store.where, IDENTITY)
    identity, kind = Identity.of_any_kind(data, store)
    if kind.name not in _KINDS:
        raise log_without_messages(store.where, kind.words)
    store.close()
    return journal_of(store_of(config, _KINDS[kind.name]), identity.account, identity.uuid)


def journal_of(store: LogStore, account: str, uuid: str) -> Journal:
    """Return the log with this id. The caller has read the id before. Sends no request."""
    found: Journal
    if store.kind.name == EXECUTORS.name:
        found = PlanFolder(store, account)
    else:
        found = Journal(store, account, SEGMENTS)
    found.uuid = uuid
    return found


def store_of(config: ReplayConfig, kind: Kind) -> LogStore:
    """Return the store of the log. Sends no request."""
    return log_store(config.place, config.account, kind)
