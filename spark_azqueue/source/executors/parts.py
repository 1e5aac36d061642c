"""Which messages of a plan that was given up come again, and in which order. Pure values.

A part is some messages of what a slot gave, by their places in it. A group is the parts that one
later plan gives again, each in a slot of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spark_azqueue.journal.codec import Damaged, hexadecimal, list_of, number

from .names import MOST_SLOTS, PlanId

GROUPS = 8
"""Into so many a plan that fails is cut: from 4,096 messages to a single one in four steps."""

MOST_WAITING = 16_384
"""Parts of one plan: each step of the search adds as many as there are groups and slots."""

_NONCE = 32


class Part(NamedTuple):
    """Messages `first` to `end` - 1 of what this slot of this plan gave."""

    plan: PlanId
    slot: int
    first: int
    end: int

    @property
    def messages(self) -> int:
        """How many; 0 for a slot that gives nothing again."""
        return self.end - self.first

    def to_json(self) -> list[Any]:
        """Plain values."""
        return [self.plan.number, self.plan.nonce, self.slot, self.first, self.end]

    @classmethod
    def from_json(cls, value: object, before: int) -> Part:
        """Read it back. before: the plan that gives it again. Raises Damaged."""
        if not isinstance(value, list) or len(value) != 5:
            raise Damaged("a part of an earlier batch is not valid")
        found = dict(zip(("plan", "nonce", "slot", "first", "end"), value, strict=True))
        part = cls(
            PlanId(number(found, "plan", 1), hexadecimal(found, "nonce")),
            number(found, "slot"),
            number(found, "first"),
            number(found, "end"),
        )
        is_range = part.first <= part.end and part.slot < MOST_SLOTS
        if not is_range or len(part.plan.nonce) != _NONCE or part.plan.number >= before:
            raise Damaged("a part of an earlier batch is not valid")
        return part


Group = tuple[Part, ...]


def groups_from_json(value: Sequence[object], before: int) -> tuple[Group, ...]:
    """Read the groups that wait behind plan `before`. Raises Damaged."""
    groups = tuple(
        tuple(
            Part.from_json(part, before) for part in list_of({"group": each}, "group", MOST_SLOTS)
        )
        for each in value
    )
    if not all(groups) or sum(map(len, groups)) > MOST_WAITING:
        raise Damaged("the parts of earlier batches that wait are not valid")
    return groups


def cut(parts: Iterable[Part]) -> list[Group]:
    """Cut these parts into groups of about equal size, in their order; of one message at least."""
    parts = [each for each in parts if each.messages]
    most = -(-sum(each.messages for each in parts) // GROUPS)
    groups: list[list[Part]] = []
    room = 0
    for part in parts:
        first = part.first
        while first < part.end:
            if not room:
                groups.append([])
                room = most
            end = min(part.end, first + room)
            groups[-1].append(part._replace(first=first, end=end))
            room -= end - first
            first = end
    return [tuple(group) for group in groups]


def oldest(groups: Iterable[Group]) -> int | None:
    """The number of the oldest plan that these need; None if they need none."""
    return min((part.plan.number for group in groups for part in group), default=None)
