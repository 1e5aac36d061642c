"""The list of a batch: the one that the log has, or else one made of its events."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from spark_azqueue.errors import LogConflict

from .decide import Announced, Looks, candidates, choose, listed_by, looked_at, unseen
from .log import FileLog
from .memory import File
from .record import FileList
from .rules import Rules, trouble_with

Look = Callable[[Sequence[File]], Looks]


class Means(NamedTuple):
    """What is asked and done outside of the log when a list is made.

    etags: says which version of each file is there, None if that does not matter. look: says what
    is at the path of each file. most: files of a list. put_back: gets the events of more, and puts
    each into the queue as a message of its own.
    """

    etags: Callable[[Sequence[File]], Mapping[tuple[str, str], str] | None]
    look: Look
    most: int
    put_back: Callable[[Sequence[Announced]], None]


def list_of(
    log: FileLog,
    rules: Rules,
    batch: int,
    events: Sequence[Announced],
    means: Means,
    now: float,
) -> FileList | None:
    """The list of this batch, which the log has now; None if there is nothing in it.

    now: seconds since 1970. Raises what the means raise; LogConflict for a log of another
    checkpoint or query; ServiceError.
    """
    log.check_number(batch)
    listed = listed_by(log.sender)
    found = candidates(unseen(events, log.memory, listed), rules)
    if batch == log.newest:
        record = log.record(batch)
        _check_same(log, rules, batch, found, record)
        return record
    if not rules.allow_overwrites:
        found = [file for file in found if not log.memory.knows(file)]
    # A path that nobody can read is never put back, nor written as one that was left out.
    sound = [file for file in found if not trouble_with(file.path)]
    troubled = [file for file in found if trouble_with(file.path)]
    sound, rest = sound[: means.most], sound[means.most :]
    chosen = choose([*sound, *troubled], log.memory, means.etags(sound) if sound else None)
    if chosen.files:
        chosen = looked_at(chosen, means.look(chosen.files))
    if rest:  # behind what fails while a storage is down, so not again at each start
        later = {(file.place, file.path) for file in rest}
        means.put_back([event for event in events if (event.place, event.path) in later])
    chosen = chosen._replace(left_out=(*chosen.left_out, *rest))
    if not (chosen.files or chosen.aside):
        return None
    own = {(event.place, event.path) for event in events if event.api == listed}
    named = [*chosen.files, *(each.file for each in chosen.aside)]
    return log.put(FileList(batch, -1, now, *chosen, log.memory.oldest_of(named, own, now)))


def _check_same(
    log: FileLog, rules: Rules, batch: int, found: Sequence[File], record: FileList | None
) -> None:
    """Raise LogConflict if a batch that comes again has events of files that no list knows.

    With `allow_overwrites` this cannot be told: the list may have another version than the event.
    """
    left_out = {(file.place, file.path) for file in record.left_out} if record else set()
    known = [file for file in found if (file.place, file.path) not in left_out]
    new = () if rules.allow_overwrites else choose(known, log.memory).files
    if new:
        raise LogConflict(
            f"the list of batch {batch} in the file log {log.where} does not have {len(new):,}"
            f" files that the batch has events of, such as {new[0].path!r}. If trusted or"
            " path_glob_filter was changed, set it back until this batch is done; else the"
            " checkpoint was rolled back: take a new log, checkpoint and output. The events are"
            " still in the queue"
        )
