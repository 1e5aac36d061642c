"""A call to the service as a value: it makes its request and reads its answer.

`transport.py` sends and retries it. The calls themselves are in `queues/` and `blobs/`.
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
    """The text as a part of a URL: what `urllib.parse.quote` gives, but faster for what we send."""
    if _PLAIN.match(text):
        return text
    if _BASE64.match(text):
        return text.replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    return quote(text, safe="")


SMALL_BYTES = 256 * 2**10
"""The most bytes of an answer without data; of an error, too, if the request bounds its answer."""


class Request(NamedTuple):
    """A request. `path`: segments below the queue or container, unescaped. `query`: escaped.

    headers: besides those of every request. most: bytes of the answer's body, if it succeeds; the
    request may then take longer than the 40 seconds of others. None: `http.MOST_BODY_BYTES`.
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
    """The operation, by which requests are counted: "dequeue"."""
    of: ClassVar[str] = "queue"
    """What `queue` is, in words for an error: "queue", "in container"; "": it is the account's."""
    of_account: ClassVar[bool] = False
    """True if a SAS for the one queue or container can never do it."""
    hollow: ClassVar[bool] = False
    """True if a segment of its path may be empty, as in the name of a blob."""
    needs: ClassVar[str] = READER
    """The permission it takes, in words for an error."""
    by_receipt: ClassVar[bool] = False
    """True if it names a message by a pop receipt. If that is dead, `refused` gives the result."""
    turn: ClassVar[Turn] = Turn.IN_TURN
    """How it waits for the limits, if it begins by `try_begin`."""

    if TYPE_CHECKING:

        @property
        def queue(self) -> QueueRef:
            """The queue, or the container."""

        @property
        def doing(self) -> str:
            """The action in words, to be followed by `of` and the name."""

    def request(self, now: float) -> Request:
        """The request of an attempt that begins now (seconds since 1970)."""
        raise NotImplementedError

    def result(self, answer: Answer) -> T:
        """Read a successful answer. Raises ServiceError if the service would not write it."""
        raise NotImplementedError

    def refused(self, error: ServiceError) -> T:
        """The result if the receipt is dead: unknown, or no longer the newest."""
        raise NotImplementedError
