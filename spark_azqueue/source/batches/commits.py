"""Which offsets are committed, settled or replayed, as far as Spark's calls prove it.

For offsets that hold leases: of a query without a log, and of one that had none before. With a log
`log/consumer.py` asks `Position` itself, as `executors/consumer.py` does on 4.0 and 4.1.

The rules (see docs/design.md, "What proves a commit"):

- `commit(N)`, `latestOffset(start=N)` and `partitions(N, M)` with N != M prove that N is committed.
- `partitions(N, N)` comes first on Spark 4.0 and 4.1 and proves nothing: it only tells what N is.
- A bare `latestOffset()` (4.0, 4.1) proves the newest offset after a `partitions(s, e)`. If the
  run's first call was `partitions(N, N)`, it proves N: Spark would have replayed an uncommitted N
  before this call. (Spark's wrapper for availableNow calls it even before that, when nothing is
  known or proven.)
- `partitions(s, e)` with an e this process never returned is a replay after a crash.
- A batch that this process replayed gave no rows, so its commit deletes nothing.
"""

from __future__ import annotations

import enum
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_azqueue.errors import AzQueueError

from ..offsets import OffsetJson, offset_text

# Only the newest few can be replayed. To settle an older one twice has no effect.
_KNOWN_AT_MOST = 1_000


class Proof(enum.Enum):
    """What to do now that an offset is proven committed."""

    NOTHING = "it was settled before, or replayed, or holds nothing"
    SETTLE_OWN = "delete its messages with the ledger's newest receipts"
    SETTLE_RESTORED = "delete with exactly the receipts in its text"


class PlanAction(enum.Enum):
    """What `partitions(start, end)` is to do about `end`."""

    NOTHING = "start == end, or replayed before: touch nothing, return nothing"
    HAND_OVER = "return the partitions made for it"
    REPLAY = "release its leases and return nothing; its rows come again in later batches"


class _Known(enum.Enum):
    HANDED_OUT = 1
    SETTLED = 2
    REPLAYED = 3


@dataclass(frozen=True, slots=True)
class _HandedOut:
    """A batch given to Spark: the text of its start, and its own offset."""

    start: str
    offset: OffsetJson


class CommitTracker:
    """Keeps the state of each offset, by the digest of its text: texts can be long. Pure."""

    def __init__(self, initial: OffsetJson, position: Position) -> None:
        """position: follows the calls of `handed_out` and `plan`."""
        self._initial = offset_text(initial)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._open: OrderedDict[str, _HandedOut] = OrderedDict()  # not settled, by text
        self._position = position

    def handed_out(self, start: Mapping[str, Any], offset: OffsetJson) -> None:
        """Note that `latestOffset` is about to return this new offset."""
        self._open[offset_text(offset)] = _HandedOut(offset_text(start), offset)
        self._position.handed_out(offset)
        self._mark(offset_text(offset), _Known.HANDED_OUT)

    def repeated(self, start: Mapping[str, Any]) -> OffsetJson | None:
        """The offset to return again if the engine asks twice from one start."""
        text = offset_text(start)
        return next((each.offset for each in self._open.values() if each.start == text), None)

    def handed_out_before(self, number: int) -> list[OffsetJson]:
        """The offsets of this run with a lower number of their batch that are not settled."""
        return [each.offset for each in self._open.values() if each.offset["batch"] < number]

    def bare_repeat(self) -> OffsetJson | None:
        """The offset to return again if a bare call comes before the last one was planned."""
        if not (self._open and self._position.is_due):
            return None
        return next(reversed(self._open.values())).offset

    def proven(self, offset: Mapping[str, Any]) -> Proof:
        """What to do if this offset is committed. Call `settled` once that is done or begun."""
        text = offset_text(offset)
        if text == self._initial:
            return Proof.NOTHING
        known = self._known.get(_digest(text))
        if known is _Known.HANDED_OUT:
            return Proof.SETTLE_OWN
        return Proof.SETTLE_RESTORED if known is None else Proof.NOTHING

    def settled(self, offset: Mapping[str, Any]) -> None:
        """Note that this offset is settled, or that its deletes are begun."""
        text = offset_text(offset)
        self._open.pop(text, None)
        self._mark(text, _Known.SETTLED)

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> PlanAction:
        """What this call of `partitions(start, end)` is to do.

        Raises AzQueueError if the rows of `end` are asked for again after its commit.
        """
        text = offset_text(end)
        if offset_text(start) == text:
            self._position.probed(end)
            return PlanAction.NOTHING
        self._position.planned(end)
        known = self._known.get(_digest(text))
        if known is _Known.SETTLED or (known is _Known.HANDED_OUT and text not in self._open):
            raise AzQueueError(
                f"Spark asks for the rows of batch {end.get('batch')} again after committing it;"
                " its messages are deleted. Please report this with the query's log"
            )
        if known is None:
            return PlanAction.REPLAY
        return PlanAction.HAND_OVER if known is _Known.HANDED_OUT else PlanAction.NOTHING

    def replayed(self, offset: Mapping[str, Any]) -> None:
        """Note that every receipt in it is dead: its commit will delete nothing."""
        self._open.pop(offset_text(offset), None)
        self._mark(offset_text(offset), _Known.REPLAYED)

    def _mark(self, text: str, known: _Known) -> None:
        key = _digest(text)
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > _KNOWN_AT_MOST:
            self._known.popitem(last=False)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class _State(enum.Enum):
    UNKNOWN = "Spark has named nothing, and was handed nothing"
    ASKED = "the same, and it has asked for more"
    PROBED = "Spark has named it before it asked: an uncommitted one would be replayed first"
    NAMED = "Spark has named it, or was handed it"
    PLANNED = "Spark has asked for the rows up to there"


_CALLS_BEFORE_A_PLAN = 2
"""At most this many bare calls come before Spark asks for the rows up to a new offset: with its
wrapper for availableNow the second is for the progress. A further one tells that the query needs no
rows of it (such as `limit(0)`)."""


class Position:
    """The newest offset that Spark has named or was handed, moved by its calls."""

    def __init__(self, initial: OffsetJson) -> None:
        self._initial = offset_text(initial)
        self._asked = 0  # bare calls since the offset was named or returned; it is the first
        self._offset = initial
        self._state = _State.UNKNOWN
        self._asked_first = False
        self._newest = ""  # the text of the newest offset that was returned to Spark
        self.batches = 0
        """How many offsets were returned in this run."""

    @property
    def is_known(self) -> bool:
        """True if Spark has named an offset, or was handed one."""
        return self._state not in (_State.UNKNOWN, _State.ASKED)

    @property
    def is_proven(self) -> bool:
        """True if a bare `latestOffset()` proves that the offset is committed."""
        return self._state in (_State.PROBED, _State.PLANNED)

    @property
    def is_awaited(self) -> bool:
        """True if Spark was handed the offset, or has named it late, and asked for no rows yet.

        It never asks for rows up to the initial one. Nothing is proven by that.
        """
        return self._state is _State.NAMED and offset_text(self._offset) != self._initial

    @property
    def is_due(self) -> bool:
        """True if Spark may be about to ask for the rows up to the offset: it gets that again."""
        return self.is_awaited and self._asked <= _CALLS_BEFORE_A_PLAN

    def asked(self) -> tuple[OffsetJson, bool]:
        """A bare `latestOffset()`: where it starts, and whether that is proven to be committed."""
        self._asked += 1
        if self._state is _State.UNKNOWN:
            self._state = _State.ASKED
            self._asked_first = True
        return self._offset, self.is_proven

    def is_told_late(self, offset: OffsetJson) -> bool:
        """True if Spark names this offset only when it has asked for the one that follows.

        Its wrapper for availableNow does. It would write that answer, from a call that did not know
        the offset, into its log.
        """
        return self._asked_first and offset_text(offset) != self._initial

    def assumed(self, offset: OffsetJson) -> None:
        """A bare `latestOffset()` returns this one, as if Spark had named it. It may be new."""
        self._newest = offset_text(offset)

    def handed_out(self, offset: OffsetJson) -> None:
        """`latestOffset` is about to return this new offset."""
        self._offset, self._state = offset, _State.NAMED
        self._newest = offset_text(offset)
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
        self._asked_first = False
        self._offset, self._state = end, _State.PLANNED
        return offset_text(end) == self._newest
