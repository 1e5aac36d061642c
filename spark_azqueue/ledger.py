"""What this process knows of every message it has leased and not yet seen gone.

    unknown ──dequeued──► HELD ──its batch is committed──► COMMITTED ──deleted──► (forgotten)
       ▲                   │ │                                │ refused, or given up
       └────released───────┘ └─renewed─┐                      ▼
                             ▲─────────┘                  REMEMBERED ──deleted──► (forgotten)

A copy of a HELD message brings its newer receipt and no row. A copy of a COMMITTED or REMEMBERED
one is deleted with its newer receipt and gives no row. A copy whose text differs was updated by
somebody: it is a new message. A reply counts only if the receipt it used is still the newest.
While a renewal is under way, a delete or release of that message waits for its answer.

Never survives a restart: what a new process knows is in the offset. Ring: core (standard library
only); no clock, no thread, no lock.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from .errors import Outcome
from .leases import Lease, Term
from .messages import Message
from .reporting import Counters

REMEMBER_AT_MOST = 100_000
"""How many committed messages whose delete was refused are remembered (about 40 MB)."""

WAITING = 0
"""Number of no batch: leased, and not yet given out."""


class Fate(enum.Enum):
    """What to do with a message that a dequeue brought."""

    ROW = "new: give it out"
    HELD_ALREADY = "a copy of one in hand: no row, the newer of the receipts counts"
    DELETE = "a copy of a committed one: no row, delete it with this receipt"


class State(enum.Enum):
    """Where a known message stands."""

    HELD = "leased, its batch not yet known to be committed"
    COMMITTED = "its batch is committed, its delete is owed"
    REMEMBERED = "its batch is committed, but a delete was refused or given up"
    LEAVING = "to be released as soon as the renewal under way is answered"


class Then(enum.Enum):
    """What was put off until a renewal was answered, and is due now."""

    NOTHING = "nothing"
    DELETE = "delete the message with the lease returned"
    RELEASE = "release the lease returned"


@dataclass(slots=True)
class _Entry:
    lease: Lease
    batch: int
    fingerprint: int
    term: Term
    dequeue_count: int
    state: State = State.HELD
    renewing: bool = False
    lost: bool = False
    shown: str = ""
    """The receipt in the row that was given out."""
    blob: str | None = None
    """Name of the blob that holds its body, where one does; set when it is given out."""


_Key = tuple[str, str]


class Ledger:
    """The states of messages, moved by events. Keys are (queue, message id)."""

    def __init__(self, remember_at_most: int = REMEMBER_AT_MOST) -> None:
        self._entries: dict[_Key, _Entry] = {}
        self._by_batch: dict[int, dict[_Key, None]] = {}
        self._remembered: OrderedDict[_Key, None] = OrderedDict()
        self._remember_at_most = remember_at_most
        self._given_out: set[_Key] | None = None  # a set in an availableNow run
        self.counts = Counters()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def remembered(self) -> int:
        """How many committed messages could not be deleted, and are deleted when they return."""
        return len(self._remembered)

    def state(self, lease: Lease) -> State | None:
        """Where this message stands now, None where it is unknown (or forgotten)."""
        entry = self._entries.get(_key(lease))
        return entry.state if entry else None

    def note_what_is_given_out(self) -> None:
        """From now on remember which messages were given out and are not known to be deleted.

        An availableNow run gives out no message a second time, not even with another text.
        """
        self._given_out = set()

    def was_given_out(self, lease: Lease) -> bool:
        """True if this message was given out since, and is not known to be deleted."""
        return self._given_out is not None and _key(lease) in self._given_out

    @property
    def given_out(self) -> int:
        """How many such messages there are."""
        return len(self._given_out or ())

    # ── leased, given out, committed ──────────────────────────────────────────────────────────────

    def dequeued(self, message: Message, term: Term) -> Fate:
        """A dequeue brought this message; a new one waits for a batch."""
        lease = Lease(message.queue, message.message_id, message.pop_receipt or "")
        key = _key(lease)
        self.counts.dequeued += 1
        # hash() is salted per process and 64 bits wide; it never leaves this process.
        fingerprint = hash(message.text)
        entry = self._entries.get(key)
        if entry is not None and message.dequeue_count < entry.dequeue_count:
            # Pages come in parallel: this is an older one that came later, its receipt is dead.
            self.counts.copies_suppressed += 1
            return Fate.HELD_ALREADY
        if entry is not None and entry.fingerprint == fingerprint:
            entry.lease, entry.term = lease, term
            entry.dequeue_count = message.dequeue_count
            entry.renewing = entry.lost = False
            if entry.state is State.LEAVING:  # nobody else took it: it is ours to give out
                entry.state = State.HELD
                self._move(key, entry, WAITING)
                return Fate.ROW
            self.counts.copies_suppressed += 1
            return Fate.HELD_ALREADY if entry.state is State.HELD else Fate.DELETE
        self.counts.redelivered += message.dequeue_count > 1
        self._remembered.pop(key, None)
        self._entries[key] = _Entry(lease, WAITING, fingerprint, term, message.dequeue_count)
        self._by_batch.setdefault(WAITING, {})[key] = None
        return Fate.ROW

    def refreshed(self, messages: Iterable[Message]) -> list[Message]:
        """The same, with their newest receipts: some were renewed while they waited."""
        newest = []
        for message in messages:
            entry = self._entries.get((message.queue, message.message_id))
            if entry is not None and entry.lease.pop_receipt != message.pop_receipt:
                message = replace(message, pop_receipt=entry.lease.pop_receipt)
            newest.append(message)
        return newest

    def hand_out(
        self,
        messages: Iterable[Message],
        batch: int,
        blobs: Mapping[tuple[str, str], str] = MappingProxyType({}),
    ) -> list[Lease]:
        """These waiting messages make this batch. Returns their newest leases.

        blobs: (queue, id) -> the blob with the message's body, where one has it. A message that
        somebody updated meanwhile is not among them: the new text is another message.
        """
        leases = []
        for message in messages:
            key = (message.queue, message.message_id)
            entry = self._entries.get(key)
            if entry is not None and entry.fingerprint == hash(message.text):
                self._move(key, entry, batch)
                entry.shown = message.pop_receipt or ""
                entry.blob = blobs.get(key)
                leases.append(entry.lease)
                if self._given_out is not None:
                    self._given_out.add(key)
        self.counts.delivered += len(leases)
        return leases

    def committed(self, batch: int) -> list[Lease]:
        """Spark has committed this batch: what to delete now, each with its newest receipt."""
        leases = []
        for _, entry in self._of(batch):
            entry.state = State.COMMITTED
            if not entry.renewing:
                leases.append(entry.lease)
        self._by_batch.pop(batch, None)
        return leases

    def set_aside(self, message: Message) -> list[Lease]:
        """A copy of this waiting message stands in the poison queue: what to delete now."""
        key = (message.queue, message.message_id)
        entry = self._entries[key]
        entry.state = State.COMMITTED
        self._by_batch.get(entry.batch, {}).pop(key, None)
        self.counts.poison_moved += 1
        return [] if entry.renewing else [entry.lease]

    def forget(self, batch: int) -> int:
        """The messages of this batch are the user's business from now on.

        Returns for how many of them the receipt in the row was replaced by a newer one.
        """
        replaced = 0
        for key, entry in list(self._of(batch)):
            replaced += entry.shown != entry.lease.pop_receipt
            del self._entries[key]
        self._by_batch.pop(batch, None)
        return replaced

    def release(self, batch: int) -> list[Lease]:
        """These are to go back into the queue: what to release now."""
        leases = []
        for key, entry in list(self._of(batch)):
            if entry.renewing:
                entry.state = State.LEAVING
            else:
                leases.append(entry.lease)
                del self._entries[key]
        self._by_batch.pop(batch, None)
        return leases

    def drop(self, lease: Lease) -> None:
        """This message is no business of ours any more."""
        key = _key(lease)
        self._entries.pop(key, None)
        self._remembered.pop(key, None)

    def settled(self, lease: Lease, outcome: Outcome) -> str | None:
        """A delete of a committed message ended. RETRY: it was given up after its tries.

        Returns the blob that held its body, where nobody needs that any more.
        """
        key = _key(lease)
        entry = self._entries.get(key)
        if entry is None or entry.lease != lease or entry.state is State.HELD:
            return None  # a newer dequeue has taken over; this answer is about a dead receipt
        if outcome is Outcome.OK:
            del self._entries[key]
            self._remembered.pop(key, None)
            if self._given_out is not None:
                self._given_out.discard(key)
            self.counts.deleted += 1
            return entry.blob
        if outcome.refused:
            self.counts.deletes_refused += 1
        else:
            self.counts.deletes_given_up += 1
        self._remember(key, entry)
        return None

    # ── renewals ──────────────────────────────────────────────────────────────────────────────────

    def due(self, now: float) -> list[Lease]:
        """Leases to renew now; counted as under way until `renewed` is called for each."""
        leases = []
        for entry in self._renewable():
            if entry.term.renew_at <= now:
                entry.renewing = True
                leases.append(entry.lease)
        return leases

    def next_due(self) -> float | None:
        """When the next renewal is due; None while nothing is held."""
        return min((entry.term.renew_at for entry in self._renewable()), default=None)

    def renewed(
        self, old: Lease, outcome: Outcome, new: Lease | None, term: Term, now: float
    ) -> tuple[Then, Lease]:
        """A renewal of `old` was answered (or not: RETRY, FATAL): what was put off until then."""
        key = _key(old)
        entry = self._entries.get(key)
        if entry is None or entry.lease != old or not entry.renewing:
            return Then.NOTHING, old
        entry.renewing = False
        if outcome is Outcome.OK and new is not None:
            entry.lease, entry.term = new, term
            self.counts.renewals += 1
        elif outcome is Outcome.RETRY and (again := entry.term.retry(now)):
            entry.term = again
        else:
            entry.lost = True
            self.counts.leases_lost += 1
        if entry.state is State.LEAVING:
            del self._entries[key]
            return (Then.NOTHING if outcome.refused else Then.RELEASE), entry.lease
        if entry.state is not State.COMMITTED:
            return Then.NOTHING, entry.lease
        if outcome.refused:
            self._remember(key, entry)
            return Then.NOTHING, entry.lease
        return Then.DELETE, entry.lease

    # ── inner ─────────────────────────────────────────────────────────────────────────────────────

    def _renewable(self) -> Iterator[_Entry]:
        for keys in self._by_batch.values():
            for key in keys:
                entry = self._entries.get(key)
                held = entry is not None and entry.state is State.HELD
                if entry is not None and held and not (entry.renewing or entry.lost):
                    yield entry

    def _of(self, batch: int) -> Iterator[tuple[_Key, _Entry]]:
        for key in self._by_batch.get(batch, ()):
            entry = self._entries.get(key)
            # An updated copy may have moved the message into a later batch.
            if entry is not None and entry.batch == batch and entry.state is State.HELD:
                yield key, entry

    def _move(self, key: _Key, entry: _Entry, batch: int) -> None:
        self._by_batch.get(entry.batch, {}).pop(key, None)
        entry.batch = batch
        self._by_batch.setdefault(batch, {})[key] = None

    def _remember(self, key: _Key, entry: _Entry) -> None:
        entry.state = State.REMEMBERED
        self._remembered[key] = None
        self._remembered.move_to_end(key)
        while len(self._remembered) > self._remember_at_most:
            oldest, _ = self._remembered.popitem(last=False)
            del self._entries[oldest]


def _key(lease: Lease) -> _Key:
    return (lease.queue, lease.message_id)
