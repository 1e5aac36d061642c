"""One container of an account, through the Azure SDK: connections, and errors as ours.

azure-storage-blob is an extra (`pip install 'spark-azqueue[blob]'`), so functions import it when
they need it.
"""

from __future__ import annotations

import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar

from azure.core.exceptions import ResourceExistsError

from spark_azqueue.conditions import Condition
from spark_azqueue.errors import ServiceError

from ..account import Account
from ..markup import parsed
from ..names import Stored
from ..sdk.clients import (
    client_settings,
    client_url,
    code_of,
    retried,
    translated_errors,
    with_renewed_sas,
)
from ..sdk.deadline import CALL_S, in_time

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

_START = re.compile(rb"(?:\xef\xbb\xbf)?<[?E]")  # not in UTF-16, which may hide a DOCTYPE


_MOST_TAGS = 20_000
"""Of 100 blobs, with some 40 properties each."""


def blobs_in(document: bytes) -> list[Stored]:
    """The blobs of a page, by their whole names.

    Raises ValueError if this is not a whole page as the service sends it.
    """
    root = parsed(document, _MOST_TAGS) if _START.match(document) else None
    if root is None:
        raise ValueError("it is not XML as the service writes it")
    listed, marker = root.find("Blobs"), root.find("NextMarker")
    if root.tag != "EnumerationResults" or listed is None or marker is None:
        raise ValueError("it is not a page of a list of blobs")
    if any(blob.tag != "BlobPrefix" and not blob.findtext("Name") for blob in listed):
        raise ValueError("it lists a blob without a name")
    return [_stored(blob) for blob in listed if blob.tag != "BlobPrefix"]


def _stored(blob: ElementTree.Element) -> Stored:
    def text(name: str) -> str:
        return blob.findtext(f"Properties/{name}") or ""

    size = text("Content-Length")
    try:
        written = parsedate_to_datetime(text("Last-Modified")).timestamp()
    except (ValueError, TypeError):
        written = 0.0
    return Stored(
        blob.findtext("Name") or "",
        int(size) if size.isascii() and size.isdigit() and len(size) < 20 else 0,
        written,
        "" if text("AccessTierInferred") == "true" else text("AccessTier"),
    )


T = TypeVar("T")

_NEEDS = (
    "the letter 'c' (to delete it 'd') of an account SAS for blobs (srt with 'c'), or the role"
    " 'Storage Blob Data Contributor' for the account"
)

_RETRY_S = 60.0
_NOTHING_IN_RANGE = 416

SLOWEST_BYTES_PER_S = 128 * 1024
"""The deadline of a call allows for the body at this rate."""

ATTEMPT_S = 15.0
"""How long one request may stay without an answer, if it is small. Of a call's 60 s, some are left
for another attempt: a request can hang on a connection that died.
"""


class Container:
    """A container. Connects when first used. Thread-safe; do not share between processes."""

    def __init__(
        self,
        account: Account,
        name: str,
        *,
        connections: int,
        if_missing: str,
        within_s: float = CALL_S,
        **settings: Any,
    ) -> None:
        """account: its `url` is the blob endpoint. connections: how many to keep open.

        if_missing: what to do if the container does not exist, for the error. within_s: the longest
        that a call may take, in seconds, without the time for a body. settings: more keyword
        arguments for the SDK's client.
        """
        self._account = account
        self._name = name
        self._connections = connections
        self._if_missing = if_missing
        self._within_s = within_s
        self._settings = settings
        self._lock = threading.Lock()
        self._made: ContainerClient | None = None
        self._made_for = ""

    @property
    def place(self) -> str:
        """For texts: "container 'logs' of account 'shop'"."""
        return f"container '{self._name}' of account '{self._account.name}'"

    def seconds(self, size: int) -> float:
        """The longest that a call with a body of this many bytes may take."""
        return self._within_s + size / SLOWEST_BYTES_PER_S

    def attempt_seconds(self, size: int) -> float:
        """How long to wait for the answer to one request of such a call before the next."""
        return min(ATTEMPT_S, self._within_s / 4) + size / SLOWEST_BYTES_PER_S

    def do(self, doing: str, needs: str, act: Callable[[ContainerClient], T]) -> T:
        """Return act(client). Raises ServiceError.

        doing: for the error, as in "read blob 'x'". needs: the permission that it takes.
        """

        def attempt() -> T:
            client = self._client()
            with translated_errors(f"{doing} in {self.place}", needs):
                return act(client)

        try:
            return with_renewed_sas(self._account, attempt)
        except ServiceError as error:
            if error.code != "ContainerNotFound":
                raise
            text = f"{error}. {self._if_missing}"
            raise ServiceError(
                text, condition=Condition.CONTAINER_NOT_FOUND, status=error.status, code=error.code
            ) from None

    def retried(
        self,
        doing: str,
        needs: str,
        act: Callable[[ContainerClient], T],
        size: int = 0,
        *,
        attempt_s: float | None = None,
    ) -> T:
        """The same, repeated for a minute. size: bytes of the answer. attempt_s: see `retried`."""
        seconds = self.seconds(size)
        answer: T = retried(seconds, _RETRY_S, self.do, doing, needs, act, attempt_s=attempt_s)
        return answer

    def read(
        self, path: str, most: int, size: int, needs: str, attempt_s: float | None = None
    ) -> bytes | None:
        """The first `most` bytes of a blob, with retries; None if there is none.

        size: how many bytes it has, for the time. Requests no more, and decompresses nothing.
        """

        def download(client: ContainerClient) -> bytes:
            # max_concurrency=1: the deadline belongs to this thread, so all requests stay in it.
            found = client.download_blob(path, offset=0, length=most, max_concurrency=1)
            return bytes(found.readall())

        try:
            return self.retried(f"read blob '{path}'", needs, download, size, attempt_s=attempt_s)
        except ServiceError as error:
            if error.code == "BlobNotFound":
                return None
            if error.status != _NOTHING_IN_RANGE:
                raise
            return b""  # it has no first byte

    def delete(self, path: str, needs: str, attempt_s: float | None = None) -> None:
        """Delete a blob, with retries. Succeeds if it is absent. Raises ServiceError."""

        def delete(client: ContainerClient) -> None:
            client.delete_blob(path)

        try:
            self.retried(f"delete blob '{path}'", needs, delete, attempt_s=attempt_s)
        except ServiceError as error:
            if error.code != "BlobNotFound":
                raise

    def create(self) -> bool:
        """Create it, in one attempt. Returns False if it exists already. Raises ServiceError."""

        def create(client: ContainerClient) -> bool:
            try:
                client.create_container()
            except ResourceExistsError as error:
                if code_of(error) != "ContainerAlreadyExists":
                    raise
                return False
            return True

        made: bool = in_time(self.seconds(0), self.do, "create it", _NEEDS, create)
        return made

    def remove(self) -> None:
        """Delete it with its blobs, in one attempt. Raises ServiceError."""
        in_time(self.seconds(0), self.do, "delete it", _NEEDS, lambda c: c.delete_container())

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        with self._lock:
            made, self._made = self._made, None
        if made is not None:
            made.close()

    def _client(self) -> ContainerClient:
        url = client_url(self._account)
        with self._lock:
            if self._made is None or url != self._made_for:  # a SAS in it was renewed
                self._made_for = url
                from azure.storage.blob import ContainerClient

                self._made = ContainerClient(
                    url,
                    self._name,
                    **self._settings,
                    **client_settings(self._account, self._connections),
                )
            return self._made
