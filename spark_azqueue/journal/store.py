"""Operations that a log needs from its store.

`FileStore` (file_store.py) and `BlobFolder` (service/blobs/folder.py) implement the operations, and
`log_store` creates the store that an option names. Names of objects have the form `log.json` or
`<folder>/<name>` (see `service/names.py`). Every method raises ValueError for any other name.
"""

from __future__ import annotations

from typing import Protocol

from spark_azqueue.options.log import LogPlace
from spark_azqueue.service.account import Account
from spark_azqueue.service.names import WRITE_AHEAD, Kind, Stored

from .file_store import FileStore


class LogStore(Protocol):
    """A folder of objects. An object is written once, and is complete when it appears.
    Thread-safe."""

    @property
    def kind(self) -> Kind:
        """Kind of the log in the folder, for messages."""

    @property
    def where(self) -> str:
        """Place as the option names it, for messages: "blob:logs/orders". Contains no secret."""

    def open(self) -> None:
        """Check that the folder can be used, and create missing parts if allowed.

        Raises ServiceError (LogUnavailable for files); the error's text suggests a fix.
        """

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object, complete or not at all. A retry sends the same bytes.

        Returns True when the object is durable, and False if an object with this name already
        exists. An earlier try of the same call may have created the existing object, so the caller
        must compare the bytes. Raises ServiceError. The error's `may_have_taken_effect` is True if
        the object may exist or may appear later, and False if it does not exist and will not
        appear. The time limit grows with len(data).
        """

    def get(self, name: str, most: int) -> bytes | None:
        """Return at most the first `most` bytes of an object; None if the object is absent. most: 1
        or more.

        The result is never out of a cache. Raises ServiceError.
        """

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """Return the names in a folder, sorted: ["seg/000000000001", …]. The list is empty if the
        folder does not exist.

        prefix: return only names with this prefix after the slash. Names that `is_listed` refuses
        are left out. Raises ServiceError, also if the folder has more than MOST_NAMES names.
        """

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        """Return the names in a folder, with the size and time of each object. See `names`.

        The size is the number of bytes that were put. The cost is the same as for `names`.
        """

    def delete(self, name: str) -> None:
        """Delete an object. Succeeds if the object is absent. Raises ServiceError."""

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Remove incomplete objects that processes left when they were killed in `put_new`. Errors
        are ignored.

        older_than_s: remove only objects that were last written at least this many seconds ago. A
        younger object may be in use by a `put_new` or `open` of another process.
        """

    def close(self) -> None:
        """Close the connections. A later call opens new connections."""


def log_store(
    place: LogPlace,
    account: Account | None,
    kind: Kind = WRITE_AHEAD,
    within_s: float | None = None,
) -> LogStore:
    """Return the store at this place. Opens and sends nothing.

    account: storage account, for a place in blobs. within_s: time limit in seconds for a call to
    blobs; None for one minute.
    """
    if place.container is None or account is None:
        return FileStore(place.folder, kind)
    from spark_azqueue.service.blobs.folder import BlobFolder  # not needed for a log on a disk

    if within_s is None:
        return BlobFolder(account, place.container, place.folder, kind=kind)
    return BlobFolder(account, place.container, place.folder, kind=kind, within_s=within_s)
