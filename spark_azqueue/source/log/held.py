"""What a log holds steers no request to a queue that the query does not read."""

from __future__ import annotations

from collections.abc import Iterable

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.messages import Received


def check_held(
    selection: QueueSelection, received: Iterable[Received], number: int, where: str
) -> None:
    """Messages of batch `number` are to be deleted or released: does this query read their queues?

    For each segment, before anything is sent for it: a queue may have been taken out of the
    options, and whoever can write into the folder may name any. where: the folder. Raises
    CheckpointMismatch.
    """
    names = selection.not_read(lease.queue for _, lease in received)
    if names:
        raise CheckpointMismatch(
            f"batch {number} of the write-ahead log {where} has messages of {names}, which are not"
            " deleted yet and which option 'queue' does not name any more: add it until they are"
            " (an availableNow run does it), with createQueue=true if the queue is gone",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )
