"""Values of the ledger: a message's entry, its possible states, and the decisions for callers."""

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
"""Batch number of a message that is leased, but is in no batch yet."""


class Fate(enum.Enum):
    """What the caller must do with a message that a dequeue returned."""

    ROW = "new: hand it out"
    HELD_ALREADY = "a copy of one in hand: no row, the newer of the receipts counts"
    DELETE = "a copy of a committed one: no row, delete it with this receipt"


class State(enum.Enum):
    """State of a message in the ledger."""

    HELD = "leased, its batch not yet known to be committed"
    COMMITTED = "its batch is committed, its delete is due or under way"
    REMEMBERED = "its batch is committed, but a delete was refused or given up"
    PROBABLY_GONE = "its delete was refused, but an attempt without an answer has probably worked"
    LEAVING = "to be released as soon as the renewal under way is answered"


class RenewedLeases(NamedTuple):
    """Result of a renewal.

    lease: the newest lease. waited: type of the request that waited for the answer to the renewal,
    if any. is_lost: the lease was lost. of_earlier_run: an earlier run leased the message, and this
    was the first renewal in this run.
    """

    lease: Lease
    waited: type[Delete] | type[Release] | None = None
    is_lost: bool = False
    of_earlier_run: bool = False


@dataclass(slots=True)
class Entry:
    """The ledger's record of one message. `batch`: number of the message's batch, or WAITING."""

    lease: Lease
    """The newest lease, set by `Ledger.dequeued`, `renewed`, `restore` and `restore_pending`."""
    batch: int
    fingerprint: int
    term: Term
    dequeue_count: int
    text: str | None = None
    """The message's text; None after the message is delivered."""
    state: State = State.HELD
    renewing: bool = False
    restored: bool = False
    """True if an earlier run leased the message, and this run has not renewed the lease yet."""
    lost: bool = False
    shown: str = ""
    """The receipt that the delivered row contains."""
    blob: str | None = None
    """Name of the blob that has the message's body, if any. Set when the message is delivered."""
    counted: bool = False
    """True if the message was already counted as deleted, because its delete has probably
    worked."""
    expires: int = 0
    """Expiry of the message in microseconds since 1970; 0 if unknown."""
    hidden_until: float = 0.0
    """Latest time at which a lease of any process may end, if this time is after `term.ends_at`."""


REMEMBER_AT_MOST = 100_000
"""Maximum number of REMEMBERED messages, which need about 40 MB."""

DOUBT_AT_MOST = 10_000
"""Maximum number of PROBABLY_GONE messages, which need about 4 MB."""


class PendingDeletes:
    """Keys of REMEMBERED and PROBABLY_GONE messages, up to a maximum number for each state."""

    def __init__(self, remember_at_most: int, doubt_at_most: int) -> None:
        self._kept: dict[State, OrderedDict[MessageKey, None]] = {
            State.PROBABLY_GONE: OrderedDict(),
            State.REMEMBERED: OrderedDict(),
        }
        self._newest: OrderedDict[MessageKey, None] = OrderedDict()  # keys of both states
        self._at_most = {State.REMEMBERED: remember_at_most, State.PROBABLY_GONE: doubt_at_most}

    def __len__(self) -> int:
        return len(self._newest)

    def __iter__(self) -> Iterator[MessageKey]:
        """Iterate over the keys of both states, newest last.

        The order matters for a log: if a log has no room for all keys, it drops the oldest keys.
        """
        return iter(self._newest)

    @property
    def remembered(self) -> Collection[MessageKey]:
        """Keys of the messages that could not be deleted. Such a message is deleted when it is
        dequeued again.
        """
        return self._kept[State.REMEMBERED].keys()

    def keep(self, key: MessageKey, state: State) -> MessageKey | None:
        """Add a message as the newest message of its state.

        Return the key of the evicted message, if any.
        """
        self.drop(key)
        kept = self._kept[state]
        kept[key] = self._newest[key] = None
        if len(kept) <= self._at_most[state]:
            return None
        oldest, _ = kept.popitem(last=False)
        del self._newest[oldest]
        return oldest

    def drop(self, key: MessageKey) -> None:
        """Remove a message if it has a pending delete."""
        if key in self._newest:  # called for each delete; most messages were never kept
            for kept in (*self._kept.values(), self._newest):
                kept.pop(key, None)
