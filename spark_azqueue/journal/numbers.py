"""Numbers in the names of a log's objects, with twelve digits, and how long objects stay.

A range is never walked, since any name may have chosen its end: one object may be called
`seg/999999999999`. So what is done for each number of a range is done for each object that exists,
and a folder lists at most `MOST_NAMES`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_azqueue.service.names import MOST_NAMES


def standing(numbers: range, there: Collection[int]) -> Sequence[int]:
    """Those of these numbers that exist, ascending. there: the numbers of all objects."""
    if len(numbers) > len(there):
        return sorted(number for number in there if number in numbers)
    return [number for number in numbers if number in there]


def first_missing(numbers: range, there: Iterable[int]) -> int | None:
    """The first of these numbers that is missing; None if none is."""
    known = set(there)
    return next((number for number in numbers if number not in known), None)


def is_too_long(numbers: range) -> bool:
    """True if no log ever had an object for each of these at a time."""
    return len(numbers) > MOST_NAMES


_PLAIN = re.compile(r"[a-z-]+/([0-9]{12})")


_TAGGED = re.compile(r"[a-z-]+/([0-9]{12})-([0-9a-z]{1,64})")


class Tagged(NamedTuple):
    """A number with what follows it: a writer, or a sequence. Sorts by number, then by tag."""

    number: int
    tag: str


def number_in(name: str) -> int | None:
    """The number of a segment or an outcome, None for another name."""
    found = _PLAIN.fullmatch(name)
    return int(found[1]) if found else None


def tagged_in(name: str) -> Tagged | None:
    """Number and tag of a claim, a mark or a try, None for another name."""
    found = _TAGGED.fullmatch(name)
    return Tagged(int(found[1]), found[2]) if found else None


KEPT_AT_MOST = 100_000
"""Batches, or objects, of a log that are kept for their age: far fewer than a listing may have."""


AT_ONCE = 64
"""At most this many batches are removed at once for their age: a batch waits for that."""


def old_enough(floor: int, times: Mapping[int, float], before: float) -> int:
    """Up to which batch all were stored before this time: `floor`, or at most AT_ONCE above it.

    times: when each batch was stored, seconds since 1970. One that is not there is old enough.
    """
    last = max(times, default=floor)
    number = floor
    while number < min(last, floor + AT_ONCE) and times.get(number + 1, before) <= before:
        number += 1
    return number
