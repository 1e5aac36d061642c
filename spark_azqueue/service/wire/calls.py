"""A call to the service as a value: an object that makes the request and parses the answer.

`transport.py` sends and retries calls. The calls themselves are in `queues/` and `blobs/`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar
from urllib.parse import quote

from spark_azqueue.errors import ServiceError

from ..answers import READER
from ..incoming import Answer
from ..messages import QueueRef
from .concurrency import Turn

T = TypeVar("T", covariant=True)

_PLAIN = re.compile(r"[A-Za-z0-9_.~-]*\Z")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]*\Z")


def escaped(text: str) -> str:
    """Return the text escaped for a URL, like `urllib.parse.quote`, but faster."""
    if _PLAIN.match(text):
        return text
    if _BASE64.match(text):
        return text.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    return quote(text, safe="")


SMALL_BYTES = 256 * 2**10
"""Maximum size, in bytes, of an answer without data. Also the maximum size of an error answer to a
request with `most`.
"""


class Request(NamedTuple):
    """A request. `path`: unescaped segments below the queue or container. `query`: escaped.

    headers: headers that only this request has. most: maximum size of the body of a successful
    answer, in bytes; None for `http.MOST_BODY_BYTES`. A request with `most` may take longer than
    the usual 40 seconds.
    """

    method: str
    path: tuple[str, ...]
    query: str
    body: bytes | None = None
    headers: Mapping[str, str] = MappingProxyType({})
    most: int | None = None


class Call(Generic[T]):
    """One call to one queue or container, or to the account, with a result of type T."""

    __slots__ = ()
    kind: ClassVar[str] = "other"
    """Name of the operation, such as "dequeue". Metrics count requests by this name."""
    of: ClassVar[str] = "queue"
    """Text that precedes the name `queue` in an error, such as "queue" or "in container"; "" for a
    call to the account.
    """
    of_account: ClassVar[bool] = False
    """True if only a SAS for the account permits the call, not a SAS for one queue or container."""
    hollow: ClassVar[bool] = False
    """True if a segment of the path may be empty or consist of dots, as in the name of a blob."""
    needs: ClassVar[str] = READER
    """Permission that the call needs, as text for an error."""
    by_receipt: ClassVar[bool] = False
    """True if the call names a message by a pop receipt. If the receipt is stale, `refused` makes
    the result.
    """
    turn: ClassVar[Turn] = Turn.IN_TURN
    """How the call waits for the limits if it begins with `try_begin`."""

    if TYPE_CHECKING:

        @property
        def queue(self) -> QueueRef:
            """The queue, or the container."""

        @property
        def doing(self) -> str:
            """The action as text for errors. In errors, `of` and the queue's name follow this
            text."""

    def request(self, now: float) -> Request:
        """Return the request for an attempt that begins now. now: seconds since 1970."""
        raise NotImplementedError

    def result(self, answer: Answer) -> T:
        """Parse a successful answer. Raises ServiceError if the service would not send it."""
        raise NotImplementedError

    def refused(self, error: ServiceError) -> T:
        """Return the result for a receipt that the service refused, because it is unknown or no
        longer the newest."""
        raise NotImplementedError
