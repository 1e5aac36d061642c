"""What the objects in the folder of leaseOn=executors are called. Pure values.

log.json                     the folder's identity, written once
slots/<n>-<nonce>-s<slot>    what this slot of plan n gave: messages, or a tombstone
slots/<n>-<nonce>-d<slot>    the deletes of its messages are answered; which are pending
slots/<n>-<nonce>-known      the messages that give no second row in this plan
slots/<n>-<nonce>-next       the plan that follows. When it is there, plan n is closed
slots/<n>-<nonce>-b<slot>-<attempt>  this task is about to dequeue for the slot: it may be killed
slots/<n>-<nonce>-c<slot>-<attempt>  the same, and Spark has said that there was an earlier attempt
slots/<n>-<nonce>-t<writer>  this process was asked for the batch of an earlier one again
slots/<n>-<nonce>-committed  the plan is committed, though none follows it yet
floors/<n>                   plans up to n are cleaned, and nothing is deleted for them now
claims/<number>-<writer>     which driver plans; the highest one counts

Numbers have twelve digits, so names sort as they count. Plan 0 is the start: it has a `next` alone.
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
    """Which plan: its number, and the nonce that no other plan has."""

    number: int
    nonce: str

    def __str__(self) -> str:
        return f"{self.number:012d}-{self.nonce}"


START = PlanId(0, "0" * 32)
"""Before the first plan."""


def slot(plan: PlanId, number: int) -> str:
    """Name of what a slot gave."""
    return f"{SLOTS}/{plan}-s{number:04d}"


def settled(plan: PlanId, number: int) -> str:
    """Name of what says that the deletes of a slot are answered."""
    return f"{SLOTS}/{plan}-d{number:04d}"


def known(plan: PlanId) -> str:
    """Name of the messages that give no second row in this plan."""
    return f"{SLOTS}/{plan}-known"


def following(plan: PlanId) -> str:
    """Name of the plan that follows this one."""
    return f"{SLOTS}/{plan}-next"


def plan_attempt(plan: PlanId, writer: str) -> str:
    """Name of the mark that this process was asked for a plan that an earlier one had issued."""
    return f"{SLOTS}/{plan}-t{writer}"


def is_attempt(name: str) -> bool:
    """True for such a mark. A plan without one was not given up."""
    found = as_slot_name(name)
    return found is not None and found.kind == "t"


def begun(plan: PlanId, number: int, attempt: str, *, is_repeated: bool) -> str:
    """Name of the mark that this attempt at a slot is about to dequeue."""
    return f"{SLOTS}/{plan}-{'c' if is_repeated else 'b'}{number:04d}-{attempt}"


def may_hide(objects: Iterable[str]) -> bool:
    """True if these marks of one plan say that a slot had more than one attempt.

    One that was killed before its put hides what it had dequeued, and leaves nothing else.
    """
    marks = [found for found in map(as_slot_name, objects) if found is not None]
    firsts = Counter(found.slot for found in marks if found.kind == "b")
    return any(found.kind == "c" for found in marks) or any(each > 1 for each in firsts.values())


def committed(plan: PlanId) -> str:
    """Name of the mark that a plan is committed that none follows."""
    return f"{SLOTS}/{plan}-committed"


def prefix(plan: PlanId) -> str:
    """With what the names of all objects of a plan begin, after the slash."""
    return f"{plan}-"


def floor(number: int) -> str:
    """Name of the mark that plans up to this number are cleaned."""
    return f"{FLOORS}/{number:012d}"


class SlotName(NamedTuple):
    """A name. kind: its letter, or its last word. slot: 0 if it is of none."""

    plan: PlanId
    kind: str
    slot: int = 0


def as_slot_name(name: str) -> SlotName | None:
    """Read the name of an object of a plan; None for another one."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    number, nonce, letter, place, word, mark, task, of = found.groups()
    kind = letter or word or mark or task
    return SlotName(PlanId(int(number), nonce), kind, int(place or of or 0))


def floor_in(name: str) -> int | None:
    """The number of a floor, None for another name."""
    found = _FLOOR.fullmatch(name)
    return int(found[1]) if found else None
