"""Values of the ledger: the entry of a message, its states, and the decisions for callers."""

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
    """The decision about a message that a dequeue returned."""

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
    """Result of a renewal: the newest lease, the call that waited for it, and if it was lost.

    of_earlier_run: this was the first renewal of a lease that was restored from a log.
    """

    lease: Lease
    waited: type[Delete] | type[Release] | None = None
    is_lost: bool = False
    of_earlier_run: bool = False


@dataclass(slots=True)
class Entry:
    """The record of one message. `batch`: WAITING, or the number of its batch."""

    lease: Lease
    """The newest lease. `Ledger.dequeued`, `renewed`, `restore` and `restore_pending` set it."""
    batch: int
    fingerprint: int
    term: Term
    dequeue_count: int
    text: str | None = None
    """The message's text, until the message is delivered: the text is in memory anyway."""
    state: State = State.HELD
    renewing: bool = False
    restored: bool = False
    """True if an earlier run leased the message, and this run has not renewed the lease yet."""
    lost: bool = False
    shown: str = ""
    """The receipt in the delivered row."""
    blob: str | None = None
    """Name of the blob that holds the body, if any; set when the message is delivered."""
    counted: bool = False
    """True if the message was already counted as deleted, because it is probably gone."""
    expires: int = 0
    """When the service drops the message: microseconds since 1970, 0 if unknown."""
    hidden_until: float = 0.0
    """Time until which any process may have leased the message, if later than `term.ends_at`."""


REMEMBER_AT_MOST = 100_000
"""Most REMEMBERED messages: committed, with a delete that failed (about 40 MB)."""

DOUBT_AT_MOST = 10_000
"""Most PROBABLY_GONE messages that are kept (about 4 MB)."""


class PendingDeletes:
    """Keys of REMEMBERED and PROBABLY_GONE messages, with a bound for each state. Pure."""

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
        """Iterate over the keys of both states, newest last.

        The order matters to a log, which drops the oldest keys if it has no room for all.
        """
        return iter(self._newest)

    @property
    def remembered(self) -> Collection[MessageKey]:
        """Messages that could not be deleted, and are deleted when they return."""
        return self._kept[State.REMEMBERED].keys()

    def keep(self, key: MessageKey, state: State) -> MessageKey | None:
        """Keep a message as the newest of its state. Return the message it evicts, if any."""
        self.drop(key)
        kept = self._kept[state]
        kept[key] = self._newest[key] = None
        if len(kept) <= self._at_most[state]:
            return None
        oldest, _ = kept.popitem(last=False)
        del self._newest[oldest]
        return oldest

    def drop(self, key: MessageKey) -> None:
        """Remove a message, if it is kept."""
        if key in self._newest:  # called for each delete; most messages were never kept
            for kept in (*self._kept.values(), self._newest):
                kept.pop(key, None)
