"""What this process knows of every message it has leased and not yet seen gone.

    unknown ──dequeued──► HELD ──its batch is committed──► COMMITTED ──deleted──► (forgotten)
       ▲                    │                                  │ refused, or given up
       └──released/forgotten┘                                  ▼
                                                           REMEMBERED ──deleted──► (forgotten)

A copy of a HELD message brings its newer receipt and no row. A copy of a COMMITTED or REMEMBERED
one is deleted with its newer receipt and gives no row. A copy whose text differs was updated by
somebody: it is a new message. A reply counts only if the receipt it used is still the newest.

Never survives a restart: what a new process knows is in the offset. Ring: core (standard library
only); no clock, no thread, no lock.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from .errors import Outcome
from .leases import Lease
from .messages import Message

REMEMBER_AT_MOST = 100_000
"""How many committed messages whose delete was refused are remembered (about 40 MB)."""


class Fate(enum.Enum):
    """What to do with a message that a dequeue brought."""

    ROW = "new: give it out"
    HELD_ALREADY = "a copy of one in hand: no row, the newer receipt was taken over"
    DELETE = "a copy of a committed one: no row, delete it with this receipt"


class State(enum.Enum):
    """Where a known message stands."""

    HELD = "leased, its batch not yet known to be committed"
    COMMITTED = "its batch is committed, its delete is owed"
    REMEMBERED = "its batch is committed, but a delete was refused or given up"


@dataclass(slots=True)
class _Entry:
    lease: Lease
    batch: int
    fingerprint: int
    state: State = State.HELD


_Key = tuple[str, str]


class Ledger:
    """The states of messages, moved by events. Keys are (queue, message id)."""

    def __init__(self, remember_at_most: int = REMEMBER_AT_MOST) -> None:
        self._entries: dict[_Key, _Entry] = {}
        self._by_batch: dict[int, dict[_Key, None]] = {}
        self._remembered: OrderedDict[_Key, None] = OrderedDict()
        self._remember_at_most = remember_at_most
        self.counts: Counter[str] = Counter()
        """Events seen: copies_suppressed, deletes_refused, deletes_given_up."""

    def __len__(self) -> int:
        return len(self._entries)

    def state(self, lease: Lease) -> State | None:
        """Where this message stands now, None where it is unknown (or forgotten)."""
        entry = self._entries.get(_key(lease))
        return entry.state if entry else None

    def dequeued(self, message: Message, batch: int) -> Fate:
        """A dequeue brought this message while `batch` was being gathered."""
        lease = Lease(message.queue, message.message_id, message.pop_receipt or "")
        key = _key(lease)
        # hash() is salted per process and 64 bits wide; it never leaves this process.
        fingerprint = hash(message.text)
        entry = self._entries.get(key)
        if entry is not None and entry.fingerprint == fingerprint:
            entry.lease = lease
            self.counts["copies_suppressed"] += 1
            return Fate.HELD_ALREADY if entry.state is State.HELD else Fate.DELETE
        self._remembered.pop(key, None)
        self._entries[key] = _Entry(lease, batch, fingerprint)
        self._by_batch.setdefault(batch, {})[key] = None
        return Fate.ROW

    def held(self, batch: int) -> list[Lease]:
        """The newest leases of this batch's messages, in the order they were dequeued."""
        return [entry.lease for _, entry in self._of(batch)]

    def committed(self, batch: int) -> list[Lease]:
        """Spark has committed this batch: what to delete, each with its newest receipt."""
        leases = []
        for _, entry in self._of(batch):
            entry.state = State.COMMITTED
            leases.append(entry.lease)
        self._by_batch.pop(batch, None)
        return leases

    def forget(self, batch: int) -> list[Lease]:
        """The batch is no business of ours any more (released, or deleting is up to the user)."""
        leases = []
        for key, entry in self._of(batch):
            leases.append(entry.lease)
            del self._entries[key]
        self._by_batch.pop(batch, None)
        return leases

    def drop(self, lease: Lease) -> None:
        """This message is no business of ours any more."""
        key = _key(lease)
        self._entries.pop(key, None)
        self._remembered.pop(key, None)

    def settled(self, lease: Lease, outcome: Outcome) -> None:
        """A delete of a committed message ended. RETRY: it was given up after its tries."""
        key = _key(lease)
        entry = self._entries.get(key)
        if entry is None or entry.lease != lease or entry.state is State.HELD:
            return  # a newer dequeue has taken over; this answer is about a dead receipt
        if outcome is Outcome.OK:
            del self._entries[key]
            self._remembered.pop(key, None)
            return
        self.counts["deletes_refused" if outcome.refused else "deletes_given_up"] += 1
        entry.state = State.REMEMBERED
        self._remembered[key] = None
        self._remembered.move_to_end(key)
        while len(self._remembered) > self._remember_at_most:
            oldest, _ = self._remembered.popitem(last=False)
            del self._entries[oldest]

    def _of(self, batch: int) -> Iterable[tuple[_Key, _Entry]]:
        for key in self._by_batch.get(batch, ()):
            entry = self._entries.get(key)
            # An updated copy may have moved the message into a later batch.
            if entry is not None and entry.batch == batch and entry.state is State.HELD:
                yield key, entry


def _key(lease: Lease) -> _Key:
    return (lease.queue, lease.message_id)
