"""The calls to a container and its blobs, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

from spark_azqueue.errors import ServiceError

from ..answers import not_the_service
from ..incoming import Answer
from ..messages import QueueRef
from ..names import Stored
from ..wire.calls import SMALL_BYTES, Call, Request, escaped
from .xml import blobs_in, kept_days

T = TypeVar("T", covariant=True)

_OF_CONTAINERS = (
    "the letter 'c' (to delete it 'd') of an account SAS for blobs (srt with 'c'), or the role"
    " 'Storage Blob Data Contributor' for the account"
)
_TO_READ_SETTINGS = "an account key, or the letter 'r' of a SAS for the account"


@dataclass(frozen=True, slots=True)
class _ToBlobs(Call[T]):
    """A call to the blob service. queue: the container."""

    queue: QueueRef
    kind: ClassVar[str] = "blob"
    of: ClassVar[str] = "in container"

    def _unlike(self, detail: str) -> ServiceError:
        """Make the error for an answer that Azure Storage cannot have sent."""
        place = f"{self.of} '{self.queue.name}' of account" if self.of else "account"
        return not_the_service(f"{self.doing} {place} '{self.queue.account}'", detail)


@dataclass(frozen=True, slots=True)
class _OfBlob(_ToBlobs[T]):
    """A call for one blob. path: name of the blob. needs: the required permission, as text for
    errors.
    """

    path: str
    needs: str = field()  # type: ignore[misc]  # without the default of `Call`
    hollow: ClassVar[bool] = True
    verb: ClassVar[str] = ""

    @property
    def doing(self) -> str:
        return f"{self.verb} blob '{self.path}'"

    def _request(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        most: int = SMALL_BYTES,
    ) -> Request:
        return Request(method, tuple(self.path.split("/")), "", body, headers, most)


@dataclass(frozen=True, slots=True)
class PutBlob(_OfBlob[None]):
    """Create a blob in one request. If the blob exists, the service answers 409 BlobAlreadyExists
    and does not change the blob.
    """

    data: bytes
    content_type: str = "application/octet-stream"
    verb: ClassVar[str] = "store"

    def request(self, now: float) -> Request:
        headers = {
            "Content-Type": self.content_type,
            "If-None-Match": "*",
            "x-ms-blob-type": "BlockBlob",
        }
        return self._request("PUT", headers, self.data)

    def result(self, answer: Answer) -> None:
        if answer.status != 201 or "etag" not in answer.headers:
            raise self._unlike("it does not say that the blob was created")


# Azurite sends "bytes 0--1/0" for an empty blob
_RANGE = re.compile(r"bytes 0-(-1|[0-9]{1,18})/([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class GetBlob(_OfBlob[bytes]):
    """Read at most the first `most` bytes of a blob, without decompressing them."""

    most: int
    verb: ClassVar[str] = "read"

    def request(self, now: float) -> Request:
        headers = {"x-ms-range": f"bytes=0-{self.most - 1}"}
        return self._request("GET", headers, most=self.most)

    def result(self, answer: Answer) -> bytes:
        span = _RANGE.fullmatch(answer.headers.get("content-range", ""))
        size = len(answer.body)
        if span is None or size != int(span[1]) + 1 or size != min(self.most, int(span[2])):
            raise self._unlike("it does not hold the bytes asked for")
        return answer.body


@dataclass(frozen=True, slots=True)
class DeleteBlob(_OfBlob[None]):
    """Delete a blob."""

    verb: ClassVar[str] = "delete"

    def request(self, now: float) -> Request:
        return self._request("DELETE", {})

    def result(self, answer: Answer) -> None:
        return None


@dataclass(frozen=True, slots=True)
class LookAtBlob(_OfBlob[Mapping[str, str]]):
    """Return a blob's properties: the headers of the answer, by lower-case name.

    The answer has no body. So an answer with an error status may lack the error code.
    """

    verb: ClassVar[str] = "look at"

    def request(self, now: float) -> Request:
        return self._request("HEAD", {})

    def result(self, answer: Answer) -> Mapping[str, str]:
        return answer.headers


@dataclass(frozen=True, slots=True)
class ListBlobs(_OfBlob["tuple[list[Stored], str]"]):
    """Return one page of the blobs whose names begin with `path`, and the marker of the next page.

    count: maximum number of blobs on the page. A page of 100 blobs with their properties fits into
    the size limit of an answer.
    """

    marker: str = ""
    count: int = 100

    @property
    def doing(self) -> str:
        return f"list blobs '{self.path}*'"

    def request(self, now: float) -> Request:
        query = f"restype=container&comp=list&prefix={escaped(self.path)}&maxresults={self.count}"
        query += f"&marker={escaped(self.marker)}" if self.marker else ""
        return Request("GET", (), query, most=SMALL_BYTES)

    def result(self, answer: Answer) -> tuple[list[Stored], str]:
        try:
            return blobs_in(answer.body)
        except ValueError as error:
            raise self._unlike(str(error)) from None


@dataclass(frozen=True, slots=True)
class _OfContainer(_ToBlobs[T]):
    """A call for a whole container. A SAS for one container does not permit such a call."""

    of: ClassVar[str] = "container"
    of_account: ClassVar[bool] = True
    method: ClassVar[str] = ""

    def request(self, now: float) -> Request:
        return Request(self.method, (), "restype=container", most=SMALL_BYTES)


@dataclass(frozen=True, slots=True)
class CreateContainer(_OfContainer[None]):
    """Create the container. If it exists, the service answers 409 ContainerAlreadyExists."""

    method: ClassVar[str] = "PUT"
    doing: ClassVar[str] = "create"
    needs: ClassVar[str] = _OF_CONTAINERS

    def result(self, answer: Answer) -> None:
        if answer.status != 201:
            raise self._unlike("it does not say that the container was created")


@dataclass(frozen=True, slots=True)
class DeleteContainer(_OfContainer[None]):
    """Delete the container and its blobs."""

    method: ClassVar[str] = "DELETE"
    doing: ClassVar[str] = "delete"
    needs: ClassVar[str] = _OF_CONTAINERS

    def result(self, answer: Answer) -> None:
        return None


@dataclass(frozen=True, slots=True)
class LookAtContainer(_OfContainer[Mapping[str, str]]):
    """Return the container's properties: the headers of the answer, by lower-case name."""

    method: ClassVar[str] = "GET"
    doing: ClassVar[str] = "read properties of"
    needs: ClassVar[str] = _TO_READ_SETTINGS

    def result(self, answer: Answer) -> Mapping[str, str]:
        return answer.headers


@dataclass(frozen=True, slots=True)
class KeptDays(_ToBlobs[int]):
    """Return the number of days for which the account's soft delete keeps a deleted blob, or 0 if
    soft delete is off.
    """

    of: ClassVar[str] = ""
    of_account: ClassVar[bool] = True
    doing: ClassVar[str] = "read the blob settings of"
    needs: ClassVar[str] = _TO_READ_SETTINGS

    def request(self, now: float) -> Request:
        return Request("GET", (), "restype=service&comp=properties", most=SMALL_BYTES)

    def result(self, answer: Answer) -> int:
        try:
            return kept_days(answer.body)
        except ValueError as error:
            raise self._unlike(str(error)) from None
