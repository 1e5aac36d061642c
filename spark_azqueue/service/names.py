"""Names of objects in the folder of a log, in every kind of store. Also the kinds of logs.

The name of an object is `log.json` or `<folder>/<name>`, such as `seg/000000000001`. So a name
cannot lead out of the folder. Names that begin with `.tmp-` are reserved for incomplete objects.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TO_WRITE = (
    "the SAS letters 'r', 'c', 'd' and 'l' for blobs or the role 'Storage Blob Data Contributor'"
)
_TO_READ = "the SAS letters 'r' and 'l' for blobs or the role 'Storage Blob Data Reader'"


class Kind(NamedTuple):
    """A kind of log. name: name of the kind in the log's identity. option: option that names the
    folder.

    words: the kind as text for errors. last_resort: advice if an object cannot be restored. needs:
    permissions that a folder in blobs needs. mounted: text for errors that says on which machines a
    folder in a file system has to be mounted. version: version of the format of object names and
    keys; the log's identity contains it.
    """

    name: str
    option: str
    words: str
    last_resort: str
    needs: str = _TO_WRITE
    mounted: str = "mounted"
    version: int = 2

    def for_reading(self) -> Kind:
        """Return a copy of this kind with texts for programs that only read the log."""
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
"""Maximum number of names in a folder of a log. If a folder has more names, `names` of a store
raises an error.
"""

_FOLDER = re.compile(r"[a-z-]{1,20}")
_NAME = re.compile(r"[0-9A-Za-z-]{1,100}")


class Stored(NamedTuple):
    """An object in a listing. Only the name is reliable; the other fields are for information.

    size: size in bytes. written: time of the write, in seconds since 1970, or 0 if unknown. tier:
    access tier that was set for this object, or "" if it has the default tier.
    """

    name: str
    size: int = 0
    written: float = 0.0
    tier: str = ""


def checked_object(name: str) -> str:
    """Return `name` if it is the name of an object of a log. Raises ValueError otherwise."""
    folder, slash, rest = name.partition("/")
    if name != "log.json" and not (slash and _FOLDER.fullmatch(folder) and is_listed(rest)):
        raise ValueError(f"{name!r} is no name of an object of a log")
    return name


def checked_folder(folder: str) -> str:
    """Return `folder` if it is the name of a folder within a log. Raises ValueError otherwise."""
    if not _FOLDER.fullmatch(folder):
        raise ValueError(f"{folder!r} is no name of a folder of a log")
    return folder


def is_listed(name: str) -> bool:
    """Return True if the text may be the last part of an object's name. Listings leave out all
    other names.
    """
    return _NAME.fullmatch(name) is not None
