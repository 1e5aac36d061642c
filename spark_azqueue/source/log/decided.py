"""The decisions in a log's folder, `decisions/<number>-<n>`: see `decisions.py`."""

from __future__ import annotations

from collections.abc import Callable

from spark_azqueue.journal.store import LogStore

from . import names
from .decisions import About, LoggedRows
from .reading import Reading
from .segment import Segment


class Decisions:
    """Which segments have some. Used by one thread. Raises ServiceError."""

    def __init__(self, store: LogStore) -> None:
        self._store = store
        self._numbers: set[int] = set()

    def find(self) -> None:
        """Find out which there are. Call it once, after the claim."""
        listed = map(names.tagged_in, self._store.names(names.DECISIONS))
        self._numbers = {each.number for each in listed if each}

    def up_to(self, number: int) -> set[int]:
        """The segments up to this one that have some."""
        return {each for each in self._numbers if each <= number}

    def rows_of(self, segment: Segment, today: Reading) -> LoggedRows:
        """The rows of a segment, as was decided about them. Raises LogDamaged."""
        rows = segment_rows(self._store, segment, today)
        return rows.load() if segment.number in self._numbers else rows

    def note(self, segment: Segment) -> None:
        """This segment has some now."""
        self._numbers.add(segment.number)

    def remove(self, number: int) -> None:
        """Remove those of a segment that goes."""
        if number in self._numbers:
            for name in self._store.names(names.DECISIONS, f"{number:012d}-"):
                self._store.delete(name)
            self._numbers.discard(number)


def segment_rows(
    store: LogStore,
    segment: Segment,
    today: Reading,
    read_as: Callable[[Reading], Reading] = lambda reading: reading,
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
    return LoggedRows(segment.received, header.reading, today, store, about, read_as)
