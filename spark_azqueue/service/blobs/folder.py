"""A folder of blobs that are each written once: a log's place in a container.

A `LogStore` (journal/store.py). One Put Blob with `If-None-Match: *` creates a blob, so of two
writers one wins, and none is seen before it is whole. azure-storage-blob is an extra, so functions
import it when they need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import ServiceError

from ..account import Account
from ..names import MOST_NAMES, WRITE_AHEAD, Kind, Stored, checked_folder, checked_object, is_listed
from ..sdk.clients import retried
from ..sdk.deadline import CALL_S, all_pages, sent_twice
from .container import Container, blobs_in
from .protection import Protection, protection_of

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

T = TypeVar("T")

_PAGE = 100
"""Names in a page: with their properties, they fit into the 256 KiB of an answer."""
_MOST_PAGES = 10 * MOST_NAMES // _PAGE
_LIST_CALLS = 10
"""All pages of a list may take as long as this many calls."""
_ONE_REQUEST_BYTES = 5000 * 2**20
"""The most that one Put Blob takes. Below this, the SDK uses no block list."""


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
        connections: int = 4,
        within_s: float = CALL_S,
    ) -> None:
        """account: its `url` is the blob endpoint. connections: how many to keep open.

        within_s: the longest that a call may take, in seconds, on top of the time allowed for the
        size of an object. `names` makes one call for each page, and may take ten times as long.
        """
        self.kind = kind
        self._account = account
        self._folder = folder
        self._where = f"blob:{container}/{folder}"
        self._container = Container(
            account,
            container,
            connections=connections,
            if_missing=f"Create the container '{container}', or correct '{kind.option}'",
            within_s=within_s,
            max_single_put_size=_ONE_REQUEST_BYTES,
            max_single_get_size=_ONE_REQUEST_BYTES,
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
        self._page(f"{self._folder}/", None)

    def put_new(self, name: str, data: bytes) -> bool:
        """Create a blob in one request, with retries of the same bytes. See `LogStore`.

        Raises ServiceError, whose `may_have_taken_effect` covers all attempts.
        """
        path = self._path(name)
        in_doubt = False

        def upload(client: ContainerClient) -> None:
            client.upload_blob(
                path, data, length=len(data), overwrite=False, max_concurrency=1
            )  # adds If-None-Match: *

        def attempt() -> None:
            nonlocal in_doubt
            try:
                self._container.do(f"store blob '{path}'", self.kind.needs, upload)
            except ServiceError as error:
                in_doubt |= error.may_have_taken_effect or sent_twice()
                raise

        seconds = self._container.seconds(len(data))
        try:
            retried(seconds, seconds, attempt, attempt_s=self._container.attempt_seconds(len(data)))
        except ServiceError as error:
            if error.code == "BlobAlreadyExists":  # the SDK makes it of 412, too
                return False
            if error.code == "AuthorizationPermissionMismatch" and self._exists(name):
                return False  # a SAS with 'c' and without 'w' is refused before the condition is
            error.unanswered = in_doubt
            raise
        return True

    def get(self, name: str, most: int) -> bytes | None:
        """Read the first `most` bytes of a blob, with retries. See `LogStore`.

        Requests no more than that, and decompresses nothing. Raises ServiceError.
        """
        patience = self._container.attempt_seconds(most)
        return self._container.read(self._path(name), most, most, self.kind.needs, patience)

    def names(self, folder: str, prefix: str = "") -> list[str]:
        """List a folder. See `LogStore`. Raises ServiceError."""
        return [each.name for each in self.entries(folder, prefix)]

    def entries(self, folder: str, prefix: str = "") -> list[Stored]:
        """List a folder, page by page. See `LogStore`. Raises ServiceError."""
        start = f"{self._folder}/{checked_folder(folder)}/"
        doing = f"list blobs '{start}*' in {self._container.place}"
        pages = 0

        def page(marker: str | None) -> tuple[list[Stored], str | None]:
            nonlocal pages
            pages += 1
            listed, following = self._page(start + prefix, marker)
            return listed, following if pages <= _MOST_PAGES else None

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
        patience = self._container.attempt_seconds(0)
        self._container.delete(self._path(name), self.kind.needs, patience)

    def protection(self, name: str) -> Protection:
        """What keeps blobs here for longer. name: of an object that exists. Raises ServiceError."""
        return protection_of(self._account, self._container, self._path(name))

    def sweep(self, older_than_s: float = 0.0) -> None:
        """Do nothing: a blob that was not stored whole leaves nothing behind."""

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._container.close()

    def _path(self, name: str) -> str:
        return f"{self._folder}/{checked_object(name)}"

    def _exists(self, name: str) -> bool:
        """True if this blob certainly exists."""
        try:
            return self.get(name, 1) is not None
        except ServiceError:
            return False

    def _page(self, start: str, marker: str | None) -> tuple[list[Stored], str | None]:
        """One page of the blobs whose names begin with `start`, and where the next begins."""

        def page(client: ContainerClient) -> tuple[list[Stored], str | None]:
            listed: list[Stored] = []

            def read(response: Any) -> None:
                if response.http_response.status_code == 200:
                    listed.extend(blobs_in(response.http_response.body()))

            listing = client.list_blob_names(
                name_starts_with=start, results_per_page=_PAGE, raw_response_hook=read
            )
            pages: Any = listing.by_page(continuation_token=marker)
            next(pages)
            return listed, pages.continuation_token

        patience = self._container.attempt_seconds(0)
        doing, needs = f"list blobs '{start}*'", self.kind.needs
        return self._container.retried(doing, needs, page, attempt_s=patience)
