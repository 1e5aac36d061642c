"""A folder of blobs that are each written once: a log's place in a container.

A `LogStore` (journal/store.py). One Put Blob with `If-None-Match: *` creates a blob, so of two
writers one wins, and none is seen before it is whole.
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
"""Names in a page: with their properties, they fit into the 256 KiB of an answer."""
_MOST_PAGES = 10 * MOST_NAMES // _PAGE
_LIST_CALLS = 10
"""All pages of a list may take as long as this many calls."""
_EXISTS = ("BlobAlreadyExists", "ConditionNotMet", "UnauthorizedBlobOverwrite")
"""The last one is for a SAS with 'c' and without 'w': it is refused before the condition is."""


class BlobFolder:
    """A folder in one container. Connects when first used.

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
        """account: its `url` is the blob endpoint.

        within_s: the longest that a call may take, in seconds, on top of the time allowed for the
        size of an object. `names` makes one call for each page, and may take ten times as long.
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
        """The container that the folder is in."""
        return self._container

    @property
    def where(self) -> str:
        """As in the option: "blob:logs/orders"."""
        return self._where

    def open(self) -> None:
        """Check that the container exists and that we may list it. Raises ServiceError."""
        self._page(f"{self._folder}/")

    def put_new(self, name: str, data: bytes) -> bool:
        """Create a blob in one request, with retries of the same bytes. See `LogStore`.

        Raises ServiceError, whose `may_have_taken_effect` covers all attempts.
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
        """Read the first `most` bytes of a blob, with retries. See `LogStore`.

        Requests no more than that, and decompresses nothing. Raises ServiceError.
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
        """Delete a blob, with retries. Succeeds if it is absent. Raises ServiceError."""
        self._container.delete(self._path(name), self.kind.needs)

    def protection(self, name: str) -> Protection:
        """What keeps blobs here for longer. name: of an object that exists. Raises ServiceError."""
        return protection_of(self._container, self._path(name))

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Do nothing: a blob that was not stored whole leaves nothing behind."""

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._container.close()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{checked_object(name)}"

    def _is_there(self, error: ServiceError, name: str) -> bool:
        """True if a put was refused because this blob exists, in any of the service's words."""
        if error.code in _EXISTS:
            return True
        if error.code != "AuthorizationPermissionMismatch":
            return False
        try:  # it may also be the right to put that is missing
            return self.get(name, 1) is not None
        except ServiceError:
            return False

    def _page(
        self, start: str, marker: str = "", left_s: float | None = None
    ) -> tuple[list[Stored], str]:
        """One page of the blobs whose names begin with `start`, and where the next begins."""
        page = ListBlobs(self._container.ref, start, self.kind.needs, marker, _PAGE)
        return self._container.do(page, within_s=left_s)
