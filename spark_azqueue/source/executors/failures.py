"""Plans whose batch fails again and again: counted, given up, and the guilty message found.

Above `maxDequeueCount` a plan is given up. It is closed as ever, and the plan that follows says
that it has no rows: so one object decides that, and what comes instead. Its messages come again in
smaller and smaller batches, and one that fails alone is copied to its poison queue. A plan that
another one follows already was committed, and is never given up.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.workers import Submits

from ..batches.poison_queue import copy_to_poison_queue
from ..log.held import check_held
from ..log.verdicts import BatchOutcome, verdict_due
from . import names
from .cleaning import Cleaning
from .folder import PlanFolder, PlanStatus, tombstone
from .names import PlanId
from .plan import Group, Plan, Slot, cut
from .settle import decided_rows, settle, without_deletes
from .settled import Closed, SeenMessages, SlotReport
from .takeover import Chain
from .watch import Totals


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


log = logging.getLogger(__name__)


class PlanOutcomes:
    """Counts tries, and decides what comes in place of a plan. Used by one thread.

    What it raises: ServiceError, LogDamaged.
    """

    def __init__(
        self,
        config: SourceConfig,
        folder: PlanFolder,
        client: QueueClient,
        closing: Closing,
        cleaning: Cleaning,
        totals: Totals,
        chain: Chain,
        now: Callable[[], float],
    ) -> None:
        """now: seconds since 1970."""
        self._config = config
        self._maximum = config.max_dequeue_count
        self._folder = folder
        self._client = client
        self._closing = closing
        self._cleaning = cleaning
        self._totals = totals
        self._chain = chain
        self._now = now
        self._writer = uuid.uuid4().hex
        self._tried: PlanId | None = None  # it gets another try in this process
        self.set_aside = 0
        """How many messages were copied to poison queues."""

    def instead_of(self, plan: Plan) -> Plan | None:
        """Spark asks this process for a plan of an earlier one, behind which there is none yet.

        Returns the one that follows it if it is given up now; None if it gets another try.
        """
        if self._maximum is None or self._tried == plan.id:
            return None
        if plan.number <= self._folder.floor():  # its tasks say what is lost
            return None
        self._tried = plan.id
        self._cleaning.add(plan.id, self._folder.note_attempt(plan.id, self._writer))
        listed = self._folder.listed(plan.id)
        if not self._may_be_due(plan, listed):
            return None
        closed = self._closing.close(plan, listed)
        instead = self._instead(closed, listed.attempts)
        if instead is None:
            return None
        now = int(self._now())
        known, forgotten = self._folder.known(plan).after(closed.settled, now)
        if not plan.is_again:
            self._totals.leased(closed.settled, forgotten)
        self._cleaning.ended(plan, closed.sizes, (*listed.decisions, *listed.marks))
        return self._chain.put(plan, plan_again(plan, instead, known, now, gave_up=True), known)

    def _may_be_due(self, plan: Plan, listed: PlanStatus) -> bool:
        """True if the plan has failed often enough, unless it has one message. listed: its objects.

        A batch of which nothing was stored failed for a reason of its own.
        """
        if listed.is_committed or not listed.segments:
            return False
        return self._due(plan, listed.attempts, is_single=False) is not None

    def _instead(self, closed: Closed, tries: int) -> tuple[Group, ...] | None:
        """What comes again in place of a closed plan, in this order; None if it keeps its rows.

        A single message is copied to its poison queue, and what follows gives nothing of it.
        """
        plan, stored = closed.plan, closed.stored
        count = sum(part.messages for part in stored)
        due = self._due(plan, tries, is_single=count == 1)
        if not count or due is None:
            return None
        if due is BatchOutcome.POISON:
            segment, _ = self._folder.first_segment(plan, stored[0].slot)
            ((message, _),) = segment.received
            reason = f"batch {plan.number} failed {tries} times with it alone"
            copy_to_poison_queue(self._config, self._client, message, reason)
            self.set_aside += 1
            return closed.waiting or ((stored[0]._replace(end=0),),)
        log.warning(
            "batch %d of the write-ahead log %s failed %d times and is given up: it has no rows,"
            " and its %d messages come again in other batches (at least once)",
            plan.number,
            self._folder.where,
            tries,
            count,
        )
        return (*cut(stored), *closed.waiting)

    def _due(self, plan: Plan, tries: int, *, is_single: bool) -> BatchOutcome | None:
        assert self._maximum is not None
        return verdict_due(tries, self._maximum, is_suspect=plan.is_again, is_single=is_single)


def plan_again(
    before: Plan,
    groups: tuple[Group, ...],
    known: SeenMessages,
    issued: int,
    *,
    gave_up: bool = False,
) -> Plan:
    """The plan behind `before` that gives the first of these groups again; the others wait.

    known: what gives no second row. gave_up: `before` has no rows.
    """
    group, *others = groups
    return Plan(
        before.account,
        before.log,
        PlanId(before.number + 1, uuid.uuid4().hex),
        tuple(Slot((), max(1, part.messages), 1, part) for part in group),
        issued,
        before.lease_s,
        has_known=len(known) > 0,
        gave_up=gave_up,
        waiting=tuple(others),
    )
