"""Driver's part of a source with leaseOn=executors: handles each call of Spark.

The offset of a batch is its plan. The driver leases no messages. The driver closes the last plan,
finds the queues that have messages, and plans the next batch. A query run uses one instance, and
Spark calls the instance from one thread. This module does not import pyspark: `readers.py` converts
Spark's types.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_azqueue.journal.store import LogStore, log_store
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.log import ExecutorsConfig, LogConfig
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.store import Removals
from spark_azqueue.service.messages import MOST_IN_A_PLAN
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import LAST_WORDS_S

from ..calls import Wanted
from ..dead_letters import DecodingRecord
from ..intake.monitor import QueueMonitor
from ..leases.holder import removals_for
from ..leases.timing import START_ON_EXECUTORS_S
from ..logged.undecodable import Reading
from ..offsets import OffsetJson, QueueOffset
from ..runtime import DEFAULT, Runtime
from ..suspects import LAST, SINGLES_UP_TO, Evidence, status
from .closing import Cleaning, Closing, Noting
from .folder import PlanFolder
from .given_up import PlanOutcomes, by_turn, plan_again
from .names import START, PlanId
from .objects import Closed, SeenMessages
from .plan import Plan, Suspected, oldest
from .planning import PlanSizing, ReadyQueues, chosen_queues
from .recovery import PlanRecovery
from .rows import SlotAssignment
from .totals import Drained, Totals

log = logging.getLogger(__name__)

_SLOTS_AT_ONCE = 8
"""Maximum number of slots that are closed in parallel."""


class ExecutorsConsumer:
    """Plans the batches of a query.

    Only the offsets and the folder survive a restart.
    """

    def __init__(
        self,
        config: SourceConfig,
        settings: LogConfig,
        executors: ExecutorsConfig,
        *,
        store: LogStore | None = None,
        removals: Removals | None = None,
        runtime: Runtime = DEFAULT,
    ) -> None:
        """Keep the parameters; send nothing before the first call.

        store, removals: replace the store and the removals that the options name.
        """
        self._config = config
        self._now = runtime.now
        self._account = config.account.name
        self.initial: OffsetJson = QueueOffset(self._account).to_json()
        """Offset of a query that has read nothing. The offset is the same in every run."""
        self._client = runtime.client or QueueClient(config.account)
        store = store or log_store(settings.place, settings.account, EXECUTORS)
        self._folder = PlanFolder(store, self._account)
        self._recovery = PlanRecovery(self._folder, settings, config.selection)
        # Tasks lease messages, and delete them before the batch ends.
        self._monitor = QueueMonitor(config, self._client, runtime)
        self._ready = ReadyQueues(
            self._client,
            self._monitor.isolation,
            config.max_poll_interval,
            runtime.clock,
            self._monitor.vanished,
        )
        self._monitor.used_by(self._ready)
        closers = runtime.make_workers(_SLOTS_AT_ONCE, "slots")
        self._closing = Closing(config, self._folder, self._client, closers)
        if removals is None and config.claim_check:
            removals = removals_for(config.claim_check, runtime.make_workers)
        self._cleaning = Cleaning(
            config,
            self._folder,
            settings.retention.batches,
            runtime.make_workers(1, "clean"),
            removals,
            keep_s=settings.retention.seconds,
            now=runtime.now,
        )
        self._sizing = PlanSizing(config, executors, runtime.clock)
        self._drained = Drained(self._monitor, runtime.clock, runtime.now, runtime.sleep)
        self._totals = Totals(config.visibility_timeout or START_ON_EXECUTORS_S)
        self._noting = Noting(self._folder, self._recovery, self._cleaning, runtime.clock)
        self._given_up = PlanOutcomes(
            config,
            self._folder,
            self._client,
            self._closing,
            self._cleaning,
            self._totals,
            self._recovery,
            runtime.now,
        )
        self._closed: PlanId | None = None  # the newest plan that this process closed
        self._known = SeenMessages()  # known messages after the plan `_closed`
        self._suspects: tuple[Suspected, ...] = ()  # delivered again after the plan `_closed`
        self._evidence = Evidence()  # findings about the suspects
        self._decoding = DecodingRecord(config)
        self._issued: PlanId | None = None  # the newest plan that Spark got from this process
        self._first_made = math.inf  # number of the first plan that this process made
        self._has_answered = False  # after the first offset, Spark repeats no batch
        self._first: tuple[PlanId, Plan] | None = None  # the start, and the plan after it
        self._before_first = Plan.start(self._account)  # before a new checkpoint's first plan
        self._cutoff: int | None = None  # cutoff of an availableNow run

    def freeze_cutoff(self) -> None:
        """Restrict the run to messages that were inserted before this call, by the service's clock
        in whole seconds.
        """
        self._cutoff = int(self._monitor.open().timestamp()) * 1_000_000
        self._ready.only_until(self._cutoff)
        self._monitor.limit()

    def latest(self, wanted: Wanted) -> OffsetJson:
        """Close the committed plan and return the next plan, or the start offset if there is no
        next plan.

        A plan stays open, and the next plan is not made, until the plan is proven to be committed.
        """
        self._has_answered = True
        if not self._monitor.is_open:
            self._monitor.open()
        plan = self._plan(wanted.start)
        if not self._recovery.is_done:
            self._take_over(plan)
        if self._first is not None and self._first[0] == plan.id:
            return self._given(self._first[1])
        if plan.id == START:
            plan = self._before_first
        if self._closed != plan.id:
            is_closed = plan.id == START or self._folder.listed(plan.id).is_closed
            if wanted.may_run and not is_closed:
                return wanted.start
            following = self._close(plan)
            if following is not None:
                return self._given(following)
        following = self._next(plan, wanted)
        if following is None:
            return wanted.start
        self._first_made = min(self._first_made, following.number)
        return self._given(following)

    def plan(
        self, start: Mapping[str, Any], end: OffsetJson, *, is_proven: bool = True
    ) -> list[bytes]:
        """Return the assignment (slot and plan) of each task of the batch whose end offset is
        `end`.

        The batch has several plans if Spark's log lacks some offsets. An abandoned plan has no
        tasks, even if this call abandons it.
        """
        before, plan = self._plan(start), self._plan(end)
        if before.id == plan.id:
            return []
        if not self._recovery.is_done:
            self._monitor.open()
            self._take_over(before, plan)
        self._recovery.check()
        plans = self._recovery.behind(
            before, plan, issued=self._issued, has_answered=self._has_answered
        )
        alone = len(plans) == 1
        return [part for each in plans for part in self._parts(each, is_alone=alone)]

    def _parts(self, plan: Plan, *, is_alone: bool) -> list[bytes]:
        self._recovery.check_queues(plan)
        following = self._folder.following(plan.id)
        if self._issued != plan.id:  # tasks of an earlier run may have been killed
            self._drained.may_hide(plan)
            following = following or self._given_up.instead_of(plan, is_alone=is_alone)
        if following is not None and following.gave_up:
            return []
        return [
            SlotAssignment.by(plan, slot, self._config).to_bytes()
            for slot in range(len(plan.slots))
        ]

    def committed(self, offset: Mapping[str, Any]) -> None:
        """Do nothing; a plan is closed when the next plan is requested."""

    def give_back(self, offset: OffsetJson, timeout_s: float) -> bool | None:
        """Return True for a plan of this run, None for a plan of an earlier run.

        The call sends no request: only tasks lease messages, and no task has begun.
        """
        return True if self._plan(offset).number >= self._first_made else None

    def report(self) -> Report:
        """Return the backlog, the sums of the slots' counts in this run, and the state of the
        folder.
        """
        counted = self._monitor.counted(idle=self._totals.is_idle)
        plans = self._cleaning.plans if self._recovery.is_done else None
        report = self._totals.report(
            counted,
            plans,
            self._cleaning.bytes,
            self._known,
            self._client.throttled,
            self._given_up.set_aside,
        )
        return replace(report, hidden_for=self._drained.hidden_for)

    def close(self) -> None:
        """Wait a few seconds for background work, then close the connections."""
        if self._closed is not None:
            self._noting.idle(self._closed, ends=True)
        self._cleaning.finish(LAST_WORDS_S)
        self._client.close()
        self._folder.close()

    # ── the steps of `latest` ─────────────────────────────────────────────────────────────────────

    def _take_over(self, start: Plan, end: Plan | None = None) -> None:
        first = self._recovery.take(start, end)
        self._first = (start.id, first) if first is not None else None
        self._cleaning.found(self._recovery.objects, self._recovery.floor, self._recovery.times)
        lease_s = max(start.lease_s, self._config.visibility_timeout or START_ON_EXECUTORS_S)
        self._drained.found(self._recovery.objects, self._recovery.times, lease_s)
        if start.id == START and first is None and end is None:
            self._before_first = self._recovery.base or self._after_unused()

    def _after_unused(self) -> Plan:
        """Return the plan before the first plan of a new checkpoint.

        This plan is the start, or the newest of the plans that delivered nothing. A process that
        crashes before Spark has written its first offset leaves a plan that delivered nothing.
        Another query, or another load in the same query, may still use this plan. So the plan is
        closed, and its messages are not delivered under it. Raises CheckpointMismatch if the plan
        delivered messages.
        """
        plan = Plan.start(self._account, self._folder.uuid)
        while (following := self._folder.following(plan.id)) is not None:
            listed = self._folder.listed(following.id)
            if listed.settled or self._closing.close(following, listed).settled:
                raise self._recovery.unknown(following.number)
            plan = following
        self._closed = plan.id
        return plan

    def _close(self, plan: Plan) -> Plan | None:
        """Close the committed plan. Returns the plan that follows this plan, or None if no plan
        follows yet.
        """
        listed = self._folder.listed(plan.id)
        if listed.is_closed:  # closed by an earlier process, or the checkpoint was rolled back
            return self._folder.following(plan.id)
        closed = self._closing.close(plan, listed)
        known, evicted = self._folder.known(plan).after(closed.settled, int(self._now()))
        self._known = known
        self._suspects = closed.suspects
        messages = sum(each.messages for each in closed.settled)
        retried = [plan.suspected.history] if plan.suspected else []
        self._evidence = plan.evidence.on_committed(plan.number, messages, retried, listed.attempts)
        if plan.is_again:
            self._totals.given(closed.settled)
        else:
            self._observe(plan, closed, evicted)
        self._cleaning.ended(plan, closed.sizes, listed.marks)
        self._cleaning.clean(plan.number, self._known, oldest(closed.waiting))
        self._drained.on_plan_closed(plan, closed, listed.marks, ends=self._cutoff is not None)
        self._closed = plan.id
        self._noting.closed()
        return None

    def _observe(self, plan: Plan, closed: Closed, evicted: int) -> None:
        """Use the slots' reports to choose queues and sizes of the next plans."""
        settled = closed.settled
        undecodable = sum(each.counts.poison for each in settled)
        rows = sum(each.messages for each in settled)
        looked = {name: each for one in settled for name, each in one.looked.items()}
        ran_here = self._issued == plan.id
        if ran_here:  # otherwise each restart would count this plan, and stop
            self._decoding.add(rows=rows, undecodable=undecodable)
        self._ready.on_plan_closed(plan, looked, ran_here=ran_here)
        self._sizing.on_plan_closed(closed, looked, ran_here=ran_here)
        self._totals.on_plan_closed(settled, evicted)

    def _next(self, plan: Plan, wanted: Wanted) -> Plan | None:
        """Plan the next batch, of suspects or of new messages. Returns None if there is no message
        now."""
        self._decoding.check()
        evidence, order = self._evidence, self._given_up.order
        suspects = by_turn(self._suspects, evidence, order)
        following = None
        if not suspects or order.turn(suspects[0].history, evidence)[0] == LAST:
            following = self._new(plan, wanted)
        if following is None and suspects:
            now = int(self._now())
            said = self._given_up.said
            following = plan_again(plan, suspects, evidence, order, self._known, now, said)
        return following and self._recovery.follow(plan, following, self._known)

    def _new(self, plan: Plan, wanted: Wanted) -> Plan | None:
        """Return a plan of new messages, or None if there is no new message now."""
        if self._monitor.is_look_due:
            self._monitor.look()
        if not (self._monitor.is_limited or self._monitor.may_begin(is_last=wanted.is_last)):
            if not self._suspects:
                self._noting.idle(plan.id, ends=False)
            return None
        limit = min(wanted.most or MOST_IN_A_PLAN, self._config.max_messages or MOST_IN_A_PLAN)
        if any(each.history.is_lone for each in self._suspects):
            limit = min(limit, SINGLES_UP_TO)  # small batches, as a comparison for suspects
        while True:
            queues = chosen_queues(
                self._ready.with_messages(),
                self._ready.was_emptied,
                self._ready.last_turn,
                self._config.queue_priority,
                plan.number + 1,
                self._sizing.width,
                limit,
            )
            if queues or self._suspects or self._cutoff is None or self._drained.is_over():
                break
            self._ready.look_again()
        self._totals.is_idle = not queues and not self._suspects
        if not queues:
            if not self._suspects:
                self._noting.idle(plan.id, ends=self._cutoff is not None)
            return None
        return Plan(
            self._account,
            self._folder.uuid,
            PlanId(plan.number + 1, uuid.uuid4().hex),
            self._sizing.slots(queues, limit),
            int(self._now()),
            self._config.visibility_timeout or START_ON_EXECUTORS_S,
            self._cutoff,
            len(self._known) > 0,
            self._sizing.limits(queues),
            waiting=tuple(each.parts for each in self._suspects),
            histories=tuple(each.history for each in self._suspects),
            evidence=self._evidence.kept(has_suspects=bool(self._suspects)),
            status=self._status,
            reading=Reading.of(self._config).options,
        )

    @property
    def _status(self) -> str:
        left = sum(each.messages for each in self._suspects)
        return status(self._given_up.said, left) if left else ""

    def _given(self, plan: Plan) -> OffsetJson:
        self._recovery.check()
        self._recovery.check_queues(plan)
        self._issued = plan.id
        self._sizing.begins()
        return plan.to_json()

    def _plan(self, offset: Mapping[str, Any]) -> Plan:
        return Plan.from_json(offset, account=self._account)
