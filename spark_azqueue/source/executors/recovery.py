"""Decides whether a query may use a folder, and with which plan it resumes. Also stores later
plans.
"""

from __future__ import annotations

import logging
import math
import uuid

from spark_azqueue.errors import CheckpointMismatch, LostSegment
from spark_azqueue.journal.claim import Claim
from spark_azqueue.journal.refusals import tell_loss
from spark_azqueue.options.choices import LogStart
from spark_azqueue.options.log import LogConfig
from spark_azqueue.options.selection import QueueSelection

from ..refusals import (
    behind,
    check_not_empty,
    check_queues_of_log,
    lost_following,
    not_following,
    removed_following,
    rolled_back_too_far,
    unknown,
)
from . import names
from .folder import PlanFolder, sizes_of
from .names import START, PlanId
from .objects import SeenMessages
from .plan import Plan

log = logging.getLogger(__name__)

Objects = dict[PlanId, dict[str, int]]


class PlanRecovery:
    """Opens the folder, compares it with the checkpoint, then claims it.

    The protocol is correct even without the claim: if two drivers resume from the same plan, only
    one driver can store the next plan. The claim exists to report that two queries, or two loads,
    use the same folder and would deliver the same rows.
    """

    def __init__(self, folder: PlanFolder, settings: LogConfig, selection: QueueSelection) -> None:
        """selection: queues that the query reads."""
        self._folder = folder
        self._settings = settings
        self._selection = selection
        self._claim: Claim | None = None
        self.base: Plan | None = None
        """Committed plan that the first plan of a new checkpoint follows; None if the checkpoint
        begins with an old plan.
        """
        self.objects: Objects = {}
        self.times: dict[int, float] = {}
        """Time at which each plan was stored, in seconds since 1970, by the number of the plan."""
        self.floor = 0
        self.followed: PlanId | None = None
        """Newest plan for which this process stored a following plan."""

    @property
    def is_done(self) -> bool:
        """True if the query may resume."""
        return self._claim is not None

    def take(self, start: Plan, end: Plan | None = None) -> Plan | None:
        """Compare the folder with the checkpoint, and claim the folder. start: the committed plan.
        end: the plan that Spark asks for again; None if Spark repeats no batch.

        Returns an old plan if a new checkpoint must deliver this plan first, else None. Raises
        CheckpointMismatch, LostSegment, LogConflict, LogDamaged, ServiceError. After an error, the
        folder is unchanged, except that a new folder has got its identity.
        """
        folder = self._folder
        newest_known = end or start
        if newest_known.id != START:
            check_not_empty(folder.where, newest_known.number, is_empty=not folder.identify())
        folder.open()
        for plan in (start, end):
            if plan is not None and plan.id != START:
                folder.check(plan)
        self.floor = folder.floor()
        stored = folder.stored()
        self.objects = sizes_of(stored)
        self.times = {
            plan.number: max(each.written or math.inf for each in objects)
            for plan, objects in stored.items()
        }
        newest = self._newest()
        if newest is not None and (self._is_used or start.id != START):
            self.check_queues(newest)
        first = None
        if end is not None:
            self.behind(start, end)
        elif start.id == START:
            first = self._first(newest)
        elif start.number < self.floor:
            first = self._first_kept(start)
        elif not self.stands(start.id):
            raise behind(folder.where, newest.number if newest else 0, start.number)
        self._claim = Claim.take(folder, uuid.uuid4().hex)
        return first

    def check(self) -> None:
        """Raise LogConflict if another process has claimed the folder since `take`."""
        if self._claim:
            self._claim.check()

    def check_queues(self, plan: Plan) -> None:
        """Raise CheckpointMismatch if the query reads none of this plan's queues."""
        check_queues_of_log(self._selection, plan.queues, self._folder.where)

    def behind(
        self, start: Plan, end: Plan, *, issued: PlanId | None = None, has_answered: bool = False
    ) -> list[Plan]:
        """Return the plans of the batch that begins after `start` and ends with `end`.

        If the checkpoint lacks the offsets of some batches, for example with asynchronous progress
        tracking, Spark repeats these batches as one batch with several plans. issued: the newest
        plan that this process has returned to Spark. has_answered: Spark has asked this process for
        a new offset, so Spark repeats no batch any more. Raises CheckpointMismatch, LostSegment.
        """
        folder = self._folder
        if start.id != START and start.number < end.number <= self.floor:
            return [end]  # the tasks of this plan report the loss
        if end.id == issued and (start.id == START or start.number < self.floor):
            return [end]
        if start.id == START:
            following = folder.following(START)
            # A new checkpoint began with this plan, which is the first plan, a plan after unused
            # plans, or an old plan.
            if end.id != START and (
                (following is not None and following.id == end.id) or self.stands(end.id)
            ):
                return [end]
            raise behind(folder.where, 0, end.number)
        plans = [self._first_kept(start)] if start.number < self.floor else []
        at = plans[-1] if plans else start
        while at.id != end.id:
            if at.number >= end.number:
                raise not_following(folder.where, start.number, end.number, at.number)
            following = folder.following(at.id)
            if following is None:
                raise behind(folder.where, at.number, end.number)
            at = following
            plans.append(at)
        if len(plans) > 1 and has_answered:
            raise not_following(folder.where, start.number, end.number, plans[0].number)
        return plans

    def stands(self, plan: PlanId) -> bool:
        """Return True if the folder still has this plan: the plan has objects, or the previous plan
        has.
        """
        if plan in self.objects:
            return True
        before = [each for each in self.objects if each.number == plan.number - 1]
        followed = (self._folder.following(each) for each in before)
        return any(each is not None and each.id == plan for each in followed)

    def unknown(self, newest: int) -> CheckpointMismatch:
        """Return the error for a new checkpoint whose folder was already used. newest: number of
        the folder's newest batch."""
        return unknown(self._folder.where, newest)

    def follow(self, plan: Plan, following: Plan, known: SeenMessages) -> Plan:
        """Store `following` as the plan after `plan`, unless a plan is already stored there.

        Returns the stored plan.

        known: messages that get no second row in `following`. Raises LostSegment, LogDamaged,
        ServiceError.
        """
        folder = self._folder
        if following.has_known:
            folder.put_known(following.id, known)
        self.followed = plan.id
        stored = folder.put_following(plan.id, following)
        if plan.number < folder.floor():  # `plan` and the plan after it were removed
            self._tell(removed_following(folder.where, plan.number))
        return stored

    def _tell(self, error: LostSegment) -> None:
        tell_loss(error, lose=not self._settings.fail_on_data_loss)

    @property
    def _is_used(self) -> bool:
        """Return True if a query may have read a batch of the folder."""
        found = (names.as_slot_name(name) for objects in self.objects.values() for name in objects)
        return self.floor > 0 or any(each is not None and each.kind == "d" for each in found)

    def _newest(self) -> Plan | None:
        """Return the newest plan of the chain, even if the plan has no objects yet; None if the
        chain is empty.

        A second driver may have left objects of plans that are not in the chain. No plan follows
        such a plan.
        """
        followed = [plan for plan in self.objects if names.following(plan) in self.objects[plan]]
        return self._folder.following(max(followed)) if followed else None

    def _first(self, newest: Plan | None) -> Plan | None:
        """Return the plan with which a new checkpoint begins, or None to begin with a new plan.

        See `writeAheadLogStart`.
        """
        if not self._is_used:
            return None
        choice = self._settings.start
        if choice is None:
            raise self.unknown(newest.number if newest else self.floor)
        if choice is LogStart.EARLIEST:
            return self._after(self.floor)
        if newest is None:
            return self._after(self.floor)  # raises LostSegment
        # The newest plan is known to be committed only if a mark says so. Every older plan is
        # committed, because another plan follows it.
        if names.committed(newest.id) in self.objects.get(newest.id, ()):
            self.base = newest
        after = newest.number if self.base else newest.number - 1
        if after > self.floor:
            log.warning("batches %d to %d are not delivered", self.floor + 1, after)
        return None if self.base else newest

    def _first_kept(self, start: Plan) -> Plan:
        """Log that the checkpoint was rolled back too far, and return the oldest plan that is kept.

        Raises LostSegment with failOnDataLoss=true.
        """
        self._tell(rolled_back_too_far(self._folder.where, start.number, self.floor))
        return self._after(self.floor)

    def _after(self, number: int) -> Plan:
        """Return the plan that follows the plan with this number."""
        # A second driver may have left an object of a plan that no plan follows.
        before = [plan for plan in self.objects if plan.number == number]
        followed = (self._folder.following(plan) for plan in before)
        found = next((plan for plan in followed if plan is not None), None)
        if found is None:
            raise lost_following(self._folder.where, number)
        return found
