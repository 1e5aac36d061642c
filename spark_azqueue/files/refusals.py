"""Functions that make the errors of a file log. `where`: folder of the log."""

from __future__ import annotations

from spark_azqueue.errors import LogConflict


def files_not_trusted(where: str, batch: int, place: str) -> LogConflict:
    """Make the error for a list with files of a container that `trusted` no longer names."""
    return LogConflict(
        f"the list of batch {batch} in the file log {where} has files of"
        f" {place}, which 'trusted' no longer names: name it until the"
        " batch is done"
    )


def older_batch(where: str, newest: int, batch: int) -> LogConflict:
    """Make the error for a batch that is older than the newest list."""
    return LogConflict(
        f"the file log {where} has lists up to batch {newest}, and the query is"
        f" at batch {batch}: its checkpoint is another one, or was rolled back. Use the"
        " checkpoint that belongs to this log, or take a new log, checkpoint and output"
    )


def log_of_another_query(where: str, of: str | None, query: str) -> LogConflict:
    """Make the error for a log that belongs to another query. of: id of this other query."""
    return LogConflict(
        f"the file log {where} is of the query with the id {of}, and this one"
        f" has the id {query}: the log belongs to another checkpoint, and each query has a"
        " log of its own. Take a new log, checkpoint and output; the events are still in"
        " the queue"
    )


def written_by_another(where: str, batch: int) -> LogConflict:
    """Make the error for a list that another query wrote."""
    return LogConflict(
        f"another query wrote the list of batch {batch} into the file log {where}, while"
        " this one ran: end one of the two, then start the other again"
    )


def new_log_of_used_checkpoint(where: str) -> LogConflict:
    """Make the error for a log without lists, although the checkpoint has batches."""
    return LogConflict(
        f"the file log {where} is new, but the checkpoint has batches already, so"
        " what they read is not known: restore the log, or name the one that belongs"
        " to this checkpoint, or take a new log, checkpoint and output"
    )


def other_overwrites(where: str, allowed: bool) -> LogConflict:
    """Make the error for a log that began with the other value of `allow_overwrites`."""
    return LogConflict(
        f"the file log {where} began with allow_overwrites={allowed},"
        " and remembers files in that way: set it so, or take a new log, checkpoint and"
        " output"
    )


def files_not_listed(where: str, batch: int, count: int, example: str) -> LogConflict:
    """Make the error for a repeated batch with files that are not in the batch's list. example:
    path of such a file.
    """
    return LogConflict(
        f"the list of batch {batch} in the file log {where} does not have {count:,}"
        f" files that the batch has events of, such as {example!r}. If trusted or"
        " path_glob_filter was changed, set it back until this batch is done; else the"
        " checkpoint was rolled back: take a new log, checkpoint and output. The events are"
        " still in the queue"
    )
