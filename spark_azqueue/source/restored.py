"""Batches of an earlier run whose offset holds their leases (version 1): released, or settled."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from spark_azqueue.errors import CheckpointMismatch

from .batches.commits import CommitTracker
from .engine import Engine
from .offsets import OffsetJson, QueueOffset

log = logging.getLogger(__name__)


class RestoredBatches:
    """What a new process does with such a batch when Spark asks for it, or has committed it."""

    def __init__(self, engine: Engine, commits: CommitTracker) -> None:
        self._engine = engine
        self._commits = commits
        self._account = engine.config.account.name

    def replay(self, end: OffsetJson) -> None:
        """Make the messages of a batch that a crash left unfinished available again.

        Returns only when every receipt in it is known dead, so that no later process which finds
        this offset committed can delete messages whose rows were never given out.
        """
        offset = QueueOffset.from_json(end, account=self._account)
        reads = self._engine.config.selection.includes
        names = sorted({lease.queue.name for lease in offset.leases if not reads(lease.queue)})
        if names:
            raise CheckpointMismatch(
                f"the checkpoint holds an unfinished batch with messages of {names},"
                " which option 'queue' does not name any more: add it until that batch is done"
            )
        released = self._engine.holder.release(offset.leases)
        self._commits.replayed(end)
        self._engine.builder.replayed(offset.leases)
        log.info("batch %d is replayed: %d messages released", offset.batch, released)

    def settle(self, offset: Mapping[str, Any]) -> None:
        """This batch is committed: delete its messages with exactly the receipts in the offset."""
        if self._engine.config.delete_on_commit:
            restored = QueueOffset.from_json(offset, account=self._account)
            self._engine.holder.settle_restored(restored.leases, restored.blobs)
