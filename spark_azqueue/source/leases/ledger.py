"""The state of each leased message: one state machine, in one file so that it can be checked.

It has every message that this process has leased and that is not known to be gone.

    unknown ──dequeued──► HELD ──its batch is committed──► COMMITTED ──deleted──► (forgotten)
       ▲                   │ │                                │ refused, or given up
       └────released───────┘ └─renewed─┐                      ▼
                             ▲─────────┘    REMEMBERED, PROBABLY_GONE ──deleted──► (forgotten)

A copy of a HELD message brings its newer receipt and no row. A copy of a COMMITTED or REMEMBERED
one is deleted with its newer receipt and gives no row. A copy whose text differs was updated by
another client: it is a new message. A copy whose text was damaged on the way changes nothing. A
reply counts only if the receipt it used is still the newest.
While a renewal is under way, a delete or release (LEAVING) of that message waits for the answer to
the renewal.

A delete that was refused, after an earlier attempt that got no answer, has probably worked: the
message counts as deleted. It may still be there, if that attempt never arrived and another consumer
holds the message. So its id is kept (PROBABLY_GONE: as REMEMBERED, but only the newest 10,000), and
so is its blob, which the other consumer would read.

Over a restart a new process knows what is in the offset, or in the log: pending deletes, and with a
log the messages of batches whose deletes have not begun.
Pure: no clock, no thread, no lock.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from spark_azqueue.errors import Outcome
from spark_azqueue.journal.pending import fingerprint
from spark_azqueue.metrics.report import Counters, CountsByQueue
from spark_azqueue.service.messages import Lease, Message, MessageKey, Received
from spark_azqueue.service.queues.calls import Delete, Release

from .states import (
    DOUBT_AT_MOST,
    REMEMBER_AT_MOST,
    WAITING,
    Entry,
    Fate,
    PendingDeletes,
    RenewedLeases,
    State,
)
from .timing import Schedule, Term


class Ledger:
    """The states of messages, moved by events."""

    def __init__(
        self,
        remember_at_most: int = REMEMBER_AT_MOST,
        doubt_at_most: int = DOUBT_AT_MOST,
        fingerprint: Callable[[str], int] = fingerprint,
    ) -> None:
        """fingerprint: tells a message's text from an updated one, in each process."""
        self._fingerprint = fingerprint
        self._entries: dict[MessageKey, Entry] = {}
        self._by_batch: dict[int, dict[MessageKey, None]] = {}
        self._renewals = Schedule(self._is_expected)
        self._pending = PendingDeletes(remember_at_most, doubt_at_most)
        self._handed_out: set[MessageKey] | None = None  # a set in an availableNow run
        self.hidden_until = 0.0
        """Until when a message may be hidden that was released, or whose delete is pending."""
        self.counts = Counters()
        self.delivered_by_queue = CountsByQueue()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: MessageKey) -> bool:
        return key in self._entries

    @property
    def remembered(self) -> int:
        """How many committed messages could not be deleted, and are deleted when they return."""
        return len(self._pending.remembered)

    @property
    def remembered_keys(self) -> frozenset[MessageKey]:
        """Which they are."""
        return frozenset(self._pending.remembered)

    @property
    def pending_count(self) -> int:
        """How many messages `pending` returns."""
        return len(self._pending)

    @property
    def known(self) -> int:
        """How many messages, of batches or pending deletes, would give no second row."""
        return len(self._entries) - len(self._by_batch.get(WAITING, ()))

    @property
    def held(self) -> int:
        """How many messages are leased and neither gone nor probably gone."""
        return len(self._entries) - self.pending_count

    def state(self, lease: Lease) -> State | None:
        """The state of this message now, None if it is unknown (or forgotten)."""
        entry = self._entries.get(lease.key)
        return entry.state if entry else None

    def track_handed_out(self) -> None:
        """From now on remember which messages were delivered and are not known to be deleted.

        An availableNow run delivers no message a second time, not even with another text.
        """
        self._handed_out = set()

    def was_handed_out(self, lease: Lease) -> bool:
        """True if this message was delivered since, and is not known to be deleted."""
        return self._handed_out is not None and lease.key in self._handed_out

    @property
    def handed_out(self) -> int:
        """How many such messages there are."""
        return len(self._handed_out or ())

    def hide_until(self, until: float) -> None:
        """Messages of an earlier run may be hidden until then: released, or pending deletes."""
        self.hidden_until = max(self.hidden_until, until)

    # ── leased, delivered, committed ──────────────────────────────────────────────────────────────

    def dequeued(self, message: Message, lease: Lease, term: Term) -> Fate:
        """Note a message that a dequeue brought; a new one waits for a batch."""
        key = lease.key
        self.counts.dequeued += 1
        fingerprint = self._fingerprint(message.text)
        entry = self._entries.get(key)
        if entry is not None and message.dequeue_count < entry.dequeue_count:
            # Pages come in parallel: this is an older one that came later, its receipt is dead.
            self.counts.duplicates_suppressed += 1
            return Fate.HELD_ALREADY
        if entry is not None and entry.fingerprint == fingerprint:
            entry.lease, entry.term = lease, term
            entry.dequeue_count = message.dequeue_count
            entry.renewing = entry.lost = False
            self._renewals.add(key, term.renew_at)
            if entry.state is State.LEAVING:  # no other consumer took it: it is ours to deliver
                entry.state = State.HELD
                self._move(key, entry, WAITING)
                return Fate.ROW
            self.counts.duplicates_suppressed += 1
            if entry.state is State.HELD:
                return Fate.HELD_ALREADY
            self._may_be_hidden(entry)
            return Fate.DELETE
        if entry is not None and not message.intact:
            # It is unknown whether its text was updated. So it gives no row and is not deleted;
            # it comes back when this lease ends, and is judged then.
            self.counts.duplicates_suppressed += 1
            return Fate.HELD_ALREADY
        self.counts.redelivered += message.dequeue_count > 1
        if entry is not None:
            self._forget(key)
        entry = Entry(lease, WAITING, fingerprint, term, message.dequeue_count, message.text)
        entry.expires = message.expiration_time
        self._entries[key] = entry
        self._renewals.add(key, term.renew_at)
        self._by_batch.setdefault(WAITING, {})[key] = None
        return Fate.ROW

    def left_to_expire(self, key: MessageKey) -> bool:
        """Note that a dequeue brought this message too late, unless it is known from before.

        Returns False for one that is known: it was there when it had longer to live.
        """
        if key in self._entries:
            return False
        self.counts.dequeued += 1
        self.counts.skipped_near_expiry += 1
        return True

    def leases(self, messages: Iterable[Message]) -> list[Lease]:
        """The newest leases of messages in hand."""
        return [self._entries[message.key].lease for message in messages]

    def newest(self, received: Iterable[Received]) -> list[Received]:
        """These messages, with their newest leases if they are still in hand."""
        newest = []
        for each in received:
            entry = self._entries.get(each.lease.key)
            if entry is not None and entry.lease is not each.lease:
                each = Received(each.message, entry.lease)
            newest.append(each)
        return newest

    def hand_out(
        self,
        received: Iterable[Received],
        batch: int,
        blobs: Mapping[MessageKey, str] = MappingProxyType({}),
    ) -> list[Lease]:
        """Hand these waiting messages out in this batch. Returns their newest leases.

        received: with the leases in the rows.

        blobs: by message, the blob with the message's body, if it has one. A message whose text
        was updated meanwhile is left out: the new text is another message.
        """
        leases = []
        for message, shown in received:
            key = shown.key
            entry = self._entries.get(key)
            if (
                entry is not None
                and entry.state is State.HELD
                and (
                    entry.text is message.text
                    or entry.fingerprint == self._fingerprint(message.text)
                )
            ):
                entry.text = None
                self._move(key, entry, batch)
                entry.shown = shown.pop_receipt
                entry.blob = blobs.get(key)
                leases.append(entry.lease)
                if self._handed_out is not None:
                    self._handed_out.add(key)
                self.counts.delivered_bytes += message.size
        self.counts.delivered += len(leases)
        self.delivered_by_queue.add(lease.queue.name for lease in leases)
        return leases

    def keys_of(self, batch: int) -> list[MessageKey]:
        """The messages of this batch."""
        return [*self._by_batch.get(batch, ())]

    def keep_witness(self, leases: Iterable[Lease]) -> None:
        """Renew one of these messages in hand no more, that with the newest lease."""
        known = (self._entries[each.key] for each in leases)
        held = [entry for entry in known if not (entry.renewing or entry.lost)]
        if not held:
            return
        entry = max(reversed(held), key=lambda each: each.term.ends_at)
        entry.term = replace(entry.term, renew_at=math.inf)

    def texts(self, leases: Iterable[Lease]) -> dict[Lease, int]:
        """The fingerprints of these messages, which are in hand."""
        return {lease: self._entries[lease.key].fingerprint for lease in leases}

    def committed(self, batch: int) -> list[Lease]:
        """Note that Spark has committed this batch. Returns the newest leases, to delete now."""
        leases = []
        for _, entry in self._of(batch):
            entry.state = State.COMMITTED
            if not entry.renewing:
                leases.append(entry.lease)
        return leases

    def ended_up_to(self, done: int, most: int) -> int:
        """The last batch from `done` to `most` up to which, since `done`, all have ended.

        One has if none of its messages is in hand, and no delete of one is under way or due.
        """
        is_open = (batch for batch, held in self._by_batch.items() if held and done < batch <= most)
        return min(is_open, default=most + 1) - 1

    # ── known from a log ──────────────────────────────────────────────────────────────────────────

    def restore(
        self, received: Iterable[tuple[Received, Term]], batch: int, hidden_until: float
    ) -> None:
        """These messages of an earlier run are in this batch: their copies give no rows.

        Nothing was leased: their receipts may be dead, which the first renewal tells.
        hidden_until: the latest time at which a lease of an earlier run ends.
        """
        for (message, lease), term in received:
            key = lease.key
            self._forget(key)
            text, count = self._fingerprint(message.text), message.dequeue_count
            entry = self._entries[key] = Entry(lease, batch, text, term, count)
            entry.expires = message.expiration_time
            entry.hidden_until = hidden_until
            entry.restored = True
            self._renewals.add(key, term.renew_at)
            self._by_batch.setdefault(batch, {})[key] = None

    def restore_pending(self, lease: Lease, fingerprint: int, expires: int) -> None:
        """The rows of this message were committed by an earlier run, and its delete is pending.

        expires: seconds since 1970, 0 if unknown.
        """
        if lease.key not in self._entries:
            never = Term(math.inf, math.inf)
            entry = self._entries[lease.key] = Entry(lease, WAITING, fingerprint, never, 0)
            entry.expires = expires * 1_000_000
            self._keep_in_mind(lease.key, entry, State.REMEMBERED)

    def pending(self) -> list[tuple[MessageKey, int, int]]:
        """Messages whose delete was refused, given up or in doubt. The newest last.

        Each with its fingerprint, and when it expires (seconds since 1970, 0 if unknown).
        """
        found = []
        for key in self._pending:
            entry = self._entries[key]
            found.append((key, entry.fingerprint, entry.expires // 1_000_000))
        return found

    def forget_expired(self, before: float) -> None:
        """Evict pending deletes of messages that expired before this time (seconds since 1970)."""
        for key in [key for key in self._pending if self._is_expired(key, before * 1_000_000)]:
            self._forget(key)

    def set_aside(self, message: Message) -> list[Lease]:
        """Note that a copy is in the poison queue. Returns what to delete now."""
        key = message.key
        entry = self._entries[key]
        entry.state, entry.text = State.COMMITTED, None
        self._leave_batch(key, entry)
        self.counts.poison_moved += 1
        return [] if entry.renewing else [entry.lease]

    def forget(self, batch: int) -> int:
        """Stop tracking this batch: deleting its messages is now up to the user.

        Returns how many of them have a newer receipt than the one in the row.
        """
        replaced = 0
        for key, entry in list(self._of(batch)):
            replaced += entry.shown != entry.lease.pop_receipt
            del self._entries[key]
        self._by_batch.pop(batch, None)
        return replaced

    def release(self, batch: int) -> list[Lease]:
        """Note that this batch is to go back into its queues. Returns what to release now."""
        leases = []
        for key, entry in list(self._of(batch)):
            if entry.renewing:
                entry.state = State.LEAVING
            else:
                leases.append(entry.lease)
                del self._entries[key]
            self._may_be_hidden(entry)
        self._by_batch.pop(batch, None)
        return leases

    def drop(self, lease: Lease) -> None:
        """Stop tracking this message."""
        self._forget(lease.key)

    def settled(self, lease: Lease, outcome: Outcome) -> str | None:
        """Note how a delete of a committed message ended. RETRY: it was given up.

        Returns the blob that held its body, if the service said that the message is deleted.
        Otherwise another consumer may need the blob.
        """
        key = lease.key
        entry = self._entries.get(key)
        if entry is None or entry.lease != lease or entry.state is State.HELD:
            return None  # a newer dequeue has taken over; this answer is about a dead receipt
        if outcome in (Outcome.OK, Outcome.PROBABLY):
            self.counts.deleted += not entry.counted
            entry.counted = True
        if outcome is Outcome.OK:
            if self._handed_out is not None:
                self._handed_out.discard(key)
            self._forget(key)
            return entry.blob
        if outcome is Outcome.PROBABLY:
            self._keep_in_mind(key, entry, State.PROBABLY_GONE)
            return None
        if outcome.refused:
            self.counts.deletes_refused += 1
        else:
            self.counts.deletes_given_up += 1
        self._keep_in_mind(key, entry, State.REMEMBERED)
        return None

    # ── renewals ──────────────────────────────────────────────────────────────────────────────────

    def due(self, now: float, at_most: int | None = None) -> list[Lease]:
        """Leases to renew now, the most urgent first; each is under way until `renewed`."""
        leases: list[Lease] = []
        while at_most is None or len(leases) < at_most:
            soonest = self._renewals.soonest()
            if soonest is None or soonest[0] > now:
                break
            entry = self._entries[soonest[1]]
            entry.renewing = True
            leases.append(entry.lease)
        return leases

    def next_due(self) -> float | None:
        """When the next renewal is due; None if nothing is to be renewed."""
        soonest = self._renewals.soonest()
        return soonest[0] if soonest else None

    def term(self, lease: Lease) -> Term:
        """How long this lease lasts. Raises KeyError if the message is unknown."""
        return self._entries[lease.key].term

    def waits(self, lease: Lease) -> bool:
        """True if this message is in no batch yet."""
        entry = self._entries.get(lease.key)
        return entry is not None and entry.batch == WAITING

    def puts_off(self, lease: Lease) -> bool:
        """True if a delete or release waits for the answer to the renewal of this lease."""
        entry = self._entries.get(lease.key)
        if entry is None or entry.lease != lease or not entry.renewing:
            return False
        return entry.state in (State.COMMITTED, State.LEAVING)

    def renewed(
        self, old: Lease, outcome: Outcome, new: Lease | None, term: Term, now: float
    ) -> RenewedLeases:
        """Note how a renewal of `old` ended. RETRY: no answer; FATAL: no retry helps, it is lost.

        A renewal without an answer may have taken effect. Then the message has a receipt that this
        process does not know. The next try is refused, and the lease counts as lost, although it
        has not ended. Its delete is refused, too: the message returns when the lease ends, and
        is deleted then.
        """
        key = old.key
        entry = self._entries.get(key)
        if entry is None or entry.lease != old or not entry.renewing:
            return RenewedLeases(old)
        entry.renewing = False
        restored = entry.restored
        if outcome is Outcome.OK and new is not None:
            entry.lease, entry.term, entry.restored = new, term, False
            self.counts.renewals += 1
        elif outcome is Outcome.RETRY and (again := entry.term.retry(now)):
            entry.term = again
        else:
            entry.lost = True
            self.counts.leases_lost += 1
        if new is None:  # it may have been renewed all the same
            entry.hidden_until = max(entry.hidden_until, now + term.length_s)
        self._renewals.add(key, entry.term.renew_at)
        if entry.state is State.LEAVING:
            self._may_be_hidden(entry)
            self._forget(key)
            waited = None if outcome.refused else Release
            return RenewedLeases(entry.lease, waited, entry.lost, restored)
        if entry.state is State.COMMITTED and outcome.refused:
            self._keep_in_mind(key, entry, State.REMEMBERED)
        return RenewedLeases(
            entry.lease,
            Delete if entry.state is State.COMMITTED else None,
            entry.lost,
            restored,
        )

    # ── inner ─────────────────────────────────────────────────────────────────────────────────────

    def _is_expected(self, key: MessageKey, at: float) -> bool:
        entry = self._entries.get(key)
        if entry is None or entry.state is not State.HELD or entry.term.renew_at != at:
            return False
        return not (entry.renewing or entry.lost)

    def _of(self, batch: int) -> Iterator[tuple[MessageKey, Entry]]:
        for key in self._by_batch.get(batch, ()):
            entry = self._entries[key]
            if entry.state is State.HELD:
                yield key, entry

    def _move(self, key: MessageKey, entry: Entry, batch: int) -> None:
        self._leave_batch(key, entry)
        entry.batch = batch
        self._by_batch.setdefault(batch, {})[key] = None

    def _leave_batch(self, key: MessageKey, entry: Entry) -> None:
        members = self._by_batch.get(entry.batch)
        if members:
            members.pop(key, None)
            if not members:
                del self._by_batch[entry.batch]

    def _keep_in_mind(self, key: MessageKey, entry: Entry, state: State) -> None:
        self._leave_batch(key, entry)
        entry.state, entry.text = state, None
        self._may_be_hidden(entry)
        if oldest := self._pending.keep(key, state):
            del self._entries[oldest]
            self.counts.evicted_deletes += state is State.REMEMBERED

    def _may_be_hidden(self, entry: Entry) -> None:
        ends_at = entry.term.ends_at if entry.term.ends_at < math.inf else 0.0
        self.hidden_until = max(self.hidden_until, ends_at, entry.hidden_until)

    def _is_expired(self, key: MessageKey, before: float) -> bool:
        return 0 < self._entries[key].expires < before

    def _forget(self, key: MessageKey) -> None:
        entry = self._entries.pop(key, None)
        if entry:
            self._leave_batch(key, entry)
        self._pending.drop(key)
