"""Where Spark is, as far as its calls in this run tell. Pure.

For 4.0 and 4.1, where `latestOffset` is bare: only the calls before it tell where it starts, see
"What proves a commit" in docs/design.md. Spark 4.2 names its position at each such call.
"""

from __future__ import annotations

import enum

from ..offsets import OffsetJson, text_of


class _State(enum.Enum):
    UNKNOWN = "Spark has named nothing, and was handed nothing"
    ASKED = "the same, and it has asked for more"
    PROBED = "Spark has named it before it asked: an uncommitted one would be replayed first"
    NAMED = "Spark has named it, or was handed it"
    PLANNED = "Spark has asked for the rows up to there"


_CALLS_BEFORE_A_PLAN = 2
"""So many bare calls at most come before Spark asks for the rows up to a new offset: with its
wrapper for availableNow the second is for the progress. A further one tells that the query needs no
rows of it (such as `limit(0)`)."""


class Position:
    """The newest offset that Spark has named or was handed, moved by its calls."""

    def __init__(self, initial: OffsetJson) -> None:
        self._initial = text_of(initial)
        self._asked = 0  # bare calls since the offset was named or handed out; it is the first
        self._offset = initial
        self._state = _State.UNKNOWN
        self._newest = ""  # the text of the newest offset that was returned to Spark
        self.batches = 0
        """How many offsets were handed out in this run."""

    @property
    def is_known(self) -> bool:
        """True if Spark has named an offset, or was handed one."""
        return self._state not in (_State.UNKNOWN, _State.ASKED)

    @property
    def is_proven(self) -> bool:
        """True if a bare `latestOffset()` proves that the offset is committed."""
        return self._state in (_State.PROBED, _State.PLANNED)

    @property
    def is_due(self) -> bool:
        """True if Spark may be about to ask for the rows up to the offset: it gets that again.

        It never asks for rows up to the initial one. Nothing is proven by that.
        """
        return (
            self._state is _State.NAMED
            and self._asked <= _CALLS_BEFORE_A_PLAN
            and text_of(self._offset) != self._initial
        )

    def asked(self) -> tuple[OffsetJson, bool]:
        """A bare `latestOffset()`: where it starts, and whether that is proven to be committed."""
        self._asked += 1
        if self._state is _State.UNKNOWN:
            self._state = _State.ASKED
        return self._offset, self.is_proven

    def assumed(self, offset: OffsetJson) -> None:
        """A bare `latestOffset()` returns this one, as if Spark had named it. It may be new."""
        self._newest = text_of(offset)

    def handed_out(self, offset: OffsetJson) -> None:
        """`latestOffset` is about to return this new offset."""
        self._offset, self._state = offset, _State.NAMED
        self._newest = text_of(offset)
        self._asked = 1
        self.batches += 1

    def probed(self, offset: OffsetJson) -> None:
        """partitions(offset, offset): on 4.0 and 4.1 after a restart it is known only now.

        Later it tells nothing: another source of the query has data.
        """
        if self._state in (_State.UNKNOWN, _State.PROBED):
            self._offset, self._state = offset, _State.PROBED
        elif self._state is _State.ASKED:
            self._offset, self._state = offset, _State.NAMED
            self._asked = 1

    def planned(self, end: OffsetJson) -> bool:
        """partitions(s, end) with another s. Returns True if this run has returned `end`."""
        self._offset, self._state = end, _State.PLANNED
        return text_of(end) == self._newest
