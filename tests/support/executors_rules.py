"""The rules of leaseOn=executors: what takes each away, and a scenario that needs it.

A scenario begins with two messages in one queue and a query whose first batch is over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from executors_scene import (
    Scene,
    a_clock_is_a_minute_ahead,
    a_page_is_delivered_twice,
    clocks_differ,
    delete_gets_no_answer,
    is_rolled_back,
    object_is_lost,
    others_give_it_back,
    others_give_it_back_after_a_restart,
    others_update_it,
    plan_is_closed_before_its_deletes,
    put_gets_no_answer,
    put_is_repeated,
    slots_overlap,
    task_is_killed_before_it_puts,
    task_puts_after_the_commit,
    task_puts_into_a_cleaned_plan,
)
from executors_setting import LEASE_S

from spark_azqueue.errors import ServiceError
from spark_azqueue.journal.claim import Claim
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.service.messages import Message, MessageKey
from spark_azqueue.service.queues.calls import DatedDelete
from spark_azqueue.source.executors import closing, leasing, names, plan, planning, slot
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.leasing import Leased, Leasing
from spark_azqueue.source.executors.objects import SeenMessages, SlotReport, SlotSegment
from spark_azqueue.source.executors.plan import Slot
from spark_azqueue.source.executors.planning import slots_of
from spark_azqueue.source.executors.recovery import PlanRecovery
from spark_azqueue.source.executors.slot import SlotTask

Patch = pytest.MonkeyPatch


def nothing(*_: Any, **__: Any) -> None:
    pass


def own_put_is_anothers(patch: Patch) -> None:
    refused_early_is_forgotten(patch)  # else these stay known

    def releases(self: SlotTask, leased: Leased, winner: SlotSegment) -> None:
        slot.release(self._client, leased.leases)

    real = PlanFolder.segment

    def segment(self: PlanFolder, plan_id: names.PlanId, place: int) -> Any:
        found = real(self, plan_id, place)
        if found is None:
            return None
        header = dataclasses.replace(found[0].header, attempt="0" * 32)
        return SlotSegment(header, found[0].received), found[1]

    patch.setattr(PlanFolder, "segment", segment)
    patch.setattr(SlotTask, "give_up", releases)


def no_tombstones(patch: Patch) -> None:
    real = PlanFolder.put_segment

    def put_segment(self: PlanFolder, segment: SlotSegment) -> tuple[bool, int]:
        return (True, 0) if segment.header.tombstone else real(self, segment)

    patch.setattr(PlanFolder, "put_segment", put_segment)


def no_chain(patch: Patch) -> None:
    patch.setattr(PlanFolder, "put_following", lambda self, plan_id, following: following)
    patch.setattr(PlanFolder, "following", nothing)
    patch.setattr(PlanRecovery, "behind", lambda _, start, end, **_rest: [end])
    patch.setattr(PlanRecovery, "stands", lambda *_: True)


def no_floor(patch: Patch) -> None:
    patch.setattr(SlotTask, "check_floor", nothing)


def unsettled(patch: Patch) -> None:
    def settled(
        config: Any, client: Any, segment: SlotSegment, size: int, *more: Any
    ) -> SlotReport:
        return SlotReport.of(segment.header, size)

    patch.setattr(closing, "settle_slot", settled)


def rows_before_deletes(patch: Patch) -> None:
    def settled(
        config: Any, client: Any, segment: SlotSegment, size: int, *more: Any
    ) -> SlotReport:
        try:
            return leasing.settle_slot(config, client, segment, size, *more)
        except ServiceError:
            return SlotReport.of(segment.header, size)

    patch.setattr(slot, "settle_slot", settled)


def deletes_before_put(patch: Patch) -> None:
    real = Leasing.lease

    def lease(self: Leasing) -> Leased:
        leased = real(self)
        for _, each in leased.received:
            self._client.now(DatedDelete(each))
        return leased

    patch.setattr(Leasing, "lease", lease)


def no_margin(patch: Patch) -> None:
    refused_early_is_forgotten(patch)
    patch.setattr(leasing, "MARGIN_S", 0)


def refused_is_deleted(patch: Patch) -> None:
    patch.setattr(leasing, "pending_of", lambda message, gone_at: _nobody(message))


def refused_early_is_forgotten(patch: Patch) -> None:
    """As if such a message were certainly deleted: the rules of this list that forbid to give up
    what stands were all that kept it from a second row.
    """
    pending = leasing.pending_of

    def known(message: Message, gone_at: int | None) -> PendingDelete:
        return pending(message, None) if gone_at is None else _nobody(message)

    patch.setattr(leasing, "pending_of", known)


def _nobody(message: Message) -> PendingDelete:
    return PendingDelete(MessageKey(message.queue, "00000000-0000-0000-0000-000000000000"), 0, 1)


def nothing_known(patch: Patch) -> None:
    patch.setattr(SeenMessages, "has", lambda *_: False)


def updates_are_not_seen(patch: Patch) -> None:
    patch.setattr(SeenMessages, "has", lambda self, key, _: key in self)


def leases_end_by_ones_own_clock(patch: Patch) -> None:
    refused_early_is_forgotten(patch)
    patch.setattr(slot, "_until", lambda _: int(slot.time.time()) + LEASE_S)


def known_in_memory_alone(patch: Patch) -> None:
    patch.setattr(PlanFolder, "known", lambda self, plan: SeenMessages())


def releases_what_may_stand(patch: Patch) -> None:
    refused_early_is_forgotten(patch)  # else these stay known
    patch.setattr(ServiceError, "may_have_taken_effect", False)


class _Lenient(set[Any]):
    """As long as what it was made of."""

    def __init__(self, of: Iterable[Any]) -> None:
        self._size = len(listed := list(of))
        super().__init__(listed)

    def __len__(self) -> int:
        return self._size


def a_queue_in_two_slots(patch: Patch) -> None:
    def twice(queues: Any, width: int, **more: Any) -> tuple[Slot, ...]:
        slots = slots_of(queues, width, **more)
        return (slots[0], *slots)

    patch.setattr(planning, "slots_of", twice)
    patch.setattr(plan, "set", _Lenient, raising=False)


def no_look_at_what_follows(patch: Patch) -> None:
    patch.setattr(SlotTask, "is_lost", lambda self: False)


def no_claims(patch: Patch) -> None:
    patch.setattr(Claim, "check", nothing)


RULES: dict[str, tuple[Callable[[Scene], None], Callable[[Patch], None]]] = {
    "a put that is refused may be one's own": (put_is_repeated, own_put_is_anothers),
    "a slot of a closed plan has an object": (task_puts_after_the_commit, no_tombstones),
    "one plan follows another": (is_rolled_back, no_chain),
    "no delete for a cleaned plan": (task_puts_into_a_cleaned_plan, no_floor),
    "a plan is settled when it is closed": (plan_is_closed_before_its_deletes, unsettled),
    "rows after deletes": (delete_gets_no_answer, rows_before_deletes),
    "deletes after the put": (task_is_killed_before_it_puts, deletes_before_put),
    "clocks may differ": (clocks_differ, no_margin),
    "refused after the lease's end: owed": (others_give_it_back, refused_is_deleted),
    "refused before it: known for a day": (a_page_is_delivered_twice, refused_early_is_forgotten),
    "what is owed is known": (others_give_it_back, nothing_known),
    "what is known is in the folder": (
        others_give_it_back_after_a_restart,
        known_in_memory_alone,
    ),
    "what is updated is another message": (others_update_it, updates_are_not_seen),
    "leases end by the service's clock": (a_clock_is_a_minute_ahead, leases_end_by_ones_own_clock),
    "no release of what may stand": (put_gets_no_answer, releases_what_may_stand),
    "a queue is in one slot": (slots_overlap, a_queue_in_two_slots),
    "no lease for a closed plan": (object_is_lost, no_look_at_what_follows),
}
"""A scenario that holds with the rule and breaks a promise without it, and what takes it away."""
