"""Closes plans, and removes a plan when no checkpoint can need it any more.

*Closed*: no task can put a segment for the plan any more, and every message of the plan is deleted
or recorded as known. In place of a missing segment, the driver puts a tombstone; a late task finds
the tombstone and stops. If the deletes of a slot have no final answer, the driver repeats the
deletes. The next plan may follow only after the plan is closed.

*Removed*: first the floor (the number up to which plans are removed) is raised in the folder, then
the objects of these plans are removed. A task checks the floor before its first delete. So a task
that puts a segment into a removed plan deletes no message. With largeBody=blob, the blobs of a plan
are deleted before its objects.
"""

from __future__ import annotations

import logging
import math
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait

from spark_azqueue.errors import AzQueueError
from spark_azqueue.journal.numbers import KEPT_AT_MOST, old_enough
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.store import Removals
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import Submits

from ..logged.undecodable import Reading
from ..refusals import check_held
from . import names
from .folder import PlanFolder, PlanStatus, tombstone
from .leasing import settle_slot, slot_rows, without_deletes
from .names import START, PlanId
from .objects import Closed, SeenMessages, SlotReport
from .plan import Plan
from .recovery import PlanRecovery

log = logging.getLogger(__name__)

CLEAN_EVERY = 8
"""Number of plans that are removed together, so that the floor is rarely written."""

_WAIT_S = 60.0


class Cleaning:
    """Removes old plans, and keeps in memory a list of the objects of all plans in the folder.

    Used by one thread. The removals run in another thread.
    """

    def __init__(
        self,
        config: SourceConfig,
        folder: PlanFolder,
        retention: int,
        workers: Submits,
        removals: Removals | None,
        *,
        keep_s: float | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """retention: number of plans that are kept before the newest committed plan. keep_s: a plan
        is removed only if it is at least this many seconds old; None for no limit. now: seconds
        since 1970. removals: removes blobs; None to keep blobs.
        """
        self._today = Reading.of(config)
        self._folder = folder
        self._retention = retention
        self._workers = workers
        self._removals = removals
        self._keep_s = keep_s
        self._now = now
        self._times: dict[int, float] = {}  # by plan: seconds since 1970
        self._objects: dict[PlanId, dict[str, int]] = {}  # bytes by name; 0: unknown
        self._under_way: Future[None] | None = None
        self.floor = 0
        """Plans up to this number are removed or being removed."""

    def found(
        self, objects: dict[PlanId, dict[str, int]], floor: int, times: Mapping[int, float]
    ) -> None:
        """Record the contents of the folder at the start of the query.

        objects: for each plan, the sizes of its objects by name. times: time at which each plan was
        stored, in seconds since 1970, by the number of the plan.
        """
        self._times = dict(times)
        self._objects = {plan: dict(sizes) for plan, sizes in objects.items()}
        self.floor = floor

    def ended(self, plan: Plan, sizes: Iterable[int], more: Iterable[str] = ()) -> None:
        """Record that a plan is closed.

        sizes: size of each slot's segment in bytes. more: names of other objects of the plan.
        """
        if self._keep_s is not None:
            self._times[plan.number] = self._now()
        objects = self._objects.setdefault(plan.id, {})
        for slot, size in enumerate(sizes):
            objects[names.slot(plan.id, slot)] = size
            objects[names.settled(plan.id, slot)] = 0
        objects |= dict.fromkeys((names.following(plan.id), *more), 0)
        if plan.has_known:
            objects[names.known(plan.id)] = 0

    @property
    def plans(self) -> list[PlanId]:
        """Plans that have objects, except the start."""
        return [plan for plan in list(self._objects) if plan != START]

    @property
    def bytes(self) -> int:
        """Total size of all objects in bytes."""
        return sum(sum(sizes.values()) for sizes in list(self._objects.values()))

    def add(self, plan: PlanId, name: str) -> None:
        """Record one more object of this plan."""
        self._objects.setdefault(plan, {})[name] = 0

    def clean(self, committed: int, known: SeenMessages, needed: int | None = None) -> None:
        """Begin to remove old plans in the background, if there are enough of them. Never raises.

        known: messages that may be dequeued again, so their blobs are kept. needed: number of the
        oldest plan whose messages must be delivered again; None if there is no such plan.
        """
        if self._under_way and not self._under_way.done():
            return
        self._under_way = None
        floor = self._floor(committed)
        if needed is not None:
            floor = min(floor, needed - 1)
        left_over = any(plan.number < self.floor for plan in self.plans)
        if floor < self.floor + CLEAN_EVERY and not left_over:
            return
        due = sorted(plan for plan in self.plans if plan.number <= max(floor, self.floor))
        try:
            self._under_way = self._workers.submit(
                self._clean,
                max(floor, self.floor),
                {plan: self._objects[plan] for plan in due},
                known,
            )
        except RuntimeError as error:
            log.warning("old batches were not removed from the log: %s", error)

    def _floor(self, committed: int) -> int:
        """Return the number up to which plans may be removed now."""
        floor = committed - self._retention
        if self._keep_s is None:
            return floor
        before = self._now() - self._keep_s
        if sum(map(len, self._objects.values())) > KEPT_AT_MOST:
            before = math.inf
        for number in [each for each in self._times if each <= self.floor]:
            del self._times[number]
        return min(floor, old_enough(self.floor, self._times, before))

    def finish(self, timeout_s: float) -> None:
        """Wait at most `timeout_s` seconds for removals that have begun."""
        if self._under_way:
            wait([self._under_way], timeout_s)
        if self._removals:
            self._removals.wait(timeout_s)
            self._removals.close()

    def _clean(self, floor: int, due: dict[PlanId, dict[str, int]], known: SeenMessages) -> None:
        try:
            if floor > self.floor:
                self._folder.raise_floor(floor)
                self.floor = floor
            for plan, objects in due.items():
                if self._removals:
                    self._remove_bodies(plan, objects, known)
                kept = names.following(plan)
                is_last = plan.number == floor  # but the plan after this plan is kept
                gone = [name for name in objects if not (is_last and name == kept)]
                if len(self._folder.remove(sorted(gone, key=_turn))) < len(gone):
                    return
                if is_last:
                    self._objects[plan] = {kept: 0}
                else:
                    self._objects.pop(plan, None)
        except AzQueueError as error:
            log.warning("old batches were not removed from the log: %s", error)

    def _remove_bodies(self, plan: PlanId, objects: dict[str, int], known: SeenMessages) -> None:
        assert self._removals
        if any(names.is_attempt(name) for name in objects):
            following = self._folder.following(plan)
            if following is None or following.gave_up:
                return  # a later plan or the poison queue refers to these blobs
        begun = []
        for name in objects:
            found = names.as_slot_name(name)
            # A segment without a report was put after the plan was removed, and its rows were not
            # delivered.
            if found is None or found.kind != "d":
                continue
            stored = self._folder.segment_of(plan, found.slot)
            if stored is None:
                continue
            for key, blob in slot_rows(stored[0], self._today).blobs():
                if key not in known:
                    begun.append(self._removals.begin(blob))
        wait([each for each in begun if each], _WAIT_S)


def _turn(name: str) -> int:
    """Return the sort key by which the objects of a plan are removed.

    Reports are removed before segments: after a segment is removed, a late task may put another
    segment under the same name, and this task must not find the report of the removed segment.
    Attempt marks are removed last, because a plan without attempt marks counts as never abandoned.
    """
    found = names.as_slot_name(name)
    return {"d": 0, "t": 2}.get(found.kind if found else "", 1)


_AFTER_S = 10.0
"""Seconds that an idle query waits before it marks a closed plan as committed.

The delay saves one put per batch when few messages arrive.
"""


class Noting:
    """Marks a plan as committed if no plan follows this plan yet.

    The mark is written once for each plan; a failure is only logged.

    Used by one thread.
    """

    def __init__(
        self,
        folder: PlanFolder,
        recovery: PlanRecovery,
        cleaning: Cleaning,
        clock: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._recovery = recovery
        self._cleaning = cleaning
        self._clock = clock
        self._closed_at = clock()
        self._noted = START

    def closed(self) -> None:
        """Record that a plan was closed just now."""
        self._closed_at = self._clock()

    def idle(self, plan: PlanId, *, ends: bool) -> None:
        """Mark this plan as committed, if the plan was closed long enough ago.

        ends: this may be the last call of the run, so do not wait.
        """
        if plan in (START, self._recovery.followed, self._noted):
            return
        if not ends and self._clock() - self._closed_at < _AFTER_S:
            return
        self._noted = plan
        try:
            self._cleaning.add(plan, self._folder.mark_committed(plan))
        except AzQueueError as error:
            log.warning("could not note that batch %d is committed: %s", plan.number, error)


class Closing:
    """Closes plans. Closing a plan a second time is harmless. Used by one thread."""

    def __init__(
        self, config: SourceConfig, folder: PlanFolder, client: QueueClient, workers: Submits
    ) -> None:
        """workers: threads that close slots in parallel."""
        self._config = config
        self._folder = folder
        self._client = client
        self._workers = workers

    def close(self, plan: Plan, listed: PlanStatus) -> Closed:
        """Close this plan. listed: the plan's objects, listed just before the call.

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
        if plan.slots[slot].again is not None:
            answered = without_deletes(segment, size)
        else:
            answered = settle_slot(self._config, self._client, segment, size)
        self._folder.put_settled(plan, slot, answered)
        return answered
