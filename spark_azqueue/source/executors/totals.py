"""What a run has counted, from the reports of its slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_azqueue.metrics.report import Counters, LogReport, Report

from .names import PlanId
from .settled import SeenMessages, SlotReport
from .watch import Counted


class Totals:
    """Counts since the run began. Used by one thread."""

    def __init__(self, lease_s: int) -> None:
        self._lease_s = lease_s
        self._counters = Counters()
        self._expires: int | None = None
        self.is_idle = False
        """The last look found no message."""

    def heard(self, settled: Sequence[SlotReport], forgotten: int) -> None:
        """The slots of a plan that had a task. forgotten: known messages that were dropped."""
        self.given(settled)
        self.leased(settled, forgotten)
        self._expires = min((e.expires for e in settled if e.expires is not None), default=None)

    def given(self, settled: Sequence[SlotReport]) -> None:
        """The rows of these slots count."""
        for each in settled:
            self._counters.delivered += each.messages - each.poison
            self._counters.delivered_bytes += each.given_bytes

    def leased(self, settled: Sequence[SlotReport], forgotten: int) -> None:
        """What these slots did in their queues."""
        counters = self._counters
        for each in settled:
            counters.dequeued += each.counts.dequeued
            counters.redelivered += each.counts.redelivered
            counters.deleted += each.deleted + len(each.gone)
            counters.deletes_refused += each.messages - each.deleted
            counters.copies_suppressed += each.counts.copies
            counters.poison_moved += each.poison
            counters.left_to_expire += each.counts.left_to_expire
            counters.throttled += each.counts.throttled
        counters.forgotten += forgotten

    def report(
        self,
        counted: Counted,
        plans: Sequence[PlanId] | None,
        size: int,
        known: SeenMessages,
        throttled: int,
        set_aside: int,
    ) -> Report:
        """The report. plans: those in the folder, None before it is open. size: in bytes.

        set_aside: messages that failed alone.
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
            counted.heads,
        )
