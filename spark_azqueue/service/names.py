"""The names of objects in a folder of a log, whatever holds the folder, and the kinds of logs.

An object is `log.json` or `<folder>/<name>`, such as `seg/000000000001`. So no name leads out of
the folder, and none is `.tmp-…`, the name of an object that is not complete yet.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TO_WRITE = (
    "the SAS letters 'r', 'c', 'd' and 'l' for blobs or the role 'Storage Blob Data Contributor'"
)
_TO_READ = "the SAS letters 'r' and 'l' for blobs or the role 'Storage Blob Data Reader'"


class Kind(NamedTuple):
    """A kind of log. name: in its identity. option: names its folder. words: for texts.

    last_resort: what to do if an object cannot be restored. needs: the permissions for a folder in
    blobs. mounted: where a folder in a file system has to be. version: of the names and keys of its
    objects, which its identity says.
    """

    name: str
    option: str
    words: str
    last_resort: str
    needs: str = _TO_WRITE
    mounted: str = "mounted"
    version: int = 2

    def for_reading(self) -> Kind:
        """What texts say to who only reads such a log."""
        last_resort = "leave its batch out with 'startingAt' and 'endingAt'"
        return self._replace(option="readLog", last_resort=last_resort, needs=_TO_READ)


WRITE_AHEAD = Kind(
    "segments",
    "writeAheadLog",
    "write-ahead log",
    "start with a new folder, a new checkpointLocation and a new output",
    version=3,
)
TRANSACTIONS = Kind(
    "transactions",
    "transactionLog",
    "transaction log",
    "name a new folder and set failOnDataLoss=false for one start; the newest batch may then be"
    " written a second time",
)
EXECUTORS = Kind(
    "slots",
    "writeAheadLog",
    "write-ahead log of leaseOn=executors",
    "start with a new folder, a new checkpointLocation and a new output",
    mounted="mounted, at this path, on the driver and on every executor",
    version=3,
)
FILES = Kind(
    "files",
    "log",
    "file log",
    "start with a new log, a new checkpoint and a new output",
)

MOST_NAMES = 200_000
"""A folder with more names than this is not a log; `names` of a store refuses it."""

_FOLDER = re.compile(r"[a-z-]{1,20}")
_NAME = re.compile(r"[0-9A-Za-z-]{1,100}")


class Stored(NamedTuple):
    """An object as a listing shows it. What follows its name only informs: no promise rests on it.

    size: in bytes. written: when, in seconds since 1970; 0 if unknown. tier: the access tier that
    was set for it, "" if none was.
    """

    name: str
    size: int = 0
    written: float = 0.0
    tier: str = ""


def checked_object(name: str) -> str:
    """Return `name` if it is one of an object. Raises ValueError."""
    folder, slash, rest = name.partition("/")
    if name != "log.json" and not (slash and _FOLDER.fullmatch(folder) and is_listed(rest)):
        raise ValueError(f"{name!r} is no name of an object of a log")
    return name


def checked_folder(folder: str) -> str:
    """Return `folder` if it is the name of one within the log. Raises ValueError."""
    if not _FOLDER.fullmatch(folder):
        raise ValueError(f"{folder!r} is no name of a folder of a log")
    return folder


def is_listed(name: str) -> bool:
    """True for what may follow the slash. A listing leaves out all other names."""
    return _NAME.fullmatch(name) is not None
