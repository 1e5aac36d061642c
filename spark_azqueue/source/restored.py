"""Batches of an earlier run whose offset holds their leases (version 1): released, or settled."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from spark_azqueue.errors import CheckpointMismatch

from .batches.commits import CommitTracker
from .engine import DriverLeasing
from .offsets import OffsetJson, QueueOffset

log = logging.getLogger(__name__)


class RestoredBatches:
    """What a new process does with such a batch when Spark asks for it, or has committed it."""

    def __init__(self, engine: DriverLeasing, commits: CommitTracker) -> None:
        self._engine = engine
        self._commits = commits
        self._account = engine.config.account.name

    def replay(self, end: OffsetJson) -> None:
        """Make the messages of a batch that a crash left unfinished available again.

        Returns only when every receipt in it is known dead, so that no later process which finds
        this offset committed can delete messages whose rows were never handed out.
        """
        offset = QueueOffset.from_json(end, account=self._account)
        names = self._engine.config.selection.not_read(each.queue for each in offset.leases)
        if names:
            raise CheckpointMismatch(
                f"the checkpoint holds an unfinished batch with messages of {names},"
                " which option 'queue' does not name any more: add it until that batch is done"
            )
        released = self._engine.holder.worker.release(offset.leases)
        self._commits.replayed(end)
        self._engine.replayed(offset.leases, offset.leased_s)
        log.info("batch %d is replayed: %d messages released", offset.batch, released)

    def settle(self, offset: Mapping[str, Any]) -> None:
        """This batch is committed: delete its messages with exactly the receipts in the offset.

        Not if it was handed out with deleteOnCommit=false: then they are the user's. And not in a
        queue that this query does not read: what a checkpoint says steers no request elsewhere.
        """
        restored = QueueOffset.from_json(offset, account=self._account)
        if not (self._engine.config.delete_on_commit and restored.is_deleted_on_commit):
            return
        names = self._engine.config.selection.not_read(each.queue for each in restored.leases)
        if names:
            log.warning(
                "the last batch of the checkpoint has messages of %s, which option 'queue' does not"
                " name any more: what is left of them there is not deleted. Does this checkpoint"
                " belong to another query?",
                names,
            )
        leases = [lease for lease in restored.leases if lease.queue.name not in names]
        self._engine.holder.settle_restored(leases, restored.blobs)
