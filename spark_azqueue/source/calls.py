"""State of an engine's calls: the requested batch, and the start offset on Spark 4.0 and 4.1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .offsets import OffsetJson
from .refusals import refused_wrapper


@dataclass(frozen=True, slots=True)
class Wanted:
    """The batch that an engine requests, and the state of the previous batch.

    start: the offset where the batch begins. most: maximum number of messages in the batch; None
    for no limit. is_proven: True if the previous batch, which ends at `start`, is committed.
    may_run: True if the previous batch may still run. is_last: True if this may be the last batch
    of the run.
    """

    start: OffsetJson
    most: int | None = None
    is_proven: bool = True
    may_run: bool = False
    is_last: bool = False


_CALLS_BEFORE_A_PLAN = 2
"""Maximum number of `latestOffset()` calls before Spark requests the rows of a new offset. With
Spark's wrapper for availableNow, the second call is made for the progress event. A third call shows
that the query does not need the rows of this batch (`limit(0)`, for example)."""


class BareCalls:
    """Infers the start offset on Spark 4.0 and 4.1, which call `latestOffset()` without the start.

    The rules rely on the order of the calls of these versions, which a smoke test checks:

    - If the first call of a run is `latestOffset()`, the checkpoint is new.
    - If the first call of a run is `partitions(N, N)`, the start is N. If the second call is
      `latestOffset()`, N is committed, because Spark would otherwise have repeated the previous
      batch. (Decision 7.)
    - `partitions(s, e)` moves the start to e. The next `latestOffset()` proves that e is committed.
    - If `partitions` was not called since the last `latestOffset()`, the next `latestOffset()`
      returns the same offset again.
    """

    def __init__(self, initial: OffsetJson) -> None:
        self.start: OffsetJson = initial
        """Offset where the next batch begins."""
        self.is_proven = True
        """True if the next `latestOffset()` proves that the start is committed. The initial offset
        counts as proven."""
        self._initial = initial
        self._is_known = False  # True if Spark has passed or received an offset
        self._asked_first = False
        self._asked = 0  # calls of `latestOffset()` that returned the newest offset

    @property
    def is_new(self) -> bool:
        """True if the checkpoint seems to be new."""
        return not self._is_known

    def asked(self) -> OffsetJson | None:
        """Record a call of `latestOffset()`. Return the offset to return again, or None for a new
        offset.

        The last offset is returned again if `partitions` was not called for this offset yet.
        """
        self._asked += 1
        self._asked_first |= self.is_new
        if not self.is_proven and self._asked <= _CALLS_BEFORE_A_PLAN:
            return self.start
        return None

    def answered(self, offset: OffsetJson) -> None:
        """Record that `latestOffset` is about to return this new offset."""
        self.start, self.is_proven, self._is_known = offset, False, True
        self._asked = 1

    def planned(self, start: Mapping[str, Any], end: OffsetJson) -> None:
        """Record a call of `partitions(start, end)`.

        If `start == end` in a run's first call, the run starts at this offset. (In a later call,
        `start == end` means that only another source of the query has data.)

        Raises InvalidOption if Spark's wrapper for availableNow called `latestOffset()` before this
        call. Spark would store the offset that `latestOffset()` returned as the end of a batch that
        starts at this offset.
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
