"""Does a checkpoint fit a write-ahead log? What is refused, and the sentences that say so.

Once for both kinds of write-ahead logs and their readers. The folder of another account or kind is
refused in `identity.py`, a second writer in `claim.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import AzQueueError, CheckpointMismatch, LostSegment
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.messages import QueueRef, Received

log = logging.getLogger(__name__)


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
    options, and anyone who can write into the folder may name any. where: the folder. Raises
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


def tell_loss(error: AzQueueError, *, lose: bool) -> None:
    """Raise this error; with `lose` (failOnDataLoss=false) warn of it, and continue."""
    if not lose:
        raise error
    log.warning("%s", error)


def behind(where: str, newest: int, asked: int) -> CheckpointMismatch:
    """The error for a log that ends before the batch at which the checkpoint is."""
    return CheckpointMismatch(
        f"the write-ahead log {where} is behind the checkpoint: it ends with batch {newest}, and"
        f" the checkpoint is at {asked}. Restore the log, or start with a new folder, a new"
        " checkpointLocation and a new output",
        condition=Condition.LOG_CHECKPOINT_MISMATCH,
    )


def removed(where: str, asked: int, floor: int) -> LostSegment:
    """The error for a checkpoint that is at a batch below those that the log keeps."""
    return LostSegment(
        f"the checkpoint is at batch {asked}, but the write-ahead log {where} holds batches from"
        f" {floor + 1} on: batches {asked + 1} to {floor} were removed (see"
        " writeAheadLogRetention). Go back no further, or set failOnDataLoss=false to go on"
        " without them"
    )


def unknown(where: str, newest: int, asked: int = 0, more: str = "") -> CheckpointMismatch:
    """The error for a checkpoint that does not know a log that was used. more: ends the text."""
    return CheckpointMismatch(
        f"the write-ahead log {where} has delivered batches up to {newest}, but the checkpoint does"
        f" not know it (it is at {asked}): it is the log of another query, or the checkpoint was"
        " lost. Name another folder, or restore the checkpoint; or take a new output, and set"
        " writeAheadLogStart=afterCommitted, or earliest to get all batches again that the log"
        f" holds{more}",
        condition=Condition.LOG_CHECKPOINT_MISMATCH,
    )


def of_another(where: str, more: str = "") -> CheckpointMismatch:
    """The error for a checkpoint that names another log. more: a sentence that ends it."""
    return CheckpointMismatch(
        f"the checkpoint belongs to another write-ahead log than {where}: name its folder, or start"
        f" with a new checkpointLocation and a new output{more}",
        condition=Condition.LOG_CHECKPOINT_MISMATCH,
    )
