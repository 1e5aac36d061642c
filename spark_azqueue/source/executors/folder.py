"""The folder of leaseOn=executors: reads and writes its objects, each checked to be the right one.

It decides nothing. Used by the driver and by tasks, each with a store of its own.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.journal.codec import Damaged, loaded, object_of
from spark_azqueue.journal.frame import FIRST_READ, FRAME_AT_MOST
from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.refusals import vanished
from spark_azqueue.journal.store import LogStore
from spark_azqueue.service.names import Stored

from ..refusals import empty_on_executor, of_another
from . import names
from .names import PlanId
from .objects import (
    KNOWN_BYTES_AT_MOST,
    SeenMessages,
    SlotHeader,
    SlotReport,
    SlotSegment,
    decode_slot,
    encode_slot,
    report_bytes_at_most,
)
from .plan import MOST_MESSAGES, Plan

_PLAN_AT_MOST = 2**20

_MARK = json.dumps({"version": 1}).encode()


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """Which objects a plan has: of which slots the segment, of which the report; is it closed?

    is_committed: a driver has said so, since none follows it yet. attempts: how many processes were
    asked for it after the one that issued it. marks: the names of those of
    tasks that dequeued.
    """

    segments: frozenset[int]
    settled: frozenset[int]
    is_closed: bool
    is_committed: bool = False
    attempts: int = 0
    marks: tuple[str, ...] = ()


class PlanFolder(Journal):
    """One folder. Keeps its id alone: what survives a restart is in the folder."""

    def __init__(self, store: LogStore, account: str) -> None:
        """account: of the queues. Nothing is sent before the first method is called."""
        super().__init__(store, account, names.SLOTS)

    def recognise(self, plan: Plan) -> None:
        """Check that the plan is of this folder. For tasks. Raises CheckpointMismatch."""
        if not self.uuid:
            self.identify()
        self.check(plan)

    def check(self, plan: Plan) -> None:
        """Raise CheckpointMismatch if the plan is of another folder."""
        if plan.log == self.uuid:
            return
        self_uuid, self.uuid = self.uuid, ""  # looked at again the next time
        if not self_uuid:
            raise empty_on_executor(self.where)
        task = ". If this error comes from a task, its executor has another folder mounted there"
        raise of_another(self.where, f"{task} than the driver")

    # ── slots ─────────────────────────────────────────────────────────────────────────────────────

    def segment(self, plan: Plan, slot: int) -> tuple[SlotSegment, int] | None:
        """What a slot gave, and its size in bytes; None if nothing was put.

        Its messages are of the queues of that slot, since what is in it says what to delete.
        """
        asked = plan.slots[slot]
        found = self.segment_of(plan.id, slot, asked.messages)
        if found and not asked.again and not set(found[0].header.queues) <= set(asked.queues):
            name = names.slot(plan.id, slot)
            raise self.damaged(name, "it has a queue that its slot has not")
        return found

    def segment_of(
        self, plan: PlanId, slot: int, most: int = MOST_MESSAGES
    ) -> tuple[SlotSegment, int] | None:
        """What a slot gave of a plan of which only the id is known. most: messages of its slot."""

        def parse(data: bytes) -> tuple[SlotSegment, int]:
            found = decode_slot(data, log=self.uuid, plan=plan, slot=slot, most=most)
            if found.header.account != self.account:
                raise Damaged("it is of another account")
            return found, len(data)

        return self.read(names.slot(plan, slot), FRAME_AT_MOST + FIRST_READ, parse)

    def put_segment(self, segment: SlotSegment) -> tuple[bool, int]:
        """Put what a slot gave. Returns False if something was put before, and the size in bytes.

        That may be the work of an earlier attempt of this very call. Raises ServiceError: if
        `may_have_taken_effect`, it may be there, or appear later.
        """
        header = segment.header
        data = encode_slot(header, segment.received)
        return self.store.put_new(names.slot(header.plan, header.slot), data), len(data)

    def first_segment(self, plan: Plan, slot: int) -> tuple[SlotSegment, int]:
        """What was put for a slot, when a later put was refused; and its size in bytes."""
        found = self.segment(plan, slot)
        if found is None:
            raise vanished(self.store, names.slot(plan.id, slot))
        return found

    def settled(self, plan: Plan, slot: int) -> SlotReport | None:
        """What was written when the deletes of a slot were answered; None if they are not yet."""
        return self.settled_of(plan.id, slot, report_bytes_at_most(plan.slots[slot].messages))

    def settled_of(self, plan: PlanId, slot: int, most_bytes: int) -> SlotReport | None:
        """The report of a slot of a plan of which only the id is known."""
        name = names.settled(plan, slot)
        return self.read(name, most_bytes, lambda data: SlotReport.from_bytes(data, self.account))

    def put_settled(self, plan: Plan, slot: int, settled: SlotReport) -> None:
        """Write that the deletes of a slot are answered. If that exists already, it is complete."""
        self.store.put_new(names.settled(plan.id, slot), settled.to_bytes())

    # ── plans ─────────────────────────────────────────────────────────────────────────────────────

    def listed(self, plan: PlanId) -> PlanStatus:
        """Which objects a plan has."""
        segments, settled, words = set(), set(), set()
        marks: list[str] = []
        attempts = 0
        for name in self.store.names(names.SLOTS, names.prefix(plan)):
            each = names.as_slot_name(name)
            if each is not None and each.plan == plan:
                if each.kind == "s":
                    segments.add(each.slot)
                elif each.kind == "d":
                    settled.add(each.slot)
                elif each.kind == "t":
                    attempts += 1
                elif each.kind in "bc":
                    marks.append(name)
                else:
                    words.add(each.kind)
        return PlanStatus(
            frozenset(segments),
            frozenset(settled),
            "next" in words,
            "committed" in words,
            attempts,
            tuple(marks),
        )

    def following(self, plan: PlanId) -> Plan | None:
        """The plan that follows this one; None if there is none, so it is not closed."""

        def parse(data: bytes) -> Plan:
            value = object_of(loaded(data), "plan")
            try:
                found = Plan.from_json(value, account=self.account)
            except CheckpointMismatch as error:
                raise Damaged(error.sentence) from None
            if found.number != plan.number + 1 or found.log != self.uuid:
                raise Damaged("it is not the plan that follows")
            return found

        return self.read(names.following(plan), _PLAN_AT_MOST, parse)

    def put_following(self, plan: PlanId, following: Plan) -> Plan:
        """Let this plan follow that one, unless another does. Returns the one that follows."""
        name, data = names.following(plan), following.to_bytes()
        return self.first(name, data, lambda: self.following(plan)) or following

    def note_attempt(self, plan: PlanId, writer: str) -> str:
        """Write that this process was asked for a plan that another one issued. Returns the name.

        Once for each process, however often it is asked.
        """
        name = names.plan_attempt(plan, writer)
        self.store.put_new(name, _MARK)
        return name

    def note_begun(self, plan: Plan, slot: int, attempt: str, *, is_repeated: bool) -> None:
        """Write that this attempt is about to dequeue, see `names.may_hide`."""
        name = names.begun(plan.id, slot, attempt, is_repeated=is_repeated)
        self.store.put_new(name, _MARK)

    def mark_committed(self, plan: PlanId) -> str:
        """Write that a plan is committed, though none follows it. Returns the name."""
        name = names.committed(plan)
        self.store.put_new(name, _MARK)
        return name

    def known(self, plan: Plan) -> SeenMessages:
        """The messages that give no second row in this plan."""
        if not plan.has_known:
            return SeenMessages()
        return self.need(
            names.known(plan.id),
            KNOWN_BYTES_AT_MOST,
            lambda data: SeenMessages.from_bytes(data, self.account),
        )

    def put_known(self, plan: PlanId, known: SeenMessages) -> None:
        """Write them down, before the plan that needs them is put."""
        self.store.put_new(names.known(plan), known.to_bytes())

    # ── cleaning ──────────────────────────────────────────────────────────────────────────────────

    def floor(self) -> int:
        """Plans up to this number are cleaned, or being cleaned; 0 if none is."""
        found = map(names.floor_in, self.store.names(names.FLOORS))
        return max((each for each in found if each), default=0)

    def raise_floor(self, number: int) -> None:
        """From now on no task deletes a message for plans up to this number. Durable."""
        self.store.put_new(names.floor(number), _MARK)
        for name in self.store.names(names.FLOORS):
            each = names.floor_in(name)
            if each is not None and each < number:
                self.store.delete(name)

    def stored(self) -> dict[PlanId, list[Stored]]:
        """The objects of all plans, in the order of the plans."""
        found: dict[PlanId, list[Stored]] = {}
        for each in self.store.entries(names.SLOTS):
            name = names.as_slot_name(each.name)
            if name is not None:
                found.setdefault(name.plan, []).append(each)
        return dict(sorted(found.items()))

    def objects(self) -> dict[PlanId, dict[str, int]]:
        """The objects of all plans: their sizes by name."""
        return sizes_of(self.stored())


def sizes_of(stored: dict[PlanId, list[Stored]]) -> dict[PlanId, dict[str, int]]:
    """The sizes of these objects by name, by plan."""
    return {plan: {each.name: each.size for each in all_} for plan, all_ in stored.items()}


def tombstone(plan: Plan, slot: int, attempt: str) -> SlotSegment:
    """What a slot gives that put nothing before its plan was closed."""
    header = SlotHeader(plan.log, plan.id, slot, plan.account, attempt, tombstone=True)
    return SlotSegment(header, ())
