"""Counters of one run, and the test that a finished run has read everything.

The classes are used by one thread, and keep nothing over a restart.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from spark_azqueue.errors import NotDrained
from spark_azqueue.metrics.report import Counters, LogReport, Report

from ..intake.backlog import EXPIRED_AFTER_S
from ..intake.ending import HiddenWait
from ..intake.monitor import Counted, QueueMonitor
from . import names
from .names import PlanId
from .objects import Closed, SeenMessages, SlotReport
from .plan import Plan

log = logging.getLogger(__name__)

_CLOCKS_DIFFER_S = 60.0
"""Maximum expected difference between the clocks of the store and of this machine, in seconds."""

_PLANS_WITHOUT_TASKS = 2
"""The user is warned after this many consecutive plans for which no task ran."""


class Drained:
    """Decides whether an availableNow run has read everything.

    The run does not end while messages that killed tasks have leased may be invisible. Used by one
    thread. The state is lost at a restart: a plan that is replayed counts as a plan with killed
    tasks.
    """

    def __init__(
        self,
        monitor: QueueMonitor,
        clock: Callable[[], float],
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        """clock: monotonic seconds. now: seconds since 1970."""
        self._monitor = monitor
        self._clock = clock
        self._now = now
        self._wait = HiddenWait(monitor, sleep)
        self._hidden_until = 0.0
        self._without_tasks = 0  # consecutive plans for which no task ran
        self._expired_at = (
            0.0  # time when all messages that were skipped near their expiry have expired
        )

    def may_hide(self, plan: Plan) -> None:
        """Assume that tasks of this plan were killed before their leases ended.

        The messages become visible when the leases end.
        """
        self._hides_for(plan.lease_s)

    def _hides_for(self, lease_s: int) -> None:
        self._hidden_until = max(self._hidden_until, self._clock() + lease_s + 1)

    def found(
        self, objects: Mapping[PlanId, Iterable[str]], times: Mapping[int, float], lease_s: int
    ) -> None:
        """Assume that tasks of the newest plans of an earlier run were killed before their leases
        ended.

        objects: for each plan, the names of its objects when the query started. times: time at
        which each plan was stored, in seconds since 1970, by the number of the plan. lease_s:
        longest lease of these tasks, in seconds.
        """
        since = self._now() - lease_s - _CLOCKS_DIFFER_S
        for plan, listed in objects.items():
            if times.get(plan.number, math.inf) >= since and names.may_hide(listed):
                self._hides_for(lease_s)

    def on_plan_closed(
        self, plan: Plan, closed: Closed, marks: Iterable[str], *, ends: bool
    ) -> None:
        """Record that a plan is closed.

        marks: attempt marks of the plan's tasks. ends: the run is an availableNow run, which ends
        when everything is read. Raises NotDrained if the run would never end.
        """
        settled = closed.settled
        if any(each.counts.skipped_near_expiry for each in settled):
            self._expired_at = self._clock() + EXPIRED_AFTER_S
        is_repeated = any(
            each.repeated for each in settled
        )  # tasks of an earlier release left no marks
        if len(settled) < len(plan.slots) or is_repeated or names.may_hide(marks):
            self.may_hide(plan)
        self._without_tasks = 0 if settled else self._without_tasks + 1
        if self._without_tasks < _PLANS_WITHOUT_TASKS:
            return
        text = (
            f"{self._without_tasks} batches in a row had no task, so nothing was dequeued: does"
            " foreachBatch use the DataFrame that it gets?"
        )
        if ends:
            raise NotDrained(f"{text} This availableNow run would not end")
        log.warning("%s", text)

    @property
    def hidden_for(self) -> int:
        """Number of seconds for which messages of killed tasks may still be leased."""
        return math.ceil(max(0.0, self._hidden_until - self._clock()))

    def is_over(self) -> bool:
        """Return True if all leases of killed tasks have ended.

        If a lease may not have ended, wait a moment and return False. Raises NotDrained if the wait
        would take too long.
        """
        left = self._hidden_until - self._clock()
        if left <= 0:
            return True
        what = "messages may be hidden by leases of tasks that were killed"
        names = [queue.name for queue in self._monitor.queues]
        expires_in = self._expired_at - self._clock()
        return self._wait.is_over(what, left, self._now() + left, names, expires_in)


class Totals:
    """Counters since the run began. Used by one thread."""

    def __init__(self, lease_s: int) -> None:
        self._lease_s = lease_s
        self._counters = Counters()
        self._expires: int | None = None
        self._oldest: int | None = None
        self.is_idle = False
        """True if the last peek at all queues found no message."""

    def on_plan_closed(self, settled: Sequence[SlotReport], evicted: int) -> None:
        """Add the counts of a closed plan. settled: reports of the slots for which a task ran.

        evicted: number of known messages that were evicted.
        """
        self.given(settled)
        self.leased(settled, evicted)
        self._expires = min((e.expires for e in settled if e.expires is not None), default=None)

    def given(self, settled: Sequence[SlotReport]) -> None:
        """Count the rows of these slots."""
        self._oldest = min((e.oldest for e in settled if e.oldest is not None), default=None)
        for each in settled:
            self._counters.delivered += each.messages
            self._counters.delivered_bytes += each.given_bytes

    def leased(self, settled: Sequence[SlotReport], evicted: int) -> None:
        """Count the dequeues, deletes and duplicates of these slots."""
        counters = self._counters
        for each in settled:
            counters.dequeued += each.counts.dequeued
            counters.redelivered += each.counts.redelivered
            counters.deleted += each.deleted + len(each.gone)
            counters.deletes_refused += each.messages - each.deleted
            counters.duplicates_suppressed += each.counts.duplicates_suppressed
            counters.poison_moved += each.counts.poison
            counters.skipped_near_expiry += each.counts.skipped_near_expiry
            counters.throttled += each.counts.throttled
        counters.evicted_deletes += evicted

    def report(
        self,
        counted: Counted,
        plans: Sequence[PlanId] | None,
        size: int,
        known: SeenMessages,
        throttled: int,
        set_aside: int,
    ) -> Report:
        """Return the report of the run.

        plans: plans in the folder, or None before the folder is open. size: size of the folder in
        bytes. set_aside: number of messages that were copied to poison queues because their batches
        failed.
        """
        state = None
        if plans is not None:
            state = LogReport(len(plans), size, 0, len(known), len(known))
        counted_here = self._counters
        counters = replace(
            counted_here,
            throttled=counted_here.throttled + throttled,
            poison_moved=counted_here.poison_moved + set_aside,
        )
        return Report(
            counted.backlog,
            0,
            len(known),
            self._lease_s,
            counters,
            state,
            counted.poison,
            self._expires,
            self._oldest,
            heads=counted.heads,
        )
