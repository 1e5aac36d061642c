"""The messages in hand: the ledger under its lock, with what renews and settles them.

The threads that delete and renew report here; one other thread asks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from spark_azqueue.errors import AzQueueError, Outcome
from spark_azqueue.metrics.report import Report
from spark_azqueue.options.blobs import ClaimCheck
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.removals import Removals
from spark_azqueue.service.blobs.store import BlobStore
from spark_azqueue.service.messages import Lease, Message, MessageKey
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import LAST_WORDS, LAST_WORDS_S
from spark_azqueue.service.workers import Submits

from .ledger import Ledger
from .renewer import Renewer
from .settler import Settler
from .states import WAITING, Fate, State
from .timing import RENEWED_S, START_BY_USER_S, Sizing, Term

log = logging.getLogger(__name__)

_BLOB_DELETES = 8
"""Most deletes of blobs under way at once."""

_RENEWALS = 64
"""Most renewals under way at once, with deleteParallelism=auto: they do not wait for the limits."""


class MakeWorkers(Protocol):
    """Makes a pool of threads (tests make one that works at once)."""

    def __call__(self, count: int, name: str) -> Submits:
        """Make a pool of up to `count` threads."""
        ...


def removals_for(claim_check: ClaimCheck, make_workers: MakeWorkers) -> Removals | None:
    """What deletes the blobs of large bodies; None if they are to stay."""
    if not claim_check.delete:
        return None
    store = BlobStore(claim_check.account, claim_check.container, _BLOB_DELETES)
    return Removals(store, make_workers(_BLOB_DELETES, "blobs"))


class LeaseHolder:
    """The only access to what is leased: the ledger, and the threads that renew and settle.

    Thread-safe. Not kept over a restart: a new process knows only what is in the offset.
    """

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        make_workers: MakeWorkers,
        clock: Callable[[], float],
        fingerprint: Callable[[str], int] = hash,
    ) -> None:
        self._fixed = config.visibility_timeout
        self._delete = config.delete_on_commit
        self._clock = clock
        self._lock = threading.Lock()
        self._ledger = Ledger(fingerprint=fingerprint)
        self._sizing = Sizing() if self._delete else Sizing(start_s=START_BY_USER_S)
        self._since: dict[int, float] = {}
        self._told_s = RENEWED_S
        self._removals: Removals | None = None
        if config.claim_check:
            self._removals = removals_for(config.claim_check, make_workers)
        self._settler = Settler(
            client,
            make_workers(1, "settle"),
            config.delete_parallelism,
            self._settled,
            config.selection.comes_and_goes,
        )
        self._renewer = Renewer(
            self._ledger,
            self._lock,
            client,
            self._settler,
            config.delete_parallelism or _RENEWALS,
            self.renewal_s,
            clock,
        )

    @property
    def hidden_until(self) -> float:
        """Until when a message may be hidden that was released, or whose delete is owed."""
        with self._lock:
            return self._ledger.hidden_until

    def may_be_hidden(self, until: float) -> None:
        """Messages of an earlier run may be hidden until then: owed ones, and released ones."""
        with self._lock:
            self._ledger.hidden_until = max(self._ledger.hidden_until, until)

    def longest_s(self) -> int:
        """The longest that this process leases a message for at once.

        It keeps to what it said last: the next process counts on that, if this one is killed.
        """
        self._told_s = self._fixed or max(self.visibility_s(), RENEWED_S)
        return self._told_s

    def unusual_s(self) -> int:
        """The same if that is more than a process leases for that has observed nothing; else 0."""
        longest = self.longest_s()
        return longest if longest > RENEWED_S else 0

    def renewal_s(self, term: Term, *, waits: bool) -> int:
        """How long to renew a lease for. waits: its message is in no batch yet.

        That one stays short: nobody else could give it back after a crash.
        """
        if self._fixed is not None or waits:
            return self.visibility_s()
        return min(self._sizing.renewal_s(term.length_s), self._told_s)

    def visibility_s(self) -> int:
        """How long to lease for now: as the option says, or sized from observed batches."""
        return self._fixed if self._fixed is not None else self._sizing.visibility_s()

    def start(self) -> None:
        """Renew in the background from now on. Raises RuntimeError if no thread can be started."""
        self._renewer.start()

    def stop(self) -> None:
        """Begin no more renewals."""
        self._renewer.stop()

    def renew_due(self) -> int:
        """Renew what is due now, as the background thread does; returns how many renewals."""
        return self._renewer.renew_due()

    def dequeued(self, message: Message, term: Term) -> bool:
        """Note a message that a dequeue brought. Returns True if it is new, so that it gives a row.

        A copy of a committed message is deleted in the background.
        """
        with self._lock:
            fate = self._ledger.dequeued(message, term)
        if fate is Fate.DELETE:
            self._settler.begin([message.lease])
        return fate is Fate.ROW

    def with_usable_receipts(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The same messages; if deleting is up to the user, with their newest receipts."""
        if self._delete:
            return messages
        with self._lock:
            return self._ledger.refreshed(messages)

    def with_newest_receipts(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The same messages with their newest receipts: some were renewed while they waited."""
        with self._lock:
            return self._ledger.refreshed(messages)

    def hand_out(
        self,
        messages: Iterable[Message],
        batch: int,
        since: float,
        blobs: Mapping[MessageKey, str],
    ) -> tuple[Lease, ...]:
        """Give these out as a batch, whose leasing began at `since`. Returns their newest leases.

        blobs: by message, the blob with the message's body, if it has one.
        """
        with self._lock:
            self._since[batch] = since
            return tuple(self._ledger.hand_out(messages, batch, blobs))

    def committed(self, batch: int) -> None:
        """This batch is committed: begin its deletes, unless deleting is up to the user."""
        with self._lock:
            since = self._since.pop(batch, None)
            replaced = 0 if self._delete else self._ledger.forget(batch)
            leases = self._ledger.committed(batch)

        def done(too_late: bool) -> None:
            if since is not None:
                took = self._clock() - since
                grow = self._sizing.too_late if too_late else self._sizing.on_time
                self._sizing = grow(took)

        if self._delete:
            self._settler.begin(leases, done)
            return
        if replaced:
            log.warning(
                "batch %d: the pop receipts of %d messages were replaced while it ran (by renewals,"
                " or another dequeue), so updates and deletes by its rows are refused: set"
                " visibilityTimeout to more than twice what a batch takes",
                batch,
                replaced,
            )
        done(replaced > 0)

    def wait(self, timeout_s: float) -> None:
        """Wait for the deletes that are owed, and the renewals they wait for.

        Raises what `Settler.wait` raises.
        """
        self._renewer.wait(timeout_s)
        self._settler.wait(timeout_s)
        if self._removals:
            self._removals.wait(timeout_s)

    def close(self) -> None:
        """Close the connections to the blobs."""
        if self._removals:
            self._removals.close()

    def set_aside(self, message: Message) -> None:
        """Delete this message, of which a copy is in the poison queue."""
        with self._lock:
            leases = self._ledger.set_aside(message)
        self._settler.begin(leases)

    def count_poison(self) -> None:
        """Count a message that was copied to the poison queue; its batch is settled."""
        with self._lock:
            self._ledger.counts.poison_moved += 1

    def release(self, leases: Sequence[Lease]) -> int:
        """Make messages visible again, and return when every one of these receipts is dead.

        Returns how many were released; the others were refused, so their receipts are dead, too.
        Raises ServiceError if that is unknown for one.
        """
        return self._settler.release(leases)

    def give_back(self, more: Iterable[Lease]) -> None:
        """Release what is in no batch, and these, as far as a few seconds allow. Never raises."""
        with self._lock:
            leases = self._ledger.release(WAITING)
        leases += more
        try:
            self._settler.release(leases, LAST_WORDS, timeout_s=LAST_WORDS_S)
        except (AzQueueError, TimeoutError, RuntimeError) as error:
            log.warning(
                "not all of %d leased messages could be given back (%s); they become visible"
                " again within %d s",
                len(leases),
                error,
                self.visibility_s(),
            )

    def settle_restored(self, leases: Sequence[Lease], blobs: Mapping[Lease, str]) -> None:
        """Delete a batch of an earlier run with exactly these receipts; a refusal is final.

        blobs: the blob with a message's body, if it has one. Raises ServiceError if the service
        does not answer: then nothing may be dequeued yet.
        """
        deleted = self._settler.delete_restored(leases)
        with self._lock:
            self._ledger.counts.deleted += len(deleted)
        self._remove_blobs(blobs[lease] for lease in deleted if lease in blobs)

    def restore(
        self, messages: Iterable[Message], batch: int, ahead_s: float, hidden_s: float
    ) -> None:
        """These messages are in this batch of a log: their copies give no rows.

        They are renewed when half of what is left of the segment's leases is over. ahead_s: the
        service's clock, minus ours. hidden_s: the longest that an earlier run has leased them for
        from now on.
        """
        now, length = self._clock(), self.visibility_s()
        served = now + ahead_s
        with self._lock:
            self._ledger.restore(
                (
                    (each, Term.left(now, (each.next_visible_time or 0) / 1e6 - served, length))
                    for each in messages
                ),
                batch,
                now + hidden_s,
            )

    def restore_owed(self, key: MessageKey, fingerprint: int, expires: int) -> None:
        """The rows of this message were committed by an earlier run, and its delete is owed.

        expires: seconds since 1970, 0 if unknown.
        """
        with self._lock:
            self._ledger.restore_owed(Lease(*key, ""), fingerprint, expires)

    def owed(self) -> list[tuple[MessageKey, int, int]]:
        """Messages whose delete was refused, given up or in doubt. The newest last.

        Each with its fingerprint, and when it expires (seconds since 1970, 0 if unknown).
        """
        with self._lock:
            return self._ledger.owed()

    def knows(self, keys: Iterable[MessageKey]) -> set[MessageKey]:
        """Those of these messages that are in hand, or whose delete is owed."""
        with self._lock:
            return {key for key in keys if key in self._ledger}

    def forget_expired(self, before: float) -> None:
        """Forget owed messages that expired before this time (seconds since 1970)."""
        with self._lock:
            self._ledger.forget_expired(before)

    def known(self) -> tuple[int, int]:
        """How many messages would give no second row if they came, and how many of them are owed.

        Without those that wait for a batch.
        """
        with self._lock:
            return self._ledger.known, self._ledger.owed_count

    def has_ended(self, batch: int) -> bool:
        """True if no message of this batch is in hand, and no delete of one is under way or due."""
        with self._lock:
            return self._ledger.has_ended(batch)

    def forget(self, batch: int) -> None:
        """Stop tracking this batch: its messages come again, and are new then."""
        with self._lock:
            self._ledger.forget(batch)

    def give_back_batch(self, batch: int) -> None:
        """This batch will never be given out: release its messages (best effort)."""
        with self._lock:
            leases = self._ledger.release(batch)
        self._settler.begin_release(leases)

    def keeps(self, lease: Lease) -> bool:
        """True if this message is in hand, and its lease is renewed when that is due."""
        with self._lock:
            return not self._renewer.stopped and self._ledger.state(lease) is State.HELD

    def drop(self, lease: Lease) -> None:
        """Forget one message."""
        with self._lock:
            self._ledger.drop(lease)

    def note_what_is_given_out(self) -> None:
        """From now on remember which messages were given out and are not known to be deleted."""
        with self._lock:
            self._ledger.note_what_is_given_out()

    def was_given_out(self, lease: Lease) -> bool:
        """True if this message was given out since, and is not known to be deleted."""
        with self._lock:
            return self._ledger.was_given_out(lease)

    @property
    def given_out(self) -> int:
        """How many such messages there are."""
        with self._lock:
            return self._ledger.given_out

    def report(self, backlog: Mapping[str, int]) -> Report:
        """The counters and states of now, with this backlog (messages by queue name)."""
        visibility = self.visibility_s()
        with self._lock:
            remembered = self._ledger.remembered
            held = self._ledger.held
            return Report(backlog, held, remembered, visibility, replace(self._ledger.counts))

    def _settled(self, lease: Lease, outcome: Outcome) -> None:
        with self._lock:
            blob = self._ledger.settled(lease, outcome)
        if blob:
            self._remove_blobs([blob])

    def _remove_blobs(self, names: Iterable[str]) -> None:
        """Delete these blobs in the background: the messages that they belong to are deleted."""
        for name in names:
            if self._removals:
                self._removals.begin(name)
