"""Numbers of objects in a log: a range is never walked, since any name may have chosen its end.

One object may be called `seg/999999999999`. So what is done for each number of a range is done for
each object that stands, and a folder lists at most `MOST_NAMES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from spark_azqueue.service.names import MOST_NAMES


def standing(numbers: range, there: Collection[int]) -> Sequence[int]:
    """Those of these numbers that stand, ascending. there: the numbers of all objects."""
    if len(numbers) > len(there):
        return sorted(number for number in there if number in numbers)
    return [number for number in numbers if number in there]


def first_missing(numbers: range, there: Iterable[int]) -> int | None:
    """The first of these numbers that does not stand; None if all do."""
    known = set(there)
    return next((number for number in numbers if number not in known), None)


def is_too_long(numbers: range) -> bool:
    """True if no log ever had an object for each of these at a time."""
    return len(numbers) > MOST_NAMES
