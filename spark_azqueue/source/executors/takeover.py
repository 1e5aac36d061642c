"""Whether a query may go on in a folder, and with which plan. Once, at its first call."""

from __future__ import annotations

import logging
import uuid
from typing import NoReturn

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch, LostSegment
from spark_azqueue.options.choices import LogStart
from spark_azqueue.options.log import LogConfig

from ..log.claim import Claim
from .folder import PlanFolder
from .names import START, PlanId
from .plan import Plan

log = logging.getLogger(__name__)

Objects = dict[PlanId, dict[str, int]]


class Takeover:
    """Opens the folder, compares it with the checkpoint, then claims it.

    The protocol needs no claim: of two drivers that go on from one plan, one plan follows. It tells
    a user of two queries, or two loads, with one folder: they would give the same rows.
    """

    def __init__(self, folder: PlanFolder, settings: LogConfig) -> None:
        self._folder = folder
        self._settings = settings
        self._claim: Claim | None = None
        self.objects: Objects = {}
        self.floor = 0

    @property
    def is_done(self) -> bool:
        """True if the query may go on."""
        return self._claim is not None

    def take(self, start: Plan, end: Plan | None = None) -> Plan | None:
        """Take the folder over. start: the committed plan. end: the one that Spark asks for again.

        Returns the plan to give out next, if a new checkpoint begins with an old one. Raises
        CheckpointMismatch, LostSegment, LogConflict, LogDamaged, ServiceError; nothing was changed
        then, but that a new folder has an identity.
        """
        folder = self._folder
        folder.open()
        for plan in (start, end):
            if plan is not None and plan.id != START:
                folder.check(plan)
        self.floor = folder.floor()
        self.objects = folder.objects()
        newest = max((plan for plan in self.objects if plan != START), default=START)
        first = None
        if end is not None:
            self._check_follows(start, end)
        elif start.id == START:
            first = self._first(newest)
        elif start.number < self.floor:
            self.tell_removed(start)
        elif start.id not in self.objects and not self._follows(start):
            self._is_behind(start.number, newest.number)
        self._claim = Claim.take(folder.store, uuid.uuid4().hex)
        return first

    def check(self) -> None:
        """Raise LogConflict if another process has claimed the folder since."""
        if self._claim:
            self._claim.check()

    def _check_follows(self, start: Plan, end: Plan) -> None:
        """Spark repeats a batch: the folder has to know it as the one that follows."""
        if start.number < self.floor or (start.id != START and end.number <= self.floor):
            return  # its tasks say what is lost
        following = self._folder.following(start.id)
        if following is not None and following.id == end.id:
            return
        if start.id == START and self._is_first(end):
            return
        self._is_behind(end.number, start.number)

    def _follows(self, plan: Plan) -> bool:
        """True if the plan before says so. No object is the plan's own if no task of it ran."""
        before = [each for each in self.objects if each.number == plan.number - 1]
        found = map(self._folder.following, before)
        return any(each is not None and each.id == plan.id for each in found)

    def tell_removed(self, start: Plan) -> None:
        """The batches that follow are removed. Raises LostSegment, unless failOnDataLoss=false."""
        error = LostSegment(
            f"the checkpoint is at batch {start.number}, and the write-ahead log"
            f" {self._folder.where} no longer has the batch that followed: was the checkpoint"
            " rolled back further than writeAheadLogRetention, or has another query with a copy of"
            " it gone on? Restore a newer checkpoint, or set failOnDataLoss=false to go on without"
            " the rows of these batches"
        )
        if self._settings.fail_on_data_loss:
            raise error
        log.warning("%s", error)

    def _is_first(self, end: Plan) -> bool:
        """A new checkpoint began with an old plan (writeAheadLogStart)."""
        return end.id in self.objects

    def _first(self, newest: PlanId) -> Plan | None:
        """With which plan a new checkpoint begins; None for a new one. See `writeAheadLogStart`."""
        following = None if self.floor else self._folder.following(START)
        if following is None and not self.floor:
            return None
        is_used = self.floor > 0 or (following is not None and following.id in self.objects)
        if not is_used:
            return following  # it was never given out
        choice = self._settings.start
        if choice is None:
            raise CheckpointMismatch(
                f"the write-ahead log {self._folder.where} has given out batches up to"
                f" {newest.number}, but the checkpoint does not know it: it is the log of another"
                " query, or the checkpoint was lost. Name another folder, or restore the"
                " checkpoint; or take a new output, and set writeAheadLogStart=afterCommitted, or"
                " earliest to get all batches again that the log holds",
                condition=Condition.LOG_CHECKPOINT_MISMATCH,
            )
        if choice is LogStart.EARLIEST and following is not None:
            return following
        wanted = self.floor if choice is LogStart.EARLIEST else newest.number - 1
        before = next((plan for plan in self.objects if plan.number == wanted), START)
        found = self._folder.following(before)
        if found is None:
            raise LostSegment(
                f"the write-ahead log {self._folder.where} does not say what followed batch"
                f" {wanted}: restore it, or start with a new folder"
            )
        return found

    def _is_behind(self, number: int, newest: int) -> NoReturn:
        raise CheckpointMismatch(
            f"the write-ahead log {self._folder.where} is behind the checkpoint: it ends with batch"
            f" {newest}, and the checkpoint is at {number}. Restore the log, or start with a new"
            " folder, a new checkpointLocation and a new output",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )
