"""Abandons plans whose batches keep failing, and finds the message that makes a batch fail.

A plan is abandoned after several failures. The plan is closed as usual, and the following plan
records that the abandoned plan has no rows. So a single write stores the decision to abandon the
plan, and the following plan. The messages of the abandoned plan are retried in smaller and smaller
batches. A message that is poison by the rule of `../suspects.py` is copied to its poison queue. A
plan that another plan follows is committed or already abandoned, so it is not abandoned now.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Callable, Iterable

from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service import last_failure
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.client import QueueClient

from ..dead_letters import was_moved
from ..logged.undecodable import Reading
from ..refusals import abandoned
from ..suspects import (
    HISTORIES_AT_MOST,
    LAST,
    SAID_OF_MOVED,
    Evidence,
    FailureHistory,
    IsolationRule,
    Odds,
    failed,
    status,
    why,
)
from .closing import Cleaning, Closing
from .folder import PlanFolder, PlanStatus
from .leasing import slot_rows
from .names import PlanId
from .objects import Closed, SeenMessages
from .plan import Plan, Slot, Suspected, groups_of
from .recovery import PlanRecovery
from .totals import Totals

log = logging.getLogger(__name__)


class PlanOutcomes:
    """Counts the attempts to run a plan, and makes the plan that follows an abandoned plan. Used by
    one thread.

    Its methods raise ServiceError and LogDamaged.
    """

    def __init__(
        self,
        config: SourceConfig,
        folder: PlanFolder,
        client: QueueClient,
        closing: Closing,
        cleaning: Cleaning,
        totals: Totals,
        recovery: PlanRecovery,
        now: Callable[[], float],
    ) -> None:
        """now: seconds since 1970."""
        self._config = config
        self._rule = IsolationRule.of(config)
        self.order = self._rule or IsolationRule(0, 0)
        """Rule for the order in which suspects are retried; also used if maxDequeueCount is not set
        now.
        """
        self._folder = folder
        self._client = client
        self._closing = closing
        self._cleaning = cleaning
        self._totals = totals
        self._recovery = recovery
        self._now = now
        self._writer = uuid.uuid4().hex
        self._tried: PlanId | None = None  # the plan that this process tries to run
        self.said = ""
        """Text for users about what this process did with a failed batch."""
        self.set_aside = 0
        """Number of messages that were copied to poison queues."""

    def instead_of(self, plan: Plan, *, is_alone: bool) -> Plan | None:
        """Abandon `plan` if it has failed too often, and return the plan that follows.

        Returns None if `plan` gets another attempt.

        Called when Spark asks this process for a plan of an earlier process, and no plan follows
        this plan yet. is_alone: Spark's batch consists of this plan only.
        """
        if self._rule is None or self._tried == plan.id:
            return None
        if plan.number <= self._folder.floor():  # the tasks of the plan report the loss
            return None
        self._check_places(plan)
        self._tried = plan.id
        self._cleaning.add(plan.id, self._folder.note_attempt(plan.id, self._writer))
        listed = self._folder.listed(plan.id)
        if not self._is_due(plan, listed):
            return None
        closed = self._closing.close(plan, listed)
        found = self._failed(closed, listed.attempts, is_alone=is_alone)
        if found is None:
            return None
        now = int(self._now())
        known, evicted = self._folder.known(plan).after(closed.settled, now)
        if not plan.is_again:
            self._totals.leased(closed.settled, evicted)
        self._cleaning.ended(plan, closed.sizes, listed.marks)
        again = plan_again(plan, *found, self.order, known, now, self.said, gave_up=True)
        return self._recovery.follow(plan, again, known)

    def _check_places(self, plan: Plan) -> None:
        """Raise UndecodableBody if the current options cannot decode a stored body.

        Called before the attempt is counted, because this error must not count as an attempt.
        """
        stored = self._folder.listed(plan.id).segments
        for slot in stored.intersection(range(len(plan.slots))):
            segment, _ = self._folder.first_segment(plan, slot)
            deque(slot_rows(segment, Reading.of(self._config)).rows(), maxlen=0)

    def _is_due(self, plan: Plan, listed: PlanStatus) -> bool:
        """Return True if the plan has failed often enough to be abandoned. listed: the plan's
        objects.

        If a plan stored nothing, no message was delivered, so no message is a suspect. A plan that
        retries messages but stored nothing has failed for a different reason.
        """
        assert self._rule
        if listed.is_committed or (plan.is_again and not listed.segments):
            return False
        odds = Odds.of(plan.evidence, plan.histories)
        if plan.is_again or odds.lone:
            return listed.attempts >= 1
        return listed.attempts >= self._rule.repeats(odds, is_first=not plan.histories)

    def _failed(
        self, closed: Closed, tries: int, *, is_alone: bool
    ) -> tuple[tuple[Suspected, ...], Evidence] | None:
        """Return the suspects to retry if this closed plan is abandoned, and the new evidence.

        Returns None if the plan delivered nothing. If the plan's only message is poison, the
        message is copied to its poison queue and is not retried. Raises TooManyPoison.
        """
        assert self._rule
        plan, stored, evidence = closed.plan, closed.stored, closed.plan.evidence
        count = sum(each.messages for each in closed.settled)
        if not count:
            return None
        before, times = (plan.suspected, 1) if plan.is_again else (None, tries)
        history = failed(
            before and before.history, evidence, plan.number, count, times=times, is_alone=is_alone
        )
        before_it, evidence = evidence, evidence.on_failed(history.size, before and before.history)
        odds = Odds.of(evidence, (history, *(each.history for each in closed.suspects)))
        self.said = self._rule.said_of(history, before_it, odds)
        is_poison = history.is_lone and self._rule.is_poison(history, before_it, odds)
        if is_poison and was_moved(
            self._config,
            self._client,
            self._only_message(closed),
            why(history, last_failure.found(plan.to_json())),
        ):
            self.set_aside += 1
            self.said = SAID_OF_MOVED
            evidence = evidence.on_moved(history)
            return self._or_nothing(closed, closed.suspects, history, evidence), evidence
        log.warning("%s", abandoned(self._folder.where, plan.number, tries, count))
        least = -(-count // max(1, HISTORIES_AT_MOST - len(closed.suspects)))
        pieces = groups_of(stored, max(self._rule.share(history, odds), least))
        suspects = (*(Suspected(each, history) for each in pieces), *closed.suspects)
        return self._or_nothing(closed, suspects, history, evidence), evidence

    def _only_message(self, closed: Closed) -> Message:
        (part,) = closed.stored
        segment, _ = self._folder.first_segment(closed.plan, part.slot)
        return segment.received[0].message

    def _or_nothing(
        self,
        closed: Closed,
        suspects: tuple[Suspected, ...],
        history: FailureHistory,
        evidence: Evidence,
    ) -> tuple[Suspected, ...]:
        """Return the suspects; if none is due now, with an empty group in front.

        The plan that retries an empty group delivers nothing, so a plan of new messages can follow
        this plan.
        """
        if (
            suspects
            and self.order.turn(by_turn(suspects, evidence, self.order)[0].history, evidence)[0]
            < LAST
        ):
            return suspects
        return Suspected((closed.stored[0]._replace(end=0),), history), *suspects


def plan_again(
    before: Plan,
    suspects: Iterable[Suspected],
    evidence: Evidence,
    order: IsolationRule,
    known: SeenMessages,
    issued: int,
    said: str = "",
    *,
    gave_up: bool = False,
) -> Plan:
    """Return the plan that follows `before` and retries the suspects that are due first.

    The other suspects are retried by later plans.

    order: decides which suspects are due. known: messages that get no second row. said: see
    `status`. gave_up: `before` was abandoned and has no rows.
    """
    first, *others = by_turn(suspects, evidence, order)
    return Plan(
        before.account,
        before.log,
        PlanId(before.number + 1, uuid.uuid4().hex),
        tuple(Slot((), max(1, part.messages), 1, part) for part in first.parts),
        issued,
        before.lease_s,
        has_known=len(known) > 0,
        gave_up=gave_up,
        waiting=tuple(each.parts for each in others),
        histories=(first.history, *(each.history for each in others)),
        evidence=evidence,
        status=status(said, first.messages + sum(each.messages for each in others)),
    )


def by_turn(
    suspects: Iterable[Suspected], evidence: Evidence, order: IsolationRule
) -> list[Suspected]:
    """Return the suspects in the order in which they are due; an empty group comes first."""
    return sorted(
        suspects, key=lambda each: (each.messages > 0, order.turn(each.history, evidence))
    )
