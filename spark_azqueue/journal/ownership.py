"""Is it the folder of this query? One rule for both kinds of write-ahead logs."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.messages import QueueRef, Received


def check_not_empty(where: str, number: int, *, is_empty: bool) -> None:
    """May a query use this folder whose checkpoint is at batch `number` of its log?

    Raises CheckpointMismatch if it is a new one, or emptied.
    """
    if is_empty:
        raise CheckpointMismatch(
            f"the write-ahead log {where} is empty, and the checkpoint is at batch {number}: is it"
            " mounted, and the right folder? Restore it, or start with a new folder, a new"
            " checkpointLocation and a new output",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )


def check_queues(selection: QueueSelection, queues: Collection[QueueRef], where: str) -> None:
    """Does the query read any of these queues, from which its newest batch was made?

    where: the folder. Raises CheckpointMismatch.
    """
    if queues and not any(map(selection.includes, queues)):
        names = sorted(queue.name for queue in queues)
        raise CheckpointMismatch(
            f"the write-ahead log {where} was written from the queues {names}, and"
            " option 'queue' names none of them: is it the folder of another query?",
            condition=Condition.LOG_CHECKPOINT_MISMATCH,
        )


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
