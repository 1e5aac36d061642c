"""Which segments of a driver's log have decisions about their bodies, and the rows of each."""

from __future__ import annotations

from collections.abc import Callable

from spark_azqueue.journal.journal import Journal
from spark_azqueue.journal.numbers import tagged_in

from ..logged.undecodable import About, LoggedRows, Reading
from . import names
from .segment import Segment


class Decisions:
    """Which segments have some. Used by one thread. Raises ServiceError."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._numbers: set[int] = set()

    def find(self) -> None:
        """List the decisions of the log. Call it once, after the claim."""
        listed = map(tagged_in, self._journal.store.names(names.DECISIONS))
        self._numbers = {each.number for each in listed if each}

    @property
    def highest(self) -> int:
        """The highest number of a segment that has some; 0 without any."""
        return max(self._numbers, default=0)

    def up_to(self, number: int) -> set[int]:
        """The segments up to this one that have some."""
        return {each for each in self._numbers if each <= number}

    def rows_of(self, segment: Segment, today: Reading) -> LoggedRows:
        """The rows of a segment, as was decided about them. Raises LogDamaged."""
        rows = segment_rows(self._journal, segment, today)
        return rows.load() if segment.number in self._numbers else rows

    def note(self, segment: Segment) -> None:
        """This segment has some now."""
        self._numbers.add(segment.number)

    def names_of(self, number: int) -> list[str]:
        """Those of a segment."""
        if number not in self._numbers:
            return []
        return self._journal.store.names(names.DECISIONS, f"{number:012d}-")

    def forget(self, number: int) -> None:
        """Those of a segment are removed with it."""
        self._numbers.discard(number)


def segment_rows(
    journal: Journal,
    segment: Segment,
    today: Reading,
    read_as: Callable[[Reading], Reading] | None = None,
) -> LoggedRows:
    """The rows of a segment; nothing that was decided about them is known yet."""
    header = segment.header
    about = About(
        header.log,
        names.segment(header.number),
        header.number,
        header.account,
        lambda place: names.decision(header.number, place),
    )
    return LoggedRows(segment.received, header.reading, today, journal, about, read_as)
