"""Messages whose rows were handed out, and whose delete is owed: a bounded number, newest kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from spark_azqueue.service.messages import MessageKey

from .states import State

REMEMBER_AT_MOST = 100_000
"""How many committed messages whose delete was refused are remembered (about 40 MB)."""

DOUBT_AT_MOST = 10_000
"""How many that are probably gone are kept in mind (about 4 MB)."""


class OwedDeletes:
    """REMEMBERED and PROBABLY_GONE messages, each state with its own bound. Pure."""

    def __init__(self, remember_at_most: int, doubt_at_most: int) -> None:
        self._kept: dict[State, OrderedDict[MessageKey, None]] = {
            State.PROBABLY_GONE: OrderedDict(),
            State.REMEMBERED: OrderedDict(),
        }
        self._newest: OrderedDict[MessageKey, None] = OrderedDict()  # of both states
        self._at_most = {State.REMEMBERED: remember_at_most, State.PROBABLY_GONE: doubt_at_most}

    def __len__(self) -> int:
        return len(self._newest)

    def __iter__(self) -> Iterator[MessageKey]:
        """Newest last, of both states: if a log has no room for all, older ones are dropped."""
        return iter(self._newest)

    @property
    def remembered(self) -> int:
        """How many could not be deleted, and are deleted when they return."""
        return len(self._kept[State.REMEMBERED])

    def keep(self, key: MessageKey, state: State) -> MessageKey | None:
        """Keep this one as the newest of its state. Returns the oldest if it has to make room."""
        self.drop(key)
        kept = self._kept[state]
        kept[key] = self._newest[key] = None
        if len(kept) <= self._at_most[state]:
            return None
        oldest, _ = kept.popitem(last=False)
        del self._newest[oldest]
        return oldest

    def drop(self, key: MessageKey) -> None:
        """Keep this one no longer."""
        if key in self._newest:  # most messages never are: each delete comes by here
            for kept in (*self._kept.values(), self._newest):
                kept.pop(key, None)
