"""A folder for a log in a container. Each object of the log is one blob, which is written once.

This is a `LogStore` (journal/store.py). One Put Blob with `If-None-Match: *` creates a blob. So
only one of two concurrent writers succeeds, and no reader gets a partly written blob.
"""

from __future__ import annotations

from spark_azqueue.errors import ServiceError
from spark_azqueue.errors.conditions import Condition

from ..account import Account
from ..names import MOST_NAMES, WRITE_AHEAD, Kind, Stored, checked_folder, checked_object, is_listed
from ..wire.pages import all_pages
from .calls import ListBlobs, PutBlob
from .container import CALL_S, Container
from .protection import Protection, protection_of

_PAGE = 100
"""Maximum number of names on a page. 100 blobs with their properties fit into an answer of 256 KiB.
"""
_MOST_PAGES = 10 * MOST_NAMES // _PAGE
_LIST_CALLS = 10
"""Maximum time for all pages of a listing, as a multiple of the maximum time of one call."""
_EXISTS = ("BlobAlreadyExists", "ConditionNotMet", "UnauthorizedBlobOverwrite")
"""Error codes of a put that was refused because the blob exists.

The service also sends the last code without checking whether the blob exists, if the SAS has the
permission 'c' but not 'w'.
"""


class BlobFolder:
    """A folder in one container. Connects on first use.

    Thread-safe; do not share between processes.
    """

    def __init__(
        self,
        account: Account,
        container: str,
        folder: str,
        *,
        kind: Kind = WRITE_AHEAD,
        within_s: float = CALL_S,
    ) -> None:
        """Store the name of the folder. Sends no request.

        account: the account; its `url` is the blob endpoint. within_s: maximum time of a call in
        seconds, besides the time to transfer an object. `names` makes one call for each page, and
        may take ten times as long in total.
        """
        self.kind = kind
        self._folder = folder
        self._where = f"blob:{container}/{folder}"
        self._container = Container(
            account,
            container,
            if_missing=f"Create the container '{container}', or correct '{kind.option}'",
            within_s=within_s,
        )

    @property
    def container(self) -> Container:
        """The container that contains the folder."""
        return self._container

    @property
    def where(self) -> str:
        """The folder as the option names it: "blob:logs/orders"."""
        return self._where

    def open(self) -> None:
        """Check that the container exists and that the credential may list it.

        Raises ServiceError.
        """
        self._page(f"{self._folder}/")

    def put_new(self, name: str, data: bytes) -> bool:
        """Create a blob in one request; each retry sends the same bytes. See `LogStore`.

        Raises ServiceError. Its `may_have_taken_effect` is true if any attempt may have taken
        effect.
        """
        call = PutBlob(self._container.ref, self._path(name), self.kind.needs, data)
        size = len(data)
        try:
            self._container.do(call, size, retry_s=self._container.seconds(size))
        except ServiceError as error:
            if self._is_there(error, name):
                return False
            raise
        return True

    def get(self, name: str, most: int) -> bytes | None:
        """Read at most the first `most` bytes of a blob, with retries. See `LogStore`.

        Requests no more than these bytes, and never decompresses them. Raises ServiceError.
        """
        return self._container.read(self._path(name), most, self.kind.needs)

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """List a folder. See `LogStore`. Raises ServiceError."""
        return [each.name for each in self.entries(folder, prefix)]

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        """List a folder, page by page. See `LogStore`. Raises ServiceError."""
        start = f"{self._folder}/{checked_folder(folder)}/"
        doing = f"list blobs '{start}*' in {self._container.place}"
        pages = 0

        def page(marker: str, left_s: float) -> tuple[list[Stored], str]:
            nonlocal pages
            pages += 1
            listed, following = self._page(start + prefix, marker, left_s)
            return listed, following if pages <= _MOST_PAGES else ""

        blobs = all_pages(_LIST_CALLS * self._container.seconds(0), doing, page, MOST_NAMES)
        if len(blobs) > MOST_NAMES or pages > _MOST_PAGES:
            raise ServiceError(
                f"could not list blobs '{start}*' in {self._container.place}: there are more"
                f" than {MOST_NAMES:,}, and a {self.kind.words} has far fewer. Is it another"
                " program's folder?",
                condition=Condition.LOG_UNAVAILABLE,
            )
        found: list[Stored] = []
        for blob in blobs:
            name = blob.name.removeprefix(start)
            if blob.name.startswith(start) and is_listed(name):
                found.append(blob._replace(name=f"{folder}/{name}"))
        return sorted(found)

    def delete(self, name: str) -> None:
        """Delete a blob, with retries. Succeeds if the blob does not exist. Raises ServiceError."""
        self._container.delete(self._path(name), self.kind.needs)

    def protection(self, name: str) -> Protection:
        """Return the settings that keep deleted blobs. name: name of an existing object of the
        folder.

        Raises ServiceError.
        """
        return protection_of(self._container, self._path(name))

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Do nothing: an incomplete upload leaves no blob."""

    def close(self) -> None:
        """Close the connections. A later call opens new connections."""
        self._container.close()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{checked_object(name)}"

    def _is_there(self, error: ServiceError, name: str) -> bool:
        """Return True if a put was refused because this blob exists."""
        if error.code in _EXISTS:
            return True
        if error.code != "AuthorizationPermissionMismatch":
            return False
        try:  # this code may also mean that the credential lacks permission
            return self.get(name, 1) is not None
        except ServiceError:
            return False

    def _page(
        self, start: str, marker: str = "", left_s: float | None = None
    ) -> tuple[list[Stored], str]:
        """Return one page of the blobs whose names begin with `start`, and the marker of the next
        page.
        """
        page = ListBlobs(self._container.ref, start, self.kind.needs, marker, _PAGE)
        return self._container.do(page, within_s=left_s)
