"""The leases of a consumer, from the dequeue of a message to its delete or release.

`ledger.py` decides which requests are needed, and `worker.py` sends these requests. Two threads
call this module: the query's thread and the prefetch's thread.
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
"""Maximum number of blob deletes in flight at once."""


def removals_for(claim_check: ClaimCheck, make_workers: MakeWorkers) -> Removals | None:
    """Return the object that deletes the blobs of large bodies, or None if blobs must be kept."""
    if not claim_check.delete:
        return None
    store = BlobStore(claim_check.account, claim_check.container)
    return Removals(store, make_workers(_BLOB_DELETES, "blobs"))


class LeaseHolder:
    """All messages that this consumer has leased, from dequeue to delete or release."""

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        make_workers: MakeWorkers,
        clock: Callable[[], float],
    ) -> None:
        """Store the arguments; nothing is sent."""
        self._deletes = config.delete_on_commit
        self._deleted: list[Lease] = []  # of a restored batch, while other deletes are retried
        self._clock = clock
        self._since: dict[int, float] = {}  # by batch: when its first message was leased
        self.ages = MessageAges(clock)
        self._removals: Removals | None = None
        if config.claim_check:
            self._removals = removals_for(config.claim_check, make_workers)
        start_s = START_S if self._deletes else START_BY_USER_S
        self.lengths = LeaseLengths(config.visibility_timeout, start_s)
        """Chooses the lengths of leases and renewals."""
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
        """Thread that renews, deletes and releases. The thread owns the lock of the ledger."""

    @property
    def locked_ledger(self) -> AbstractContextManager[Ledger]:
        """The ledger, locked for the length of a `with` block.

        Call only the ledger inside the block.

        The lock is not reentrant: a call of the worker inside the block would deadlock.
        """
        return self.worker

    def dequeued(self, message: Message, lease: Lease, term: Term) -> bool:
        """Record a message that a dequeue returned.

        Return True if the message is new, so that it gets a row.

        If the message belongs to a committed batch, the message is deleted in the background.
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
        """Deliver these messages as a batch. Return their newest leases.

        since: time at which the batch's first message was leased. blobs: name of the blob with the
        body, for each message that has such a blob.
        """
        self._since[batch] = since
        self.ages.delivered(batch, (message for message, _ in received))
        with self.worker as ledger:
            return tuple(ledger.hand_out(received, batch, blobs))

    def keep_witness(self, leases: Sequence[Lease]) -> Mapping[Lease, int]:
        """Keep one receipt in a batch's offset valid.

        Return the fingerprints of the messages' texts.

        If the next process can delete a message with a receipt from the offset, the batch was never
        replayed. So all rows of the batch were delivered (docs/decisions/0034).
        """
        with self.worker as ledger:
            ledger.keep_witness(leases)
            return ledger.texts(leases)

    def committed(self, batch: int) -> None:
        """Record that a batch is committed. Begin its deletes, unless deleteOnCommit=false."""
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
        """Delete a message whose copy is in the poison queue."""
        with self.worker as ledger:
            leases = ledger.set_aside(message)
        self.worker.delete(leases)

    def wait(self, timeout_s: float) -> None:
        """Wait for the deletes that are due or in flight.

        Raises the same errors as `LeaseWorker.wait`.
        """
        self.worker.wait(timeout_s)
        if self._removals:
            self._removals.wait(timeout_s)

    def release_batch(self, batch: int) -> None:
        """Release the messages of a batch that will never be delivered (best effort)."""
        self.ages.dropped(batch)
        with self.worker as ledger:
            leases = ledger.release(batch)
        self.worker.release_later(leases)

    def release_waiting(self, more: Iterable[Lease]) -> None:
        """Release `more` and all messages that are in no batch, within seconds. Never raises."""
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
        """Delete the messages of an earlier run's batch by these receipts alone.

        Returns the deleted leases.

        blobs: name of the blob with the body, for each message that has such a blob.

        Raises ServiceError if the service does not answer. The caller must then call this method
        again before dequeuing. The leases that the next call returns include the messages that the
        failed call deleted.
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
        """Restore the pending deletes of messages whose rows an earlier run committed.

        hidden_until: time at which the last lease of these messages ends.
        """
        with self.worker as ledger:
            ledger.hide_until(hidden_until)
            for each in pending:
                ledger.restore_pending(Lease(*each.key, ""), each.fingerprint, each.expires)

    def restore(
        self, received: Sequence[Received], batch: int, ahead_s: float, hidden_s: float
    ) -> None:
        """Restore the messages of a logged batch.

        If such a message is dequeued again, no row is made.

        Each lease is renewed after half of the lease's remaining time.

        ahead_s: the service's time minus the local time. hidden_s: the longest time, from now, that
        a lease of an earlier run can last.
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
        """Close the connections to the blob store."""
        if self._removals:
            self._removals.close()

    def _remove_blob(self, name: str) -> None:
        """In the background, delete the blob of a deleted message."""
        if self._removals:
            self._removals.begin(name)
