"""The messages in hand: leased, delivered in batches, settled. The door to all leases.

Decisions are the ledger's; `worker.py` carries them out. One thread calls this, and that of the
prefetch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

from spark_azqueue.errors import AzQueueError
from spark_azqueue.journal.pending import PendingDelete
from spark_azqueue.options.blobs import ClaimCheck
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.blobs.store import BlobStore, Removals
from spark_azqueue.service.messages import Lease, Message, MessageKey, Received
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import LAST_WORDS, LAST_WORDS_S
from spark_azqueue.service.workers import MakeWorkers

from .ages import MessageAges
from .ledger import Ledger
from .states import WAITING, Fate
from .timing import START_BY_USER_S, START_S, LeaseLengths, Term
from .worker import LeaseWorker

log = logging.getLogger(__name__)

_BLOB_DELETES = 8
"""Most deletes of blobs under way at once."""


def removals_for(claim_check: ClaimCheck, make_workers: MakeWorkers) -> Removals | None:
    """What deletes the blobs of large bodies; None if they are to stay."""
    if not claim_check.delete:
        return None
    store = BlobStore(claim_check.account, claim_check.container)
    return Removals(store, make_workers(_BLOB_DELETES, "blobs"))


class LeaseHolder:
    """What is leased, and what becomes of it."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        make_workers: MakeWorkers,
        clock: Callable[[], float],
    ) -> None:
        """Store; nothing is sent."""
        self._deletes = config.delete_on_commit
        self._deleted: list[Lease] = []  # of the restored batch whose deletes did not all end yet
        self._clock = clock
        self._since: dict[int, float] = {}  # by batch: when its leasing began
        self.ages = MessageAges(clock)
        self._removals: Removals | None = None
        if config.claim_check:
            self._removals = removals_for(config.claim_check, make_workers)
        start_s = START_S if self._deletes else START_BY_USER_S
        self.lengths = LeaseLengths(config.visibility_timeout, start_s)
        """For how long messages are leased and renewed."""
        self.worker = LeaseWorker(
            Ledger(),
            client,
            make_workers(1, "leases"),
            self.lengths,
            clock,
            parallelism=config.parallelism,
            may_vanish=config.selection.comes_and_goes,
            on_deleted=self._remove_blob,
        )
        """Renews, deletes and releases; it has the lock of the ledger."""

    @property
    def locked_ledger(self) -> AbstractContextManager[Ledger]:
        """The ledger under its lock: `with …locked_ledger as ledger`. Call only the ledger then."""
        return self.worker

    def dequeued(self, message: Message, lease: Lease, term: Term) -> bool:
        """Note a message that a dequeue brought. Returns True if it is new, so that it gives a row.

        A copy of a committed message is deleted in the background.
        """
        with self.worker as ledger:
            fate = ledger.dequeued(message, lease, term)
        if fate is Fate.DELETE:
            self.worker.delete([lease])
        return fate is Fate.ROW

    def hand_out(
        self,
        received: Sequence[Received],
        batch: int,
        since: float,
        blobs: Mapping[MessageKey, str],
    ) -> tuple[Lease, ...]:
        """Give these out as a batch, whose leasing began at `since`. Returns their newest leases.

        blobs: by message, the blob with the message's body, if it has one.
        """
        self._since[batch] = since
        self.ages.delivered(batch, (message for message, _ in received))
        with self.worker as ledger:
            return tuple(ledger.hand_out(received, batch, blobs))

    def keep_witness(self, leases: Sequence[Lease]) -> Mapping[Lease, int]:
        """Keep one receipt in a batch's offset valid; returns the fingerprints of its texts.

        If the next process can delete with a receipt in the offset, the batch was never replayed,
        so all its rows were delivered (docs/decisions/0034).
        """
        with self.worker as ledger:
            ledger.keep_witness(leases)
            return ledger.texts(leases)

    def committed(self, batch: int) -> None:
        """This batch is committed: begin its deletes, unless deleting is up to the user."""
        since = self._since.pop(batch, None)
        self.ages.committed(batch)
        with self.worker as ledger:
            replaced = 0 if self._deletes else ledger.forget(batch)
            leases = ledger.committed(batch)

        def ended(too_late: bool) -> None:
            if since is not None:
                self.lengths.observed(self._clock() - since, too_late=too_late)

        if self._deletes:
            self.worker.delete(leases, ended)
            return
        if replaced:
            log.warning(
                "batch %d: the pop receipts of %d messages were replaced while it ran (by renewals,"
                " or another dequeue), so updates and deletes by its rows are refused: set"
                " visibilityTimeout to more than twice what a batch takes",
                batch,
                replaced,
            )
        ended(replaced > 0)

    def set_aside(self, message: Message) -> None:
        """Delete this message, of which a copy is in the poison queue."""
        with self.worker as ledger:
            leases = ledger.set_aside(message)
        self.worker.delete(leases)

    def wait(self, timeout_s: float) -> None:
        """Wait for the deletes that are due or under way. Raises what `LeaseWorker.wait` raises."""
        self.worker.wait(timeout_s)
        if self._removals:
            self._removals.wait(timeout_s)

    def release_batch(self, batch: int) -> None:
        """This batch will never be delivered: release its messages (best effort)."""
        self.ages.dropped(batch)
        with self.worker as ledger:
            leases = ledger.release(batch)
        self.worker.release_later(leases)

    def release_waiting(self, more: Iterable[Lease]) -> None:
        """Release what is in no batch, and these, as far as a few seconds allow. Never raises."""
        with self.worker as ledger:
            leases = [*ledger.release(WAITING), *more]
        try:
            self.worker.release(leases, LAST_WORDS, timeout_s=LAST_WORDS_S)
        except (AzQueueError, TimeoutError, RuntimeError) as error:
            log.warning(
                "not all of %d leased messages could be released (%s); they become visible"
                " again within %d s",
                len(leases),
                error,
                self.lengths.visibility_s(),
            )

    def settle_restored(
        self, leases: Sequence[Lease], blobs: Mapping[Lease, str]
    ) -> frozenset[Lease]:
        """Delete a batch of an earlier run with exactly these receipts. Returns what was deleted.

        blobs: the blob with a message's body, if it has one. Raises ServiceError if the service
        does not answer: then nothing may be dequeued yet. The next try counts what this one did.
        """
        gone = set(self._deleted)
        self.worker.delete_restored([each for each in leases if each not in gone], self._deleted)
        deleted, self._deleted = frozenset(self._deleted).intersection(leases), []
        with self.worker as ledger:
            ledger.counts.deleted += len(deleted)
        for lease in deleted:
            if lease in blobs:
                self._remove_blob(blobs[lease])
        return deleted

    def restore_pending(self, pending: Iterable[PendingDelete], hidden_until: float) -> None:
        """The rows of these were committed by an earlier run, and their deletes are pending.

        hidden_until: when the last of their leases ends.
        """
        with self.worker as ledger:
            ledger.hide_until(hidden_until)
            for each in pending:
                ledger.restore_pending(Lease(*each.key, ""), each.fingerprint, each.expires)

    def restore(
        self, received: Sequence[Received], batch: int, ahead_s: float, hidden_s: float
    ) -> None:
        """These messages are in this batch of a log: their copies give no rows.

        They are renewed when half of what is left of the segment's leases is over. ahead_s: the
        service's clock, minus ours. hidden_s: the longest that an earlier run has leased them for
        from now on.
        """
        self.ages.known(batch, (message for message, _ in received))
        now, length = self._clock(), self.lengths.visibility_s()
        served = now + ahead_s
        with self.worker as ledger:
            ledger.restore(
                (
                    (each, Term.left(now, (each[0].next_visible_time or 0) / 1e6 - served, length))
                    for each in received
                ),
                batch,
                now + hidden_s,
            )

    def close(self) -> None:
        """Close the connections to the blobs."""
        if self._removals:
            self._removals.close()

    def _remove_blob(self, name: str) -> None:
        """Delete this blob in the background: its message is deleted."""
        if self._removals:
            self._removals.begin(name)
