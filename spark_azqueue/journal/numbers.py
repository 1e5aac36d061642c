"""Numbers in the names of a log's objects, which have twelve digits. Also the retention of objects
by age.

Code must not iterate over a range of numbers, because a range can be huge: an object may have the
name `seg/999999999999`. Code must iterate over the existing objects; a listing has at most
`MOST_NAMES` objects.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from spark_azqueue.service.names import MOST_NAMES


def standing(numbers: range, there: Collection[int]) -> Sequence[int]:
    """Return the numbers in this range that have objects, ascending. there: numbers of all existing
    objects."""
    if len(numbers) > len(there):
        return sorted(number for number in there if number in numbers)
    return [number for number in numbers if number in there]


def first_missing(numbers: range, there: Iterable[int]) -> int | None:
    """Return the first number in this range that has no object, or None. there: numbers of all
    existing objects."""
    known = set(there)
    return next((number for number in numbers if number not in known), None)


def is_too_long(numbers: range) -> bool:
    """Return True if the range has more numbers than a log can have objects."""
    return len(numbers) > MOST_NAMES


_PLAIN = re.compile(r"[a-z-]+/([0-9]{12})")


_TAGGED = re.compile(r"[a-z-]+/([0-9]{12})-([0-9a-z]{1,64})")


class Tagged(NamedTuple):
    """Number and tag in a name. The tag is a writer or a sequence number. Sorts by number, then by
    tag."""

    number: int
    tag: str


def number_in(name: str) -> int | None:
    """Return the number in the name of a segment or an outcome, or None for any other name."""
    found = _PLAIN.fullmatch(name)
    return int(found[1]) if found else None


def tagged_in(name: str) -> Tagged | None:
    """Return the number and tag in the name of a claim, a mark or an attempt, or None for any other
    name."""
    found = _TAGGED.fullmatch(name)
    return Tagged(int(found[1]), found[2]) if found else None


KEPT_AT_MOST = 100_000
"""Maximum number of batches, or objects, that are kept because of their age.

The limit is far below the maximum number of names in a listing.
"""


AT_ONCE = 64
"""Maximum number of batches that are removed together because of their age.

The number is small because the current batch waits for the removal.
"""


def old_enough(floor: int, times: Mapping[int, float], before: float) -> int:
    """Return the number up to which all batches were stored before this time. before: seconds since
    1970.

    The result is between `floor` and `floor` + AT_ONCE. times: time at which each batch was stored,
    in seconds since 1970, by number. A batch without a time counts as old enough.
    """
    last = max(times, default=floor)
    number = floor
    while number < min(last, floor + AT_ONCE) and times.get(number + 1, before) <= before:
        number += 1
    return number
