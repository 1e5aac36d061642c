"""The leases of a consumer, from the dequeue of a message to the message's delete or release.

`ledger.py` decides which requests are needed, and `worker.py` sends these requests. Two threads
call this module: Spark's thread, and the thread that reads the next batch in advance.
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
    """All messages that this consumer holds. A message is held from its dequeue to its delete or
    release.
    """

    def __init__(
        self,
        config: SourceConfig,
        client: QueueClient,
        make_workers: MakeWorkers,
        clock: Callable[[], float],
    ) -> None:
        """Store the arguments; nothing is sent."""
        self._deletes = config.delete_on_commit
        self._deleted: list[
            Lease
        ] = []  # deleted leases of a restored batch whose other deletes are retried
        self._clock = clock
        self._since: dict[int, float] = {}  # by batch: time at which its first message was leased
        self.ages = MessageAges(clock)
        self._removals: Removals | None = None
        if config.claim_check:
            self._removals = removals_for(config.claim_check, make_workers)
        start_s = START_S if self._deletes else START_BY_USER_S
        self.lengths = LeaseLengths(config.visibility_timeout, start_s)
        """Chooses how long leases and renewals are."""
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
        """The ledger, locked during a `with` block.

        Inside the block, call only methods of the ledger.

        The lock is not reentrant: a call of the worker inside the block would deadlock.
        """
        return self.worker

    def dequeued(self, message: Message, lease: Lease, term: Term) -> bool:
        """Record a message that a dequeue returned.

        Return True if the message is new, so that it gets a row.

        If a committed batch already has the message, the message is deleted in the background.
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

        since: time at which the first message of the batch was leased. blobs: for each message
        whose body is in a blob, the name of the blob.
        """
        self._since[batch] = since
        self.ages.delivered(batch, (message for message, _ in received))
        with self.worker as ledger:
            return tuple(ledger.hand_out(received, batch, blobs))

    def keep_witness(self, leases: Sequence[Lease]) -> Mapping[Lease, int]:
        """Keep the receipt of one of these leases valid. The leases will be in the offset of a
        batch.

        Return the fingerprint of each message's text.

        If the next process can delete a message with a receipt from the offset, no process has
        replayed the batch. This proves that all rows of the batch were delivered
        (docs/decisions/0034).
        """
        with self.worker as ledger:
            ledger.keep_witness(leases)
            return ledger.texts(leases)

    def committed(self, batch: int) -> None:
        """Record that a batch is committed. Begin to delete its messages, unless
        deleteOnCommit=false.
        """
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
        """Wait until no delete is due or in flight.

        Raises the same errors as `LeaseWorker.wait`.
        """
        self.worker.wait(timeout_s)
        if self._removals:
            self._removals.wait(timeout_s)

    def release_batch(self, batch: int) -> None:
        """Release the messages of a batch that will never be delivered. Failures are ignored."""
        self.ages.dropped(batch)
        with self.worker as ledger:
            leases = ledger.release(batch)
        self.worker.release_later(leases)

    def release_waiting(self, more: Iterable[Lease]) -> None:
        """Release `more`, and all messages that are in no batch. Takes a few seconds at most. Never
        raises.
        """
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
        """Delete the messages of a batch of an earlier run, using only these receipts.

        Returns the leases of the deleted messages.

        blobs: for each message whose body is in a blob, the name of the blob.

        Raises ServiceError if the service does not answer. After this error, the caller must repeat
        the call before any dequeue. The repeated call also returns the leases that the failed call
        deleted.
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

        hidden_until: latest time at which a lease of these messages may end.
        """
        with self.worker as ledger:
            ledger.hide_until(hidden_until)
            for each in pending:
                ledger.restore_pending(Lease(*each.key, ""), each.fingerprint, each.expires)

    def restore(
        self, received: Sequence[Received], batch: int, ahead_s: float, hidden_s: float
    ) -> None:
        """Restore the messages of a batch from the log.

        If such a message is dequeued again, it gets no second row.

        Each lease is renewed after half of the lease's remaining time.

        ahead_s: the service's time minus the local time. hidden_s: maximum number of seconds, from
        now, until every lease of an earlier run has ended.
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
        """Delete the blob of a deleted message in the background."""
        if self._removals:
            self._removals.begin(name)
