"""Folder of leaseOn=executors: reads and writes objects, and checks that each object matches its
name.

The module makes no decisions. The driver and each task use the module with their own stores.
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
    """Objects of a plan: its slots with a segment, its slots with a report, and its marks.

    is_committed: a driver has marked the plan as committed, because no plan follows it yet.
    attempts: number of processes that tried to run the plan after the process that issued the plan.
    marks: names of the marks that tasks wrote before they dequeued.
    """

    segments: frozenset[int]
    settled: frozenset[int]
    is_closed: bool
    is_committed: bool = False
    attempts: int = 0
    marks: tuple[str, ...] = ()


class PlanFolder(Journal):
    """One folder of plans.

    Keeps only the id of the folder in memory; all other state is in the folder.
    """

    def __init__(self, store: LogStore, account: str) -> None:
        """account: storage account of the queues. Nothing is sent before the first method is
        called."""
        super().__init__(store, account, names.SLOTS)

    def recognise(self, plan: Plan) -> None:
        """Check in a task that the plan belongs to this folder. Raises CheckpointMismatch."""
        if not self.uuid:
            self.identify()
        self.check(plan)

    def check(self, plan: Plan) -> None:
        """Raise CheckpointMismatch if the plan belongs to another folder."""
        if plan.log == self.uuid:
            return
        self_uuid, self.uuid = self.uuid, ""  # the next check reads the id from the folder
        if not self_uuid:
            raise empty_on_executor(self.where)
        task = ". If this error comes from a task, its executor has another folder mounted there"
        raise of_another(self.where, f"{task} than the driver")

    # ── slots ─────────────────────────────────────────────────────────────────────────────────────

    def segment(self, plan: Plan, slot: int) -> tuple[SlotSegment, int] | None:
        """Return the segment of a slot and its size in bytes, or None if no segment was put.

        Raises LogDamaged if a message is from a queue that the slot does not have, because the
        caller deletes the segment's messages.
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
        """Return the segment of a slot. The caller needs only the plan's id.

        most: maximum number of messages that the slot may have.
        """

        def parse(data: bytes) -> tuple[SlotSegment, int]:
            found = decode_slot(data, log=self.uuid, plan=plan, slot=slot, most=most)
            if found.header.account != self.account:
                raise Damaged("it is of another account")
            return found, len(data)

        return self.read(names.slot(plan, slot), FRAME_AT_MOST + FIRST_READ, parse)

    def put_segment(self, segment: SlotSegment) -> tuple[bool, int]:
        """Put a segment. Returns True if the segment was put, and the segment's size in bytes.

        The segment is not put if the slot already has a segment. An earlier try of the same call
        may have put the existing segment. Raises ServiceError. If the error's
        `may_have_taken_effect` is true, the segment may exist, or may appear later.
        """
        header = segment.header
        data = encode_slot(header, segment.received)
        return self.store.put_new(names.slot(header.plan, header.slot), data), len(data)

    def first_segment(self, plan: Plan, slot: int) -> tuple[SlotSegment, int]:
        """Return the segment that exists for a slot, and its size in bytes.

        Called after a put was refused because the segment exists.
        """
        found = self.segment(plan, slot)
        if found is None:
            raise vanished(self.store, names.slot(plan.id, slot))
        return found

    def settled(self, plan: Plan, slot: int) -> SlotReport | None:
        """Return the report of a slot, or None if the slot has no report yet."""
        return self.settled_of(plan.id, slot, report_bytes_at_most(plan.slots[slot].messages))

    def settled_of(self, plan: PlanId, slot: int, most_bytes: int) -> SlotReport | None:
        """Return the report of a slot. The caller needs only the plan's id."""
        name = names.settled(plan, slot)
        return self.read(name, most_bytes, lambda data: SlotReport.from_bytes(data, self.account))

    def put_settled(self, plan: Plan, slot: int, settled: SlotReport) -> None:
        """Write the report of a slot. If the slot already has a report, this report is complete and
        is kept.
        """
        self.store.put_new(names.settled(plan.id, slot), settled.to_bytes())

    # ── plans ─────────────────────────────────────────────────────────────────────────────────────

    def listed(self, plan: PlanId) -> PlanStatus:
        """List the objects of a plan."""
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
        """Return the plan that follows this plan, or None if this plan is not closed."""

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
        """Store `following` as the plan after `plan`, unless a plan is already stored there.

        Returns the stored plan.
        """
        name, data = names.following(plan), following.to_bytes()
        return self.first(name, data, lambda: self.following(plan)) or following

    def note_attempt(self, plan: PlanId, writer: str) -> str:
        """Mark that this process tries to run a plan of another process. Returns the name of the
        mark.

        A process writes only one mark for a plan, even if Spark asks for the plan several times.
        """
        name = names.plan_attempt(plan, writer)
        self.store.put_new(name, _MARK)
        return name

    def note_begun(self, plan: Plan, slot: int, attempt: str, *, is_repeated: bool) -> None:
        """Mark that this attempt is about to dequeue messages; see `names.may_hide`."""
        name = names.begun(plan.id, slot, attempt, is_repeated=is_repeated)
        self.store.put_new(name, _MARK)

    def mark_committed(self, plan: PlanId) -> str:
        """Mark a plan as committed while no plan follows it. Returns the name of the mark."""
        name = names.committed(plan)
        self.store.put_new(name, _MARK)
        return name

    def known(self, plan: Plan) -> SeenMessages:
        """Return the messages that get no second row in this plan."""
        if not plan.has_known:
            return SeenMessages()
        return self.need(
            names.known(plan.id),
            KNOWN_BYTES_AT_MOST,
            lambda data: SeenMessages.from_bytes(data, self.account),
        )

    def put_known(self, plan: PlanId, known: SeenMessages) -> None:
        """Store the known messages of a plan. Must be called before the plan is put."""
        self.store.put_new(names.known(plan), known.to_bytes())

    # ── cleaning ──────────────────────────────────────────────────────────────────────────────────

    def floor(self) -> int:
        """Return the number up to which plans are removed or being removed; 0 if no plan was
        removed.
        """
        found = map(names.floor_in, self.store.names(names.FLOORS))
        return max((each for each in found if each), default=0)

    def raise_floor(self, number: int) -> None:
        """Store in the folder that tasks of plans up to this number must not delete messages any
        more.
        """
        self.store.put_new(names.floor(number), _MARK)
        for name in self.store.names(names.FLOORS):
            each = names.floor_in(name)
            if each is not None and each < number:
                self.store.delete(name)

    def stored(self) -> dict[PlanId, list[Stored]]:
        """Return the objects of each plan, in the order of the plans."""
        found: dict[PlanId, list[Stored]] = {}
        for each in self.store.entries(names.SLOTS):
            name = names.as_slot_name(each.name)
            if name is not None:
                found.setdefault(name.plan, []).append(each)
        return dict(sorted(found.items()))

    def objects(self) -> dict[PlanId, dict[str, int]]:
        """Return, for each plan, the sizes of its objects by name."""
        return sizes_of(self.stored())


def sizes_of(stored: dict[PlanId, list[Stored]]) -> dict[PlanId, dict[str, int]]:
    """Return, for each plan, the sizes of its objects by name."""
    return {plan: {each.name: each.size for each in all_} for plan, all_ in stored.items()}


def tombstone(plan: Plan, slot: int, attempt: str) -> SlotSegment:
    """Return the empty segment for a slot whose task put no segment before the plan was closed."""
    header = SlotHeader(plan.log, plan.id, slot, plan.account, attempt, tombstone=True)
    return SlotSegment(header, ())
