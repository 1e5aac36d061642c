"""What the ledger keeps of a message, and what it tells its callers to do. Values only."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from spark_azqueue.service.messages import Lease, MessageKey
from spark_azqueue.service.queues.calls import Delete, Release

from .timing import Term

WAITING = 0
"""Instead of a batch number: the message is leased, but not yet delivered."""


class Fate(enum.Enum):
    """What to do with a message that a dequeue brought."""

    ROW = "new: hand it out"
    HELD_ALREADY = "a copy of one in hand: no row, the newer of the receipts counts"
    DELETE = "a copy of a committed one: no row, delete it with this receipt"


class State(enum.Enum):
    """The state of a known message."""

    HELD = "leased, its batch not yet known to be committed"
    COMMITTED = "its batch is committed, its delete is due or under way"
    REMEMBERED = "its batch is committed, but a delete was refused or given up"
    PROBABLY_GONE = "its delete was refused, but an attempt without an answer has probably worked"
    LEAVING = "to be released as soon as the renewal under way is answered"


class RenewedLeases(NamedTuple):
    """How a renewal ended: the newest lease, what waited for that, and whether it was lost.

    of_earlier_run: it was the first renewal of a lease that stood in a log.
    """

    lease: Lease
    waited: type[Delete] | type[Release] | None = None
    is_lost: bool = False
    of_earlier_run: bool = False


@dataclass(slots=True)
class Entry:
    """What is known of one message. `batch`: WAITING, or the number of its batch."""

    lease: Lease
    """The newest. `Ledger.dequeued`, `renewed`, `restore` and `restore_pending` set it."""
    batch: int
    fingerprint: int
    term: Term
    dequeue_count: int
    text: str | None = None
    """What the fingerprint was taken of, until it is delivered: it is in memory anyway."""
    state: State = State.HELD
    renewing: bool = False
    restored: bool = False
    """Its lease is of an earlier run, and was not renewed since."""
    lost: bool = False
    shown: str = ""
    """The receipt in the row that was delivered."""
    blob: str | None = None
    """Name of the blob that holds its body, if one does; set when it is delivered."""
    counted: bool = False
    """True if it was counted as deleted already: it is probably gone."""
    expires: int = 0
    """When the service drops the message: microseconds since 1970, 0 if unknown."""
    hidden_until: float = 0.0
    """Until when it may be hidden, whichever process leased it; `term` says it if that is later."""


REMEMBER_AT_MOST = 100_000
"""How many committed messages whose delete was refused are remembered (about 40 MB)."""

DOUBT_AT_MOST = 10_000
"""How many that are probably gone are kept in mind (about 4 MB)."""


class PendingDeletes:
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
    def remembered(self) -> Collection[MessageKey]:
        """Those that could not be deleted, and are deleted when they return."""
        return self._kept[State.REMEMBERED].keys()

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
