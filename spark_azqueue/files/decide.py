"""From the events of a batch to its files. Pure: what is known comes as an argument."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from .memory import File, Memory
from .rules import LONGEST, Rules, cut, is_hidden, trouble_with

UNFINISHED = frozenset({"CreateFile", "SftpCreate"})
"""Operations after which a file is still empty: another event follows when it is written."""

_LISTED = "Listed:"

GONE = "the file is gone"
NO_HADOOP_NAME = "Hadoop's paths cannot have the name of the file"
EMPTIED = "the file is empty now"
NO_FILE = "the path is no file's any more, but a folder's"
REPLACED = "the file was replaced before its batch was done: its new version has another event"
NOT_ALLOWED = "the job may not look into the folder of the file"
TOO_OLD = "the event is older than what is remembered, so the file may have been read"


class Announced(NamedTuple):
    """An event of a file in a trusted container. change: as in `blob_events`. at: its seconds.

    etag, api and sequencer are short: anybody may send an event, and it may be put back.
    """

    place: str
    path: str
    change: str
    etag: str = ""
    api: str = ""
    sequencer: str = ""
    at: float = 0.0


def announced(row: Any) -> list[Announced]:
    """The events in a row of `blob_events`: a rename is two of them."""
    place = f"{row.account}/{row.container}"
    etag, api, sequencer = map(_word, (row.etag, row.api, row.sequencer))
    at = max(0.0, min(row.at, 1e11))
    new = Announced(place, row.path, row.change, etag, api, sequencer, at)
    if row.change == "renamed" and row.renamed_from:
        return [new._replace(path=row.renamed_from, change="deleted", etag=""), new]
    return [new]


def _word(text: str | None) -> str:
    """The text if it is such as the service sends; else an empty one."""
    return text if text and text.isascii() and text.isprintable() and len(text) <= 200 else ""


def listed_by(sender: str) -> str:
    """The operation that an event of a listing names. sender: a secret, since all others lie."""
    return _LISTED + sender


class Quarantined(NamedTuple):
    """A file that is not read, and why."""

    file: File
    reason: str


class Look(Enum):
    """What is at a path. NO_FILE: a folder, which Spark would read whole. NO_NAME: not askable.

    DENIED: the job may not look at it, but elsewhere. UNKNOWN: not known. Nothing is decided of
    such a path.
    """

    FILE = "file"
    EMPTY = "empty"
    NO_FILE = "no file"
    GONE = "gone"
    NO_NAME = "no name"
    DENIED = "denied"
    UNKNOWN = "unknown"


Looks = Mapping[tuple[str, str], Look]
"""By place and path."""


def _seen(files: Iterable[File], looks: Looks) -> list[tuple[File, Look]]:
    """Raise ValueError for a file of which nothing is known: it may be anything."""
    seen = [(file, looks[file.place, file.path]) for file in files]
    if unknown := [file for file, look in seen if look is Look.UNKNOWN]:
        raise ValueError(f"no event said what is at {unknown[0].path!r}")
    return seen


class Chosen(NamedTuple):
    """The files of a batch, those that were announced and cannot be read, and those to ignore.

    left_out: empty files and folders, which are not remembered: a file may be empty because its
    writer has only begun.
    """

    files: Sequence[File]
    aside: Sequence[Quarantined]
    left_out: Sequence[File] = ()


def candidates(events: Iterable[Announced], rules: Rules) -> list[File]:
    """The files that these events say are there and complete, each once, by path.

    The newest event of a path decides: after a deletion, or while the file is written anew, it is
    left out. Also left out: hidden names, names that the pattern does not match, directories'
    markers.
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
    """The events of files that the pattern alone leaves out."""
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
    """Without the events of a listing of files that were quarantined after it began.

    It saw no later version than the one that could not be read. Only a listing has the driver's
    time, as the lists have, so only its events are known by it. listed: the operation of these.
    """
    return [
        event
        for event in events
        if event.api != listed
        or (aside := memory.aside_at(File(event.place, event.path))) is None
        or event.at > aside
    ]


def is_wanted(path: str, rules: Rules) -> bool:
    """Whether a file of this path is to be read at all."""
    name = path.rpartition("/")[2]
    if not name or is_hidden(path):
        return False
    # The name of no blob is not compared: the file is quarantined.
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
    """What to read of the candidates.

    etags: what the service says that each file has now, by place and path; a file that it does not
    name is gone. None: not asked.
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
    """What is left after a look at each of its files: only files with contents are read."""
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
    """Which files of a list are not any more what they were when the list was made.

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
    """The files of a list that were not quarantined later."""
    bad = {each.file for each in aside}
    return [file for file in files if file not in bad]
