"""Errors for a checkpoint that does not match its write-ahead log, and for missing segments.

The errors are raised by queries that lease on the driver or on executors, and by readers of a log.
Errors for the folder of any kind of log are in `journal/refusals.py`. Functions whose name begins
with `check_` raise the error; the other functions return the error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial

from spark_azqueue.errors import (
    CheckpointMismatch,
    InvalidOption,
    LateSegment,
    LogConflict,
    LogDamaged,
    LostSegment,
    UndecodableBody,
)
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.messages import QueueRef, Received

_mismatch = partial(CheckpointMismatch, condition=Condition.LOG_CHECKPOINT_MISMATCH)
_invalid_option = partial(InvalidOption, condition=Condition.INVALID_LOG_OPTION)

_WRAPPER = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
"""Name of a setting of Spark. If the setting is true on Spark 4.0 or 4.1, Spark requests messages
before it passes the checkpoint's offset."""


def check_not_empty(where: str, number: int, *, is_empty: bool) -> None:
    """Raise CheckpointMismatch if the folder is empty, because the checkpoint is at batch
    `number`."""
    if is_empty:
        raise _mismatch(
            f"the write-ahead log {where} is empty, and the checkpoint is at batch {number}: is it"
            " mounted, and the right folder? Restore it, or start with a new folder, a new"
            " checkpointLocation and a new output"
        )


def check_queues_of_log(
    selection: QueueSelection, queues: Collection[QueueRef], where: str
) -> None:
    """Raise CheckpointMismatch if the query reads none of the queues of the log's newest batch.

    where: the folder.
    """
    if queues and not any(map(selection.includes, queues)):
        names = sorted(queue.name for queue in queues)
        raise _mismatch(
            f"the write-ahead log {where} was written from the queues {names}, and"
            " option 'queue' names none of them: is it the folder of another query?"
        )


def check_held(
    selection: QueueSelection, received: Iterable[Received], number: int, where: str
) -> None:
    """Raise CheckpointMismatch if batch `number` has messages of queues that are not read.

    The source calls this function for each segment, before it deletes or releases the segment's
    messages. A queue may have been removed from the options, and a program with write access to the
    folder can write any queue's name there.

    where: the log's folder.
    """
    names = selection.not_read(lease.queue for _, lease in received)
    if names:
        raise _mismatch(
            f"batch {number} of the write-ahead log {where} has messages of {names}, which are not"
            " deleted yet and which option 'queue' does not name any more: add it until they are"
            " (an availableNow run does it), with createQueue=true if the queue is gone"
        )


# ── the checkpoint and the log do not fit ─────────────────────────────────────────────────────────


def behind(where: str, newest: int, asked: int, *, is_read: bool = False) -> CheckpointMismatch:
    """Return the error for a log that ends before the checkpoint's batch.

    newest: the log's newest batch. is_read: True for a reader of the log, where `newest` is the
    newest committed batch.
    """
    committed = f"it knows batches up to {newest} as committed"
    ends = committed if is_read else f"it ends with batch {newest}"
    return _mismatch(
        f"the write-ahead log {where} is behind the checkpoint: {ends},"
        f" and the checkpoint is at {asked}. Restore the log, or start with a new folder, a new"
        " checkpointLocation and a new output"
    )


def new_or_wrapper(error: CheckpointMismatch) -> CheckpointMismatch:
    """Return the error for a checkpoint on Spark 4.0 and 4.1 that seems new, but may be in use."""
    text = f"{error.sentence}. Or is {_WRAPPER} true? Set it to false"
    return CheckpointMismatch(text, condition=error.condition)


def refused_wrapper(batch: int) -> InvalidOption:
    """Return the error for a query on which Spark requests messages before it passes the
    checkpoint's offset.

    batch: number of the checkpoint's batch.
    """
    return InvalidOption(
        f"{_WRAPPER} is true: Spark asked for messages before it said that the checkpoint is at"
        f" batch {batch}. Set it to false"
    )


def unknown(where: str, newest: int, asked: int = 0) -> CheckpointMismatch:
    """Return the error for a log that has batches, with a checkpoint that was not made with this
    log."""
    return _mismatch(
        f"the write-ahead log {where} has delivered batches up to {newest}, but the checkpoint does"
        f" not know it (it is at {asked}): it is the log of another query, or the checkpoint was"
        " lost. Name another folder, or restore the checkpoint; or take a new output, and set"
        " writeAheadLogStart=afterCommitted, or earliest to get all batches again that the log"
        " holds"
    )


def of_another(where: str, more: str = "") -> CheckpointMismatch:
    """Return the error for a checkpoint of a different log. more: end of the error's text."""
    return _mismatch(
        f"the checkpoint belongs to another write-ahead log than {where}: name its folder, or start"
        f" with a new checkpointLocation and a new output{more}"
    )


def not_following(where: str, start: int, end: int, follows: int) -> CheckpointMismatch:
    """Return the error if the batch that Spark requests does not begin at the log's next batch,
    `follows`."""
    return _mismatch(
        f"Spark asks for the rows behind batch {start} up to batch {end}, and in"
        f" the write-ahead log {where} batch {follows} follows: was the"
        " checkpoint changed, or restored without the log? Restore what belongs together, or"
        " start with a new folder, a new checkpointLocation and a new output"
    )


def overlapping(where: str, first: int, last: int, before: int) -> CheckpointMismatch:
    """Return a log reader's error if Spark requests batches a second time. before: last delivered
    batch."""
    return _mismatch(
        f"Spark asks for the batches {first} to {last} of the"
        f" write-ahead log {where} behind batch {before}: was the"
        " checkpoint changed? Restore it, or start with a new one and a new output"
    )


def begun_again_behind(where: str, start: int, end: int) -> CheckpointMismatch:
    """Return the error if writeAheadLogStart=earliest is still set after the first start."""
    return _mismatch(
        f"the checkpoint is at batch {start} of the write-ahead log"
        f" {where}, and writeAheadLogStart=earliest began again at batch"
        f" {end}: remove that option, which is for the first start only, and the"
        " newest file in the checkpoint's folder 'offsets'"
    )


def empty_on_executor(where: str) -> CheckpointMismatch:
    """Return the error for a folder that is empty on an executor, but not on the driver."""
    return _mismatch(
        f"{where} is empty here, and the driver writes its log there: with"
        " leaseOn=executors every executor needs the same folder. Mount it on each of them"
        " at this path, or use writeAheadLog=blob:<container>/<folder>"
    )


def queue_of_dead_letter(message_id: str, queue: str) -> CheckpointMismatch:
    """Return the error for a logged message that must be dead-lettered, but whose queue is not
    read."""
    return _mismatch(
        f"message {message_id} in the write-ahead log is to be dead-lettered, and"
        f" option 'queue' does not name its queue '{queue}' any more: add it until"
        " its batch is over"
    )


def queues_of_unfinished(names: Collection[str]) -> CheckpointMismatch:
    """Return the error for an unfinished batch that has messages of queues that are not read."""
    return CheckpointMismatch(
        f"the checkpoint holds an unfinished batch with messages of {names},"
        " which option 'queue' does not name any more: add it until that batch is done"
    )


# ── the offset is not one of this query ───────────────────────────────────────────────────────────


def skipped_batch(number: int, *, is_in_queue: bool) -> CheckpointMismatch:
    """Return the error for a batch that was committed, although its rows were never requested.

    is_in_queue: True if the batch's messages are in the queue, False if only a log has them.
    """
    where = "Its messages are in the queue"
    if not is_in_queue:
        where = (
            "The write-ahead log alone has its rows: read them with readLog, or put them into the"
            " queue again by the command `replay`"
        )
    return CheckpointMismatch(
        f"the engine committed batch {number} and did not ask for its rows. Either the sink"
        " skipped the batch, because the output has that number from an earlier checkpoint: start"
        " with a new checkpoint and a new output (and a new log) together. Or the query needs no"
        f" rows of this source, such as with limit(0): change it. {where}",
        condition=Condition.BATCH_SKIPPED,
    )


def offset_with_log() -> CheckpointMismatch:
    """Return the error for an offset of a query with a log, if `writeAheadLog` is not set."""
    return _mismatch(
        "the checkpoint was written with a write-ahead log, and option 'writeAheadLog' is not"
        " set: set it as before. To continue without it, read the queue empty with the log and"
        " trigger(availableNow=True), then start with a new checkpointLocation and a new"
        " output"
    )


def offset_of_executors() -> CheckpointMismatch:
    """Return the error for an offset of leaseOn=executors, if leaseOn=driver is set."""
    return _mismatch(
        "the checkpoint was written with leaseOn=executors: set it as before, with the same"
        " writeAheadLog. To change over, read the queues empty with"
        " trigger(availableNow=True), then start with a new checkpointLocation"
    )


def offset_of_driver() -> CheckpointMismatch:
    """Return the error for an offset of leaseOn=driver, if leaseOn=executors is set."""
    return _mismatch(
        "the checkpoint was written with leaseOn=driver, and leaseOn=executors is set:"
        " remove it. To change over, read the queues empty with trigger(availableNow=True)"
        " as before, then start with a new checkpointLocation and a new folder of the"
        " write-ahead log"
    )


def offset_of_reader() -> CheckpointMismatch:
    """Return the error for an offset of a log reader, if the query reads a queue."""
    return _mismatch(
        "the checkpoint belongs to a query that reads a write-ahead log (readLog), and this one"
        " reads a queue: start with a new checkpointLocation, or set 'readLog' again"
    )


def offset_of_no_reader() -> CheckpointMismatch:
    """Return a log reader's error for an offset that is damaged, or is not from a log reader."""
    return _mismatch(
        "the checkpoint is not one of a stream that reads a write-ahead log (readLog), or it is"
        " damaged: restore it, or start with a new checkpointLocation"
    )


def offset_of_newer_release(version: int | str, newest: int) -> CheckpointMismatch:
    """Return the error for an offset of an unknown version.

    newest: newest version that is known.
    """
    return CheckpointMismatch(
        f"the checkpoint was written by a newer spark-azqueue (offset version {version};"
        f" this one reads up to {newest}): upgrade spark-azqueue, or start with a new"
        " checkpointLocation (messages not yet deleted will come again)"
    )


def offset_of_another_account(shown: str, account: str) -> CheckpointMismatch:
    """Return the error for an offset of another account. account: the account in the options."""
    return CheckpointMismatch(
        f"the checkpoint belongs to the storage account '{shown}', but the options name"
        f" '{account}': use that account, or another checkpointLocation"
    )


def unreadable_offset(error: Exception) -> CheckpointMismatch:
    """Return the error for a damaged offset. error: its text names the damaged part."""
    return CheckpointMismatch(
        f"the checkpoint holds an offset that spark-azqueue cannot read, or did not write:"
        f" {error}. Restore the checkpoint, or start with a new checkpointLocation (messages"
        " not yet deleted will come again)"
    )


# ── a batch is not there ──────────────────────────────────────────────────────────────────────────


def removed(where: str, first: int, last: int, floor: int) -> LostSegment:
    """Return the error for batches that were removed from a log because of their age.

    floor: last removed batch.
    """
    return LostSegment(
        f"batches {first} to {last} were removed from the write-ahead log {where}, which"
        f" holds batches from {floor + 1} on (see writeAheadLogRetention of the query that"
        " writes it): begin later, or set failOnDataLoss=false to continue without them"
    )


def rolled_back_too_far(where: str, asked: int, floor: int) -> LostSegment:
    """Return the error for a checkpoint at a batch that was removed from the log.

    floor: last removed batch.
    """
    return LostSegment(
        f"the checkpoint is at batch {asked}, but the write-ahead log {where} holds batches from"
        f" {floor + 1} on: batches {asked + 1} to {floor} were removed (see"
        " writeAheadLogRetention). Go back no further, or set failOnDataLoss=false to continue"
        " without them"
    )


def removed_following(where: str, number: int) -> LostSegment:
    """Return the error if the batches after the checkpoint's batch `number` were removed."""
    return LostSegment(
        f"the checkpoint is at batch {number}, and the write-ahead log"
        f" {where} no longer has the batch that followed: was the checkpoint"
        " rolled back further than writeAheadLogRetention, or has another query with a copy of"
        " it continued? Restore a newer checkpoint, or set failOnDataLoss=false to continue without"
        " the rows of these batches"
    )


def removed_under_task(where: str, number: int) -> LostSegment:
    """Return the error for a batch that was removed while one of its tasks ran."""
    return LostSegment(
        f"batch {number} of the write-ahead log {where} was removed"
        " while this task was at work, which happens to tasks of a batch that ended long"
        " ago: nothing was deleted"
    )


def removed_under_reader(where: str, number: int) -> LostSegment:
    """Return the error for a batch that was removed while it was read."""
    return LostSegment(
        f"batch {number} was removed from the write-ahead log {where} while it was read, since"
        " writeAheadLogRetention of the query that writes it was over: begin later, or set"
        " failOnDataLoss=false to read without its rows"
    )


def stored_later(where: str, first: int, oldest: str) -> LostSegment:
    """Return the error if `startingAt` is before the log's first batch, and batches were
    removed."""
    return LostSegment(
        f"the write-ahead log {where} begins with batch {first}, which was"
        f" stored at {oldest}: batches that were stored between startingAt and"
        " then may have been removed (see writeAheadLogRetention). Begin later, or set"
        " failOnDataLoss=false to read what is there"
    )


def lost_batch(where: str, number: int) -> LostSegment:
    """Return a log reader's error for a missing batch that the writer did not remove."""
    return LostSegment(
        f"batch {number} is missing in the write-ahead log {where}, or a part of it, and its writer"
        " has not removed it: restore it (did a lifecycle rule delete it?), or set"
        " failOnDataLoss=false to read without its rows"
    )


def lost_segment(where: str, number: int) -> LostSegment:
    """Return the error for a missing segment whose rows the query needs."""
    return LostSegment(
        f"segment {number} of the write-ahead log {where} does not exist: restore"
        " it (did a lifecycle rule delete it?), or set failOnDataLoss=false to continue without"
        " its rows"
    )


def gap_in_segments(where: str, missing: int, first: int, last: int) -> LostSegment:
    """Return the error for a segment that is missing when a query starts. first, last: expected
    segments."""
    return LostSegment(
        f"segment {missing} is missing in the write-ahead log {where}, though segments"
        f" {first} to {last} should be there: restore it, or start with a new"
        " folder, a new checkpointLocation and a new output. failOnDataLoss=false continues"
        " without its rows"
    )


def number_far_above(where: str, missing: int, number: int) -> LogDamaged:
    """Return the error for an object of a log, if its number is far above all other numbers."""
    return LogDamaged(
        f"segment {missing} is missing in the write-ahead log {where}, and an"
        f" object of it names number {number}, which is far above all others: no query"
        " numbered it so. Remove that object, if it is not one of a log that was restored"
        " in part"
    )


def late_segment(where: str, number: int) -> LateSegment:
    """Return the error for a segment that an earlier process put under the next segment's
    number."""
    return LateSegment(
        f"segment {number} of the write-ahead log {where} has just appeared, and no"
        " other process claims the log: an ended one had sent it, and got no answer. Start"
        " the query again: that batch is delivered then, and nothing is lost"
    )


def lost_slot(where: str, slot: int, number: int) -> LostSegment:
    """Return a task's error for a missing slot of an ended batch."""
    return LostSegment(
        f"slot {slot} of batch {number} is no longer in the write-ahead log"
        f" {where}: restore it (did a lifecycle rule delete it, or was the"
        " checkpoint rolled back further than writeAheadLogRetention?), or set"
        " failOnDataLoss=false to continue without its rows"
    )


def lost_slot_to_split(where: str, slot: int, number: int, again: int) -> LostSegment:
    """Return a task's error for a missing slot of an abandoned batch.

    again: number of the batch that delivers the messages again.
    """
    return LostSegment(
        f"slot {slot} of batch {number} is no longer in the write-ahead log"
        f" {where}, and its messages come again in batch {again}: restore it, or"
        " set failOnDataLoss=false to continue without its rows"
    )


def lost_following(where: str, number: int) -> LostSegment:
    """Return the error for a log that lacks the plan after batch `number`."""
    return LostSegment(
        f"the write-ahead log {where} does not say what followed batch"
        f" {number}: restore it, or start with a new folder"
    )


def abandoned(where: str, number: int, tries: int, messages: int) -> str:
    """Return the text of the warning that a batch failed too often and is abandoned."""
    often = "once" if tries == 1 else f"{tries} times"
    come = "its message comes" if messages == 1 else f"its {messages} messages come"
    return (
        f"batch {number} of the write-ahead log {where} failed {often} and is abandoned: it has no"
        f" rows, and {come} again in other batches (at least once)"
    )


def undecodable_in_batch(number: int, text: str, logged_with: str) -> UndecodableBody:
    """Return the error for an undecodable body in a log. text: names the message and the reason.

    logged_with: the options with which the batch was logged.
    """
    return UndecodableBody(
        f"batch {number} of the log: {text}. It was logged with {logged_with or '?'}",
        condition=Condition.UNDECODABLE_BODY_IN_LOG,
    )


# ── a log cannot be read with these options ───────────────────────────────────────────────────────


def no_log_there(where: str, identity: str) -> InvalidOption:
    """Return the error for a folder without a log. identity: name of the missing object."""
    return _invalid_option(
        f"there is no write-ahead log in {where} (no '{identity}'): 'readLog' takes what"
        " the writing query has for 'writeAheadLog'. A query makes it at its first start"
    )


def log_without_messages(where: str, words: str) -> LogConflict:
    """Return the error for a log of a different kind. words: name of the log's kind."""
    return LogConflict(
        f"{where} is the folder of a {words}, which holds no messages to read:"
        " 'readLog' takes what a query that reads queues has for 'writeAheadLog'"
    )


def not_committed_yet(where: str, option: str, number: int, committed: int) -> InvalidOption:
    """Return the error for an option that names a batch after the newest committed batch."""
    return _invalid_option(
        f"option '{option}' is {number}, and the newest batch that the write-ahead log"
        f" {where} knows as committed is {committed}: name an earlier one, or"
        " wait (a year alone is a number: write its first day). A running query says so one or"
        " two batches later, an idle one within a minute"
    )


def end_of_stream(option: str) -> InvalidOption:
    """Return the error for an option that sets the end of a stream."""
    return _invalid_option(
        f"option '{option}' is for spark.read with 'readLog', and a stream has no end: remove"
        " it, or read with spark.read"
    )
