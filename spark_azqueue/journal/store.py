"""What a log needs from the place where it is stored.

`FileStore` (file_store.py) and `BlobFolder` (service/blobs/folder.py) provide it, and `log_store`
makes the one that an option names. Names are those of `service/names.py`: `log.json`, or
`<folder>/<name>`. Every method raises ValueError for another name.
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
        """Which kind of log it holds, for texts."""

    @property
    def where(self) -> str:
        """The place as the option names it, for texts: "blob:logs/orders". Never a secret."""

    def open(self) -> None:
        """Check that the folder can be used, and create what may be created.

        Raises ServiceError (LogUnavailable for files), which says what to do.
        """

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object, whole or not at all. An attempt is repeated with the same bytes.

        Returns True once it is durable, and False if an object of this name exists. That may be
        the work of an earlier attempt of this very call, so the caller compares.
        Raises ServiceError. Its `may_have_taken_effect` is True if the object may exist, or may
        appear later; False if it certainly does not and will not. The time limit grows with
        len(data).
        """

    def get(self, name: str, most: int) -> bytes | None:
        """Return the first `most` bytes (at least 1) that were put, None if the object is absent.

        The answer is the newest: nothing that a file system keeps in memory decides it. Raises
        ServiceError.
        """

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """List a folder: ["seg/000000000001", …], sorted. Empty if there is no such folder.

        prefix: only names that begin so after the slash.

        Leaves out names that `is_listed` refuses. Raises ServiceError, also if there are more than
        MOST_NAMES.
        """

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        """List a folder as `names` does, at the same cost, with what the place says of each.

        The size is that of the bytes that were put.
        """

    def delete(self, name: str) -> None:
        """Delete an object. Succeeds if it is absent. Raises ServiceError."""

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Remove what processes that were killed in `put_new` left behind (best effort).

        older_than_s: only what was last written this many
        seconds ago; a younger one may belong to a `put_new` or `open` of another process, which
        would fail.
        """

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""


def log_store(
    place: LogPlace,
    account: Account | None,
    kind: Kind = WRITE_AHEAD,
    within_s: float | None = None,
) -> LogStore:
    """The store at this place. account: of a place in blobs. Nothing is opened or sent yet.

    within_s: the longest that a call to blobs may take, if not a minute.
    """
    if place.container is None or account is None:
        return FileStore(place.folder, kind)
    from spark_azqueue.service.blobs.folder import BlobFolder  # a log on a disk needs none of it

    if within_s is None:
        return BlobFolder(account, place.container, place.folder, kind=kind)
    return BlobFolder(account, place.container, place.folder, kind=kind, within_s=within_s)
