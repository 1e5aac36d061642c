"""State of each offset that contains leases: returned, settled or replayed.

- If this process has not returned the offset e, `partitions(s, e)` is a replay after a crash.
- A batch that this process replayed has no rows, so no message is deleted when it is committed.
"""

from __future__ import annotations

import enum
import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from spark_azqueue.errors import AzQueueError

from ..offsets import OffsetJson, offset_text

# Spark replays only the newest few offsets, and settling an older offset a second time has no
# effect. So older offsets are forgotten.
_KNOWN_AT_MOST = 1_000


class Proof(enum.Enum):
    """How to settle a committed offset."""

    NOTHING = "it was settled before, or replayed, or holds nothing"
    SETTLE_OWN = "delete its messages with the ledger's newest receipts"
    SETTLE_RESTORED = "delete with exactly the receipts in its text"


class PlanAction(enum.Enum):
    """What `partitions(start, end)` has to do."""

    NOTHING = "start == end, or replayed before: touch nothing, return nothing"
    HAND_OVER = "return the partitions made for it"
    REPLAY = "release its leases and return nothing; its rows come again in later batches"


class _Known(enum.Enum):
    HANDED_OUT = 1
    SETTLED = 2
    REPLAYED = 3


class CommitTracker:
    """The state of each offset.

    The key is a digest of the offset's text, because texts can be long.
    """

    def __init__(self, initial: OffsetJson) -> None:
        self._initial = offset_text(initial)
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._open: OrderedDict[str, OffsetJson] = OrderedDict()  # not settled, by text

    def handed_out(self, offset: OffsetJson) -> None:
        """Record that `latestOffset` is about to return this new offset."""
        self._open[offset_text(offset)] = offset
        self._mark(offset_text(offset), _Known.HANDED_OUT)

    def handed_out_before(self, number: int) -> list[OffsetJson]:
        """Return the unsettled offsets of this run with a batch number below `number`."""
        return [each for each in self._open.values() if each["batch"] < number]

    def proven(self, offset: Mapping[str, Any]) -> Proof:
        """Return how to settle a committed offset.

        The caller then settles the offset and calls `settled`.
        """
        text = offset_text(offset)
        if text == self._initial:
            return Proof.NOTHING
        known = self._known.get(_digest(text))
        if known is _Known.HANDED_OUT:
            return Proof.SETTLE_OWN
        return Proof.SETTLE_RESTORED if known is None else Proof.NOTHING

    def settled(self, offset: Mapping[str, Any]) -> None:
        """Record that an offset is settled, or that its deletes have begun."""
        text = offset_text(offset)
        self._open.pop(text, None)
        self._mark(text, _Known.SETTLED)

    def plan(self, start: Mapping[str, Any], end: OffsetJson) -> PlanAction:
        """Return the action for a call of `partitions(start, end)`.

        Raises AzQueueError if Spark requests the rows of `end` again after its commit.
        """
        text = offset_text(end)
        if offset_text(start) == text:
            return PlanAction.NOTHING
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
        """Record that all receipts of an offset are stale.

        So no message is deleted when the offset is committed.
        """
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
