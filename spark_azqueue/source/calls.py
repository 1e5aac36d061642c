"""State of an engine's calls: the batch that it wants, and the start on Spark 4.0 and 4.1. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .offsets import OffsetJson
from .refusals import refused_wrapper


@dataclass(frozen=True, slots=True)
class Wanted:
    """The batch that an engine wants, and the state of the batch before it.

    start: the offset where the batch begins. most: most messages in a new batch, None for no
    limit. is_proven: True if the batch that ends at the start is committed. may_run: True if the
    batch that ends at the start may still run. is_last: True if the run may end after the new
    batch.
    """

    start: OffsetJson
    most: int | None = None
    is_proven: bool = True
    may_run: bool = False
    is_last: bool = False


_CALLS_BEFORE_A_PLAN = 2
"""Calls of `latestOffset()` that may come before Spark asks for the rows of a new offset. With its
wrapper for availableNow, Spark makes the second call for the progress. A third call shows that the
query needs no rows of that batch (`limit(0)`, for example)."""


class BareCalls:
    """The start offset on Spark 4.0 and 4.1, whose `latestOffset()` has no argument.

    The rules follow the calls of these versions, which a smoke test records:

    - If the first call of a run is `latestOffset()`, the checkpoint is new.
    - If it is `partitions(N, N)`, the start is N. A `latestOffset()` right after it proves that N
      is committed: Spark would have repeated the batch before. (Decision 7.)
    - `partitions(s, e)` moves the start to e. The next `latestOffset()` proves that e is committed.
    - If the last answer was not planned yet, it is returned again.
    """

    def __init__(self, initial: OffsetJson) -> None:
        self.start: OffsetJson = initial
        """Offset where the next batch begins."""
        self.is_proven = True
        """True if a `latestOffset()` proves that the start is committed. The initial offset needs
        no proof."""
        self._initial = initial
        self._is_known = False  # Spark has named an offset, or got one in this run
        self._asked_first = False
        self._asked = 0  # calls of `latestOffset()` since the last answer; it is the first

    @property
    def is_new(self) -> bool:
        """True if the checkpoint seems to be new."""
        return not self._is_known

    def asked(self) -> OffsetJson | None:
        """Note a `latestOffset()`. Return the last answer if it is not planned yet, else None."""
        self._asked += 1
        self._asked_first |= self.is_new
        if not self.is_proven and self._asked <= _CALLS_BEFORE_A_PLAN:
            return self.start
        return None

    def answered(self, offset: OffsetJson) -> None:
        """Note that `latestOffset` is about to return this new offset."""
        self.start, self.is_proven, self._is_known = offset, False, True
        self._asked = 1

    def planned(self, start: Mapping[str, Any], end: OffsetJson) -> None:
        """Note `partitions(start, end)`.

        If `start == end` in the first call, the run starts there. (In a later call this means only
        that another source of the query has data.) Raises InvalidOption if Spark's wrapper for
        availableNow called `latestOffset()` before: Spark would write that answer into its
        checkpoint as if it followed this offset.
        """
        if start != end:
            self.start, self.is_proven, self._is_known = end, True, True
            self._asked_first = False
        elif self._asked_first and end != self._initial:
            number = end.get("batch")
            raise refused_wrapper(number if type(number) is int else 0)
        elif self.is_new:
            self.start = end
            self._is_known = end != self._initial
