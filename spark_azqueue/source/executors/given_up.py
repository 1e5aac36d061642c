"""Plans whose batch fails again and again: counted, given up, and the guilty message found.

Above `maxDequeueCount` a plan is given up. It is closed as ever, and the plan that follows says
that it has no rows: so one object decides that, and what comes instead. Its messages return in
smaller and smaller batches, and one that fails alone is copied to its poison queue. A plan that
another one follows already was committed, and is never given up.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.client import QueueClient

from ..batches.builder import copy_to_poison_queue
from ..log.outcomes import BatchOutcome, alone, outcome_due, warn_of_split
from ..log.undecodable import Reading
from .closing import Cleaning, Closing
from .folder import PlanFolder, PlanStatus
from .leasing import slot_rows
from .names import PlanId
from .objects import Closed, SeenMessages
from .plan import Group, Plan, Slot, cut
from .recovery import Chain
from .totals import Totals


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
        known, evicted = self._folder.known(plan).after(closed.settled, now)
        if not plan.is_again:
            self._totals.leased(closed.settled, evicted)
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
        """What is delivered in place of a closed plan, in this order; None if it keeps its rows.

        A single message is copied to its poison queue, and what follows gives nothing of it.
        """
        plan, stored = closed.plan, closed.stored
        count = sum(each.messages - each.poison for each in closed.settled)
        due = self._due(plan, tries, is_single=count == 1)
        if not count or due is None:
            return None
        if due is BatchOutcome.POISON:
            message = self._only_one_with_a_row(closed)
            if message is None:
                return None
            copy_to_poison_queue(self._config, self._client, message, alone(plan.number, tries))
            self.set_aside += 1
            return closed.waiting or ((stored[0]._replace(end=0),),)
        warn_of_split(plan.number, self._folder.where, tries, count)
        return (*cut(stored), *closed.waiting)

    def _only_one_with_a_row(self, closed: Closed) -> Message | None:
        """None if the message was dead-lettered after its slot was settled."""
        (slot,) = (
            place for place, each in enumerate(closed.slots) if each and each.messages > each.poison
        )
        segment, _ = self._folder.first_segment(closed.plan, slot)
        aside = slot_rows(self._folder, segment, Reading.of(self._config)).load().aside
        return next((each for each, _ in segment.received if each.key not in aside), None)

    def _due(self, plan: Plan, tries: int, *, is_single: bool) -> BatchOutcome | None:
        return outcome_due(tries, self._maximum, is_suspect=plan.is_again, is_single=is_single)


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
