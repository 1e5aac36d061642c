"""Names of objects in a folder of a log, for every kind of store, and the kinds of logs.

The name of an object is `log.json` or `<folder>/<name>`, such as `seg/000000000001`. So no name
leads out of the folder, and no name is `.tmp-…`, the name of an incomplete object.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TO_WRITE = (
    "the SAS letters 'r', 'c', 'd' and 'l' for blobs or the role 'Storage Blob Data Contributor'"
)
_TO_READ = "the SAS letters 'r' and 'l' for blobs or the role 'Storage Blob Data Reader'"


class Kind(NamedTuple):
    """A kind of log. name: in the log's identity. option: option that names its folder.

    words: the kind in words. last_resort: what to do if an object cannot be restored. needs:
    permissions for a folder in blobs. mounted: where a folder in a file system has to be mounted.
    version: format version of object names and keys, which the log's identity contains.
    """

    name: str
    option: str
    words: str
    last_resort: str
    needs: str = _TO_WRITE
    mounted: str = "mounted"
    version: int = 2

    def for_reading(self) -> Kind:
        """Return this kind with the texts for a reader of the log."""
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
"""Most names in a folder of a log. For a folder with more, `names` of a store raises an error."""

_FOLDER = re.compile(r"[a-z-]{1,20}")
_NAME = re.compile(r"[0-9A-Za-z-]{1,100}")


class Stored(NamedTuple):
    """An object in a listing. Only the name is reliable; the other fields are informative.

    size: in bytes. written: time of the write, in seconds since 1970; 0 if unknown. tier: the
    access tier that was set for the object, "" if none was.
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
    """True if the text may follow the slash of a name. A listing leaves out all other names."""
    return _NAME.fullmatch(name) is not None
