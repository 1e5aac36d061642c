"""The state of each leased message: a state machine, in one file so that it can be verified.

The ledger contains every message that this process has leased, until the message is deleted or
released.

    unknown ──dequeued──► HELD ──its batch is committed──► COMMITTED ──deleted──► (forgotten)
       ▲                   │ │                                │ refused, or given up
       └────released───────┘ └─renewed─┐                      ▼
                             ▲─────────┘    REMEMBERED, PROBABLY_GONE ──deleted──► (forgotten)

A copy is a message that is dequeued again. A copy of a HELD message has no row, but the ledger uses
the copy's newer receipt. A copy of a COMMITTED or REMEMBERED message has no row, and is deleted
with the newer receipt. If the copy has a different text, another client updated the message: the
copy counts as a new message. A copy whose text was damaged in transit changes nothing. The answer
to a request counts only if the request used the message's newest receipt. While the renewal of a
message is in flight, the delete or release (LEAVING) of this message waits for the answer to the
renewal.

If a first delete request got no answer and its retry is refused, the first request has probably
worked, and the message counts as deleted. But if the first request never arrived, the message still
exists and another consumer holds it. So the ledger keeps the id of the message (PROBABLY_GONE: like
REMEMBERED, but only for the newest 10,000 messages). The message's blob is kept for the other
consumer.

After a restart, the new process restores pending deletes from the offset or the log. A process with
a log also restores the messages of batches whose deletes have not begun.

This module has no clock, no thread and no lock.
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
    """The states of messages. A method records an event, and changes the states of messages."""

    def __init__(
        self,
        remember_at_most: int = REMEMBER_AT_MOST,
        doubt_at_most: int = DOUBT_AT_MOST,
        fingerprint: Callable[[str], int] = fingerprint,
    ) -> None:
        """fingerprint: returns a hash of a message's text. The hash must be the same in every
        process.
        """
        self._fingerprint = fingerprint
        self._entries: dict[MessageKey, Entry] = {}
        self._by_batch: dict[int, dict[MessageKey, None]] = {}
        self._renewals = Schedule(self._is_expected)
        self._pending = PendingDeletes(remember_at_most, doubt_at_most)
        self._handed_out: set[MessageKey] | None = None  # None except in an availableNow run
        self.hidden_until = 0.0
        """Time until which a released message, or a message with a pending delete, may be
        invisible.
        """
        self.counts = Counters()
        self.delivered_by_queue = CountsByQueue()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: MessageKey) -> bool:
        return key in self._entries

    @property
    def remembered(self) -> int:
        """Number of REMEMBERED messages: committed messages whose delete failed."""
        return len(self._pending.remembered)

    @property
    def remembered_keys(self) -> frozenset[MessageKey]:
        """Keys of the messages that `remembered` counts."""
        return frozenset(self._pending.remembered)

    @property
    def pending_count(self) -> int:
        """Number of messages that `pending` returns."""
        return len(self._pending)

    @property
    def known(self) -> int:
        """Number of messages that are in a batch or have a pending delete. A copy of such a message
        gets no row.
        """
        return len(self._entries) - len(self._by_batch.get(WAITING, ()))

    @property
    def held(self) -> int:
        """Number of messages in the ledger, except messages that `pending` returns."""
        return len(self._entries) - self.pending_count

    def state(self, lease: Lease) -> State | None:
        """Return the state of a message, or None if the ledger does not have the message."""
        entry = self._entries.get(lease.key)
        return entry.state if entry else None

    def track_handed_out(self) -> None:
        """Begin to track delivered messages. A message is tracked until the service confirms its
        delete.

        An availableNow run delivers no message a second time, even if the message has a different
        text.
        """
        self._handed_out = set()

    def was_handed_out(self, lease: Lease) -> bool:
        """Return True if this message is tracked; see `track_handed_out`."""
        return self._handed_out is not None and lease.key in self._handed_out

    @property
    def handed_out(self) -> int:
        """Number of tracked messages; 0 if `track_handed_out` was not called."""
        return len(self._handed_out or ())

    def hide_until(self, until: float) -> None:
        """Record that messages which an earlier run leased may be invisible until this time."""
        self.hidden_until = max(self.hidden_until, until)

    # ── leased, delivered, committed ──────────────────────────────────────────────────────────────

    def dequeued(self, message: Message, lease: Lease, term: Term) -> Fate:
        """Record a message that a dequeue returned. A new message waits for a batch."""
        key = lease.key
        self.counts.dequeued += 1
        fingerprint = self._fingerprint(message.text)
        entry = self._entries.get(key)
        if entry is not None and message.dequeue_count < entry.dequeue_count:
            # Pages arrive in parallel. This copy was dequeued earlier, but arrived later: its
            # receipt is stale.
            self.counts.duplicates_suppressed += 1
            return Fate.HELD_ALREADY
        if entry is not None and entry.fingerprint == fingerprint:
            entry.lease, entry.term = lease, term
            entry.dequeue_count = message.dequeue_count
            entry.renewing = entry.lost = False
            self._renewals.add(key, term.renew_at)
            if entry.state is State.LEAVING:  # it was not released yet: deliver it
                entry.state = State.HELD
                self._move(key, entry, WAITING)
                return Fate.ROW
            self.counts.duplicates_suppressed += 1
            if entry.state is State.HELD:
                return Fate.HELD_ALREADY
            self._may_be_hidden(entry)
            return Fate.DELETE
        if entry is not None and not message.intact:
            # A damaged text does not show whether the message was updated. So this copy gets no row
            # and is not deleted. After this lease ends, the message is dequeued again, and its text
            # is compared.
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
        """Count a message that was dequeued too close to its expiry to be delivered.

        Returns False, and counts nothing, if the ledger has the message. Such a message was first
        dequeued when its expiry was not near.
        """
        if key in self._entries:
            return False
        self.counts.dequeued += 1
        self.counts.skipped_near_expiry += 1
        return True

    def leases(self, messages: Iterable[Message]) -> list[Lease]:
        """Return the newest leases of these messages. Every message must be in the ledger."""
        return [self._entries[message.key].lease for message in messages]

    def newest(self, received: Iterable[Received]) -> list[Received]:
        """Return these messages with their newest leases.

        If the ledger does not have a message, its lease is returned unchanged.
        """
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
        """Deliver waiting messages in this batch. Return their newest leases.

        If a message's text was updated after the dequeue, the message is left out. The updated text
        counts as a new message.

        received: the messages, with the leases whose receipts their rows contain. blobs: for each
        message whose body is in a blob, the name of the blob.
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
        """Return the keys of a batch's messages."""
        return [*self._by_batch.get(batch, ())]

    def keep_witness(self, leases: Iterable[Lease]) -> None:
        """Do not renew the lease that ends last, so that its receipt does not change."""
        known = (self._entries[each.key] for each in leases)
        held = [entry for entry in known if not (entry.renewing or entry.lost)]
        if not held:
            return
        entry = max(reversed(held), key=lambda each: each.term.ends_at)
        entry.term = replace(entry.term, renew_at=math.inf)

    def texts(self, leases: Iterable[Lease]) -> dict[Lease, int]:
        """Return, for each lease, the fingerprint of the message's text.

        Every message must be in the ledger.
        """
        return {lease: self._entries[lease.key].fingerprint for lease in leases}

    def committed(self, batch: int) -> list[Lease]:
        """Record that Spark has committed a batch. Return the leases to delete now."""
        leases = []
        for _, entry in self._of(batch):
            entry.state = State.COMMITTED
            if not entry.renewing:
                leases.append(entry.lease)
        return leases

    def ended_up_to(self, done: int, most: int) -> int:
        """Return the highest number, from `done` to `most`, up to which all batches have ended.

        A batch has ended if none of its messages is HELD, and none of its deletes is due or in
        flight.
        """
        is_open = (batch for batch, held in self._by_batch.items() if held and done < batch <= most)
        return min(is_open, default=most + 1) - 1

    # ── known from a log ──────────────────────────────────────────────────────────────────────────

    def restore(
        self, received: Iterable[tuple[Received, Term]], batch: int, hidden_until: float
    ) -> None:
        """Restore the messages of a batch of an earlier run. A copy of such a message gets no row.

        Another process leased these messages, so their receipts may be stale. The first renewal of
        a lease shows whether its receipt is stale.

        hidden_until: latest time at which a lease of an earlier run may end.
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
        """Restore the pending delete of a message whose row an earlier run committed.

        expires: expiry of the message in seconds since 1970; 0 if unknown.
        """
        if lease.key not in self._entries:
            never = Term(math.inf, math.inf)
            entry = self._entries[lease.key] = Entry(lease, WAITING, fingerprint, never, 0)
            entry.expires = expires * 1_000_000
            self._keep_in_mind(lease.key, entry, State.REMEMBERED)

    def pending(self) -> list[tuple[MessageKey, int, int]]:
        """Return the messages whose delete failed, was refused, or has probably worked.

        Each item has a message's key, fingerprint, and expiry (seconds since 1970; 0 if unknown).
        The newest pending delete is the last item.
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
        """Record that the poison queue has a copy of this message. Return the lease whose message
        to delete now.

        If a renewal of the message is in flight, the list is empty, because the delete waits for
        the answer to the renewal.
        """
        key = message.key
        entry = self._entries[key]
        entry.state, entry.text = State.COMMITTED, None
        self._leave_batch(key, entry)
        self.counts.poison_moved += 1
        return [] if entry.renewing else [entry.lease]

    def forget(self, batch: int) -> int:
        """Remove the messages of a batch from the ledger, because the user deletes these messages.

        Returns the number of messages whose rows contain a stale receipt.
        """
        replaced = 0
        for key, entry in list(self._of(batch)):
            replaced += entry.shown != entry.lease.pop_receipt
            del self._entries[key]
        self._by_batch.pop(batch, None)
        return replaced

    def release(self, batch: int) -> list[Lease]:
        """Record that a batch's messages will be released. Return the leases to release now."""
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
        """Remove a message from the ledger."""
        self._forget(lease.key)

    def settled(self, lease: Lease, outcome: Outcome) -> str | None:
        """Record the outcome of a committed message's delete.

        outcome: RETRY means that the delete failed, and that the caller does not retry the delete.

        If the service confirmed the delete, returns the name of the blob that has the message's
        body, if any. Otherwise returns None, because another consumer may need the blob.
        """
        key = lease.key
        entry = self._entries.get(key)
        if entry is None or entry.lease != lease or entry.state is State.HELD:
            return None  # dequeued again: the answer is for a stale receipt
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
        """Return leases to renew now, most urgent first.

        The renewal of each returned lease counts as in flight until the caller reports its result
        to `renewed`.
        """
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
        """Return the time of the next renewal, or None if no lease has to be renewed."""
        soonest = self._renewals.soonest()
        return soonest[0] if soonest else None

    def term(self, lease: Lease) -> Term:
        """Return the times of a message's newest lease. Raises KeyError if the ledger does not have
        the message.
        """
        return self._entries[lease.key].term

    def waits(self, lease: Lease) -> bool:
        """Return True if the message is in no batch yet."""
        entry = self._entries.get(lease.key)
        return entry is not None and entry.batch == WAITING

    def puts_off(self, lease: Lease) -> bool:
        """Return True if a delete or release of this message waits for the answer to the message's
        renewal.
        """
        entry = self._entries.get(lease.key)
        if entry is None or entry.lease != lease or not entry.renewing:
            return False
        return entry.state in (State.COMMITTED, State.LEAVING)

    def renewed(
        self, old: Lease, outcome: Outcome, new: Lease | None, term: Term, now: float
    ) -> RenewedLeases:
        """Record the outcome of a renewal of `old`. RETRY: no answer. FATAL: the lease is lost.

        A renewal that got no answer may have worked. In this case the message has a newer receipt,
        which this process does not know. So the next renewal is refused, and the lease counts as
        lost although it has not ended. A delete of the message is refused for the same reason.
        After the lease ends, the message is dequeued again and deleted.
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
        if new is None:  # the service may have renewed the lease without an answer
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
