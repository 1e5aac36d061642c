"""Is it the folder of this query? One rule for both kinds of write-ahead logs."""

from __future__ import annotations

from collections.abc import Collection

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.messages import QueueRef


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
