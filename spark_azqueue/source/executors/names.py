"""Names of the objects in the folder of leaseOn=executors. Pure values.

log.json                     the folder's identity, written once
slots/<n>-<nonce>-s<slot>    segment of this slot of plan n: its messages, or a tombstone
slots/<n>-<nonce>-d<slot>    report of this slot, written after its deletes: the pending deletes
slots/<n>-<nonce>-known      messages that get no second row in this plan
slots/<n>-<nonce>-next       plan that follows plan n. If this object exists, plan n is closed
slots/<n>-<nonce>-b<slot>-<attempt>  a task is about to dequeue for the slot, and may be killed
slots/<n>-<nonce>-c<slot>-<attempt>  the same, if Spark has reported an earlier attempt
slots/<n>-<nonce>-t<writer>  Spark asked a process for a batch of an earlier process
slots/<n>-<nonce>-committed  the plan is committed, and no plan follows it yet
floors/<n>                   plans up to n are removed, and their tasks delete no more messages
claims/<number>-<writer>     the driver that plans; only the claim with the highest number is valid

Numbers have twelve digits, so names sort by number. Plan 0 is the start, and has only a `next`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

SLOTS, FLOORS = "slots", "floors"

MOST_SLOTS = 1_000

_NAME = re.compile(
    SLOTS
    + r"/([0-9]{12})-([0-9a-f]{32})-(?:([sd])([0-9]{4})|(known|next|committed)|(t)[0-9a-f]{32}"
    + r"|([bc])([0-9]{4})-[0-9a-f]{32})"
)
_FLOOR = re.compile(FLOORS + r"/([0-9]{12})")


class PlanId(NamedTuple):
    """Identity of a plan: its number and a unique nonce."""

    number: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.number:012d}-{self.nonce}"


START = PlanId(0, "0" * 32)
"""Identity of plan 0, the start, which the first plan follows."""


def slot(plan: PlanId, number: int) -> str:
    """Name of the segment of a slot."""
    return f"{SLOTS}/{plan}-s{number:04d}"


def settled(plan: PlanId, number: int) -> str:
    """Name of the report of a slot. The report is written when every delete of the slot has a final
    answer.
    """
    return f"{SLOTS}/{plan}-d{number:04d}"


def known(plan: PlanId) -> str:
    """Name of the object with the messages that get no second row in this plan."""
    return f"{SLOTS}/{plan}-known"


def following(plan: PlanId) -> str:
    """Name of the object with the plan that follows this plan."""
    return f"{SLOTS}/{plan}-next"


def plan_attempt(plan: PlanId, writer: str) -> str:
    """Name of the mark of an attempt by `writer` to run a plan of an earlier process."""
    return f"{SLOTS}/{plan}-t{writer}"


def is_attempt(name: str) -> bool:
    """Return True if the name was made by `plan_attempt`.

    A plan that has no such mark was never abandoned.
    """
    found = as_slot_name(name)
    return found is not None and found.kind == "t"


def begun(plan: PlanId, number: int, attempt: str, *, is_repeated: bool) -> str:
    """Name of the mark of an attempt that is about to dequeue messages for a slot."""
    return f"{SLOTS}/{plan}-{'c' if is_repeated else 'b'}{number:04d}-{attempt}"


def may_hide(objects: Iterable[str]) -> bool:
    """Return True if the marks of one plan show that a slot had more than one attempt.

    If an attempt is killed after it dequeued and before it put a segment, its messages stay
    invisible until their leases end. Only the attempt's mark reveals such messages.
    """
    marks = [found for found in map(as_slot_name, objects) if found is not None]
    firsts = Counter(found.slot for found in marks if found.kind == "b")
    return any(found.kind == "c" for found in marks) or any(each > 1 for each in firsts.values())


def committed(plan: PlanId) -> str:
    """Name of the mark of a committed plan that no plan follows yet."""
    return f"{SLOTS}/{plan}-committed"


def prefix(plan: PlanId) -> str:
    """Prefix of the names of all objects of a plan, without the folder `slots/`."""
    return f"{plan}-"


def floor(number: int) -> str:
    """Name of the mark of a floor: plans up to this number are removed."""
    return f"{FLOORS}/{number:012d}"


class SlotName(NamedTuple):
    """Parts of an object's name.

    kind: the letter of the object's kind, or the last word of the name. slot: 0 if the object
    belongs to no slot.
    """

    plan: PlanId
    kind: str
    slot: int = 0


def as_slot_name(name: str) -> SlotName | None:
    """Parse the name of an object of a plan. Returns None for any other name."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    number, nonce, letter, place, word, mark, task, of = found.groups()
    kind = letter or word or mark or task
    return SlotName(PlanId(int(number), nonce), kind, int(place or of or 0))


def floor_in(name: str) -> int | None:
    """Return the number in the name of a floor, or None for any other name."""
    found = _FLOOR.fullmatch(name)
    return int(found[1]) if found else None
