"""Numbers in the names of a log's objects, with twelve digits, and retention of objects.

A range of numbers is never iterated, since any name may have chosen its end: an object may be named
`seg/999999999999`. So code iterates over the existing objects instead, and a folder lists at most
`MOST_NAMES`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_azqueue.service.names import MOST_NAMES


def standing(numbers: range, there: Collection[int]) -> Sequence[int]:
    """Return the numbers of this range that exist, ascending. there: numbers of all objects."""
    if len(numbers) > len(there):
        return sorted(number for number in there if number in numbers)
    return [number for number in numbers if number in there]


def first_missing(numbers: range, there: Iterable[int]) -> int | None:
    """Return the first of these numbers that is missing; None if none is missing."""
    known = set(there)
    return next((number for number in numbers if number not in known), None)


def is_too_long(numbers: range) -> bool:
    """Return True if the range has more numbers than a log can have objects at a time."""
    return len(numbers) > MOST_NAMES


_PLAIN = re.compile(r"[a-z-]+/([0-9]{12})")


_TAGGED = re.compile(r"[a-z-]+/([0-9]{12})-([0-9a-z]{1,64})")


class Tagged(NamedTuple):
    """Number in a name, with its tag: a writer, or a sequence. Sorts by number, then by tag."""

    number: int
    tag: str


def number_in(name: str) -> int | None:
    """Return the number of a segment or an outcome, None for any other name."""
    found = _PLAIN.fullmatch(name)
    return int(found[1]) if found else None


def tagged_in(name: str) -> Tagged | None:
    """Return number and tag of a claim, a mark or an attempt, None for any other name."""
    found = _TAGGED.fullmatch(name)
    return Tagged(int(found[1]), found[2]) if found else None


KEPT_AT_MOST = 100_000
"""Most batches, or objects, that are kept because of their age.

A listing may have far more names.
"""


AT_ONCE = 64
"""Most batches that are removed together because of their age: a batch waits for the removal."""


def old_enough(floor: int, times: Mapping[int, float], before: float) -> int:
    """Return the number up to which all batches were stored before this time.

    The result is `floor`, or at most AT_ONCE above it. times: when each batch was stored, in
    seconds since 1970. A batch without a time is old enough.
    """
    last = max(times, default=floor)
    number = floor
    while number < min(last, floor + AT_ONCE) and times.get(number + 1, before) <= before:
        number += 1
    return number
