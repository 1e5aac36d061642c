"""Which numbers of a writer are written in whole: ranges, in each of its records. Pure values.

A record is made only when the newest one below is finished, so a record's own number is added when
the next one is made. What no range holds was never recorded, or so long ago that it is forgotten.
"""

from __future__ import annotations

from typing import TypeAlias

from spark_azqueue.journal.codec import Damaged

from .names import MOST

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last number of each, ascending, with a gap between two."""

RANGES_AT_MOST = 1_000
"""The lowest are forgotten. A number of each day, such as 20260131, takes twelve ranges a year."""


def holds(ranges: Ranges, number: int) -> bool:
    """True if this number is in one of them."""
    return any(first <= number <= last for first, last in ranges)


def extended(ranges: Ranges, number: int) -> Ranges:
    """The ranges with a number above all of theirs."""
    if ranges and ranges[-1][1] == number - 1:
        return (*ranges[:-1], (ranges[-1][0], number))
    return (*ranges, (number, number))[-RANGES_AT_MOST:]


def read_ranges(value: object, below: int) -> Ranges:
    """Read them from a record of number `below`. Raises Damaged."""
    if not isinstance(value, list) or len(value) > RANGES_AT_MOST:
        raise Damaged("'written' is not valid")
    before = -2
    for each in value:
        if (
            not isinstance(each, list)
            or len(each) != 2
            or any(type(number) is not int for number in each)
            or not before + 1 < each[0] <= each[1] < below <= MOST
        ):
            raise Damaged("'written' is not valid")
        before = each[1]
    return tuple((first, last) for first, last in value)
