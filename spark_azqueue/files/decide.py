"""Decides which files of a batch's events to read. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from .memory import File, Memory
from .rules import LONGEST, Rules, cut, is_hidden, trouble_with

UNFINISHED = frozenset({"CreateFile", "SftpCreate"})
"""Storage operations that create a file that is still empty. Another event follows when the file is
written.
"""

_LISTED = "Listed:"

GONE = "the file is gone"
NO_HADOOP_NAME = "Hadoop's paths cannot have the name of the file"
EMPTIED = "the file is empty now"
NO_FILE = "the path is no file's any more, but a folder's"
REPLACED = "the file was replaced before its batch was done: its new version has another event"
NOT_ALLOWED = "the job may not look into the folder of the file"
TOO_OLD = "the event is older than what is remembered, so the file may have been read"


class Announced(NamedTuple):
    """An event about a file in a trusted container. change: as in `blob_events`. at: time of the
    event in seconds since 1970.

    etag, api and sequencer are cut to 200 characters, because any sender could make them longer,
    and the query may put the event back into the queue.
    """

    place: str
    path: str
    change: str
    etag: str = ""
    api: str = ""
    sequencer: str = ""
    at: float = 0.0


def announced(row: Any) -> list[Announced]:
    """Return the events in a row of `blob_events`. A rename is two events."""
    place = f"{row.account}/{row.container}"
    etag, api, sequencer = map(_word, (row.etag, row.api, row.sequencer))
    at = max(0.0, min(row.at, 1e11))
    new = Announced(place, row.path, row.change, etag, api, sequencer, at)
    if row.change == "renamed" and row.renamed_from:
        return [new._replace(path=row.renamed_from, change="deleted", etag=""), new]
    return [new]


def _word(text: str | None) -> str:
    """Return the text if the service could have sent it, else ""."""
    return text if text and text.isascii() and text.isprintable() and len(text) <= 200 else ""


def listed_by(sender: str) -> str:
    """Return the operation name in events that a listing sends. sender: a secret that other senders
    do not have.
    """
    return _LISTED + sender


class Quarantined(NamedTuple):
    """A file that is quarantined, with the reason."""

    file: File
    reason: str


class Look(Enum):
    """What was found at a path.

    NO_FILE: the path is a folder, which Spark would read completely. NO_NAME: Hadoop cannot use the
    name. DENIED: the job lacks permission for this path, but has permission for other paths of the
    container. UNKNOWN: what is at the path is unknown, so nothing is decided for the path.
    """

    FILE = "file"
    EMPTY = "empty"
    NO_FILE = "no file"
    GONE = "gone"
    NO_NAME = "no name"
    DENIED = "denied"
    UNKNOWN = "unknown"


Looks = Mapping[tuple[str, str], Look]
"""What was found, by place and path."""


def _seen(files: Iterable[File], looks: Looks) -> list[tuple[File, Look]]:
    """Return each file with what was found at its path.

    Raises ValueError if a result is UNKNOWN.
    """
    seen = [(file, looks[file.place, file.path]) for file in files]
    if unknown := [file for file, look in seen if look is Look.UNKNOWN]:
        raise ValueError(f"no event said what is at {unknown[0].path!r}")
    return seen


class Chosen(NamedTuple):
    """The files of a batch: files to read, files to quarantine, and files to ignore.

    left_out: empty files, and folders. These paths are not recorded in `Memory`, because a program
    may still be writing an empty file.
    """

    files: Sequence[File]
    aside: Sequence[Quarantined]
    left_out: Sequence[File] = ()


def candidates(events: Iterable[Announced], rules: Rules) -> list[File]:
    """Return the files that are complete according to these events. Each path occurs once.

    Only the newest event of a path is used: the file is left out if this event says that it was
    deleted or is being rewritten. Hidden names, names that the pattern does not match, and
    directory markers are also left out.
    """
    newest: dict[tuple[str, str], Announced] = {}
    for event in events:
        key = event.place, event.path
        if event.place in rules.roots and _follows(event, newest.get(key)):
            newest[key] = event
    return [
        File(event.place, event.path, event.etag, event.at)
        for _, event in sorted(newest.items())
        if event.change in ("created", "renamed")
        and event.api not in UNFINISHED
        and is_wanted(event.path, rules)
    ]


def not_matched(events: Iterable[Announced], rules: Rules) -> list[Announced]:
    """Return the events about files that are left out only because of the pattern."""
    every = rules._replace(wanted=None)
    return [
        event
        for event in events
        if event.change in ("created", "renamed")
        and event.place in rules.roots
        and is_wanted(event.path, every)
        and not is_wanted(event.path, rules)
    ]


def unseen(events: Iterable[Announced], memory: Memory, listed: str) -> list[Announced]:
    """Leave out an event of a listing if its file was quarantined after the listing began.

    A listing that began before the quarantine has not seen a version newer than the unreadable
    version. Only events of a listing are compared with the times of lists, because only these
    events have times of the driver's clock. listed: operation name in events of a listing.
    """
    return [
        event
        for event in events
        if event.api != listed
        or (aside := memory.aside_at(File(event.place, event.path))) is None
        or event.at > aside
    ]


def is_wanted(path: str, rules: Rules) -> bool:
    """Return False if files with this path are never read."""
    name = path.rpartition("/")[2]
    if not name or is_hidden(path):
        return False
    # A path that is too long for a blob is not matched, because its file is quarantined.
    return rules.wanted is None or len(path) > LONGEST or rules.wanted.matches(name)


def _follows(event: Announced, other: Announced | None) -> bool:
    if other is None:
        return True
    if event.sequencer and other.sequencer:
        return event.sequencer > other.sequencer
    return event.at >= other.at


def choose(
    files: Iterable[File],
    memory: Memory,
    etags: Mapping[tuple[str, str], str] | None = None,
) -> Chosen:
    """Choose which of the candidates to read.

    etags: current etags from the service, by place and path. A file that is not in `etags` does not
    exist. None means that the service was not asked.
    """
    chosen: list[File] = []
    aside: list[Quarantined] = []
    for named in files:
        etag = named.etag if etags is None else etags.get((named.place, named.path))
        file = named._replace(path=cut(named.path), etag=named.etag if etag is None else etag)
        if memory.knows(file):
            continue
        why = trouble_with(file.path) or (GONE if etag is None else None)
        why = why or (TOO_OLD if file.at < memory.horizon else None)
        if why:
            aside.append(Quarantined(file, why))
        else:
            chosen.append(file)
    return Chosen(chosen, aside)


def looked_at(chosen: Chosen, looks: Looks) -> Chosen:
    """Return the choice after each path was checked: only files that are not empty are read."""
    seen = _seen(chosen.files, looks)
    why = {Look.GONE: GONE, Look.NO_NAME: NO_HADOOP_NAME, Look.DENIED: NOT_ALLOWED}
    return Chosen(
        [file for file, look in seen if look is Look.FILE],
        [*chosen.aside, *(Quarantined(file, why[look]) for file, look in seen if look in why)],
        [file for file, look in seen if look in (Look.EMPTY, Look.NO_FILE)],
    )


def changed(
    files: Sequence[File], looks: Looks, etags: Mapping[tuple[str, str], str] | None = None
) -> list[Quarantined]:
    """Return the files of a list that changed after the list was written, with reasons.

    etags: as for `choose`.
    """
    why = {Look.GONE: GONE, Look.EMPTY: EMPTIED, Look.NO_FILE: NO_FILE}
    why |= {Look.NO_NAME: NO_HADOOP_NAME, Look.DENIED: NOT_ALLOWED}
    found: list[Quarantined] = []
    for file, look in _seen(files, looks):
        if reason := why.get(look):
            found.append(Quarantined(file, reason))
        elif etags is not None and (etag := etags.get((file.place, file.path))) != file.etag:
            found.append(Quarantined(file, GONE if etag is None else REPLACED))
    return found


def without(files: Sequence[File], aside: Collection[Quarantined]) -> list[File]:
    """Return the files of a list, except files that were quarantined after the list was written."""
    bad = {each.file for each in aside}
    return [file for file in files if file not in bad]
