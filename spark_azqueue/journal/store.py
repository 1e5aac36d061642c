"""Operations that a log needs from its store.

`FileStore` (file_store.py) and `BlobFolder` (service/blobs/folder.py) implement the operations, and
`log_store` creates the store that an option names. Names are as in `service/names.py`: `log.json`,
or `<folder>/<name>`. Every method raises ValueError for any other name.
"""

from __future__ import annotations

from typing import Protocol

from spark_azqueue.options.log import LogPlace
from spark_azqueue.service.account import Account
from spark_azqueue.service.names import WRITE_AHEAD, Kind, Stored

from .file_store import FileStore


class LogStore(Protocol):
    """A folder of objects, each written once and whole. Thread-safe."""

    @property
    def kind(self) -> Kind:
        """Kind of the log in the folder, for texts."""

    @property
    def where(self) -> str:
        """Place as the option names it, for texts: "blob:logs/orders". Never a secret."""

    def open(self) -> None:
        """Check that the folder can be used, and create missing parts where that is allowed.

        Raises ServiceError (LogUnavailable for files), whose text names a fix.
        """

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object, whole or not at all. A retry sends the same bytes.

        Returns True once the object is durable, and False if an object of this name exists. The
        existing object may be from an earlier try of this very call, so the caller compares bytes.
        Raises ServiceError. The error's `may_have_taken_effect` is True if the object may exist, or
        may appear later; False if the object certainly does not exist and will not appear. The time
        limit grows with len(data).
        """

    def get(self, name: str, most: int) -> bytes | None:
        """Return the first `most` bytes (at least 1) of an object, None if the object is absent.

        The answer is always current: caches of a file system are bypassed. Raises ServiceError.
        """

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """List a folder: ["seg/000000000001", …], sorted. Empty if there is no such folder.

        prefix: only names with this prefix after the slash. Names that `is_listed` refuses are left
        out. Raises ServiceError, also for more than MOST_NAMES names.
        """

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        """List a folder as `names` does, at the same cost, with size and time of each object.

        The size is the number of bytes that were put.
        """

    def delete(self, name: str) -> None:
        """Delete an object. Succeeds if it is absent. Raises ServiceError."""

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Remove incomplete objects of processes that were killed in `put_new` (best effort).

        older_than_s: only objects that were last written at least this many seconds ago. A younger
        object may belong to a `put_new` or `open` of another process, which would fail.
        """

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""


def log_store(
    place: LogPlace,
    account: Account | None,
    kind: Kind = WRITE_AHEAD,
    within_s: float | None = None,
) -> LogStore:
    """Return the store at this place. Nothing is opened or sent yet.

    account: of a place in blobs. within_s: the time limit of a call to blobs; None for one minute.
    """
    if place.container is None or account is None:
        return FileStore(place.folder, kind)
    from spark_azqueue.service.blobs.folder import BlobFolder  # a log on a disk needs none of it

    if within_s is None:
        return BlobFolder(account, place.container, place.folder, kind=kind)
    return BlobFolder(account, place.container, place.folder, kind=kind, within_s=within_s)
