"""One container of an account: its connections, the time of a call, and what it lacks in words."""

from __future__ import annotations

from typing import TypeVar

from spark_azqueue.errors import ServiceError
from spark_azqueue.errors.conditions import Condition

from ..account import Account
from ..credentials import Plane
from ..messages import QueueRef
from ..retry import RetryPolicy
from ..wire.calls import Call
from ..wire.http import Session
from ..wire.transport import InFlight, carried_out
from .calls import CreateContainer, DeleteBlob, DeleteContainer, GetBlob

T = TypeVar("T")

CALL_S = 60.0
"""The longest that a call takes, with all its attempts, besides the time for a body."""

_NOTHING_IN_RANGE = 416

SLOWEST_BYTES_PER_S = 128 * 1024
"""The deadline of a call allows for the body at this rate."""

_ATTEMPT_S = 15.0
"""How long one request may stay without an answer, if it is small. Of a call's 60 s, some are left
for another attempt: a request can hang on a connection that died.
"""


class Container:
    """A container. Connects when first used. Thread-safe; do not share between processes."""

    def __init__(
        self, account: Account, name: str, *, if_missing: str, within_s: float = CALL_S
    ) -> None:
        """account: its `url` is the blob endpoint. if_missing: what to do if the container does not
        exist, for the error. within_s: the longest that a call may take, in seconds, without the
        time for a body.
        """
        self.ref = QueueRef(account.name, name)
        self._if_missing = if_missing
        self._within_s = within_s
        self._session = Session(account, plane=Plane.BLOBS)

    @property
    def place(self) -> str:
        """For texts: "container 'logs' of account 'shop'"."""
        return f"container '{self.ref.name}' of account '{self.ref.account}'"

    def seconds(self, size: int) -> float:
        """The longest that a call with a body of this many bytes may take."""
        return self._within_s + size / SLOWEST_BYTES_PER_S

    def once(self, call: Call[T], size: int = 0) -> T:
        """Make one attempt of a call. size: bytes of its body. Raises ServiceError."""
        return self._told(call, None, self.seconds(size))

    def do(
        self,
        call: Call[T],
        size: int = 0,
        *,
        retry_s: float | None = None,
        within_s: float | None = None,
    ) -> T:
        """Make a call, with retries. Raises ServiceError.

        size: bytes of its body, or of the answer's. retry_s: no attempt begins later; None: than
        the time without a body. within_s: what is left, if that is less.
        """
        seconds = self.seconds(size) if within_s is None else min(within_s, self.seconds(size))
        attempt_s = min(_ATTEMPT_S, self._within_s / 4) + size / SLOWEST_BYTES_PER_S
        retry = RetryPolicy(self._within_s if retry_s is None else retry_s, attempt_s)
        return self._told(call, retry, seconds)

    def read(self, path: str, most: int, needs: str) -> bytes | None:
        """The first `most` bytes of a blob, with retries; None if there is none.

        Requests no more, and decompresses nothing.
        """
        try:
            return self.do(GetBlob(self.ref, path, needs, most), most)
        except ServiceError as error:
            if error.code == "BlobNotFound":
                return None
            if error.status != _NOTHING_IN_RANGE:
                raise
            return b""  # it has no first byte

    def delete(self, path: str, needs: str) -> None:
        """Delete a blob, with retries. Succeeds if it is absent. Raises ServiceError."""
        try:
            self.do(DeleteBlob(self.ref, path, needs))
        except ServiceError as error:
            if error.code != "BlobNotFound":
                raise

    def create(self) -> bool:
        """Create it, in one attempt. Returns False if it exists already. Raises ServiceError."""
        try:
            self.once(CreateContainer(self.ref))
        except ServiceError as error:
            if error.code != "ContainerAlreadyExists":
                raise
            return False
        return True

    def remove(self) -> None:
        """Delete it with its blobs, in one attempt. Raises ServiceError."""
        self.once(DeleteContainer(self.ref))

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._session.close()

    def _told(self, call: Call[T], retry: RetryPolicy | None, within_s: float) -> T:
        """Make the call; say what helps if the container is missing."""
        try:
            flight = InFlight[None, T](self._session, self._session.wire())
            return carried_out(flight, call, retry, within_s)
        except ServiceError as error:
            if error.code != "ContainerNotFound":
                raise
            told = ServiceError(
                f"{error.sentence}. {self._if_missing}",
                condition=Condition.CONTAINER_NOT_FOUND,
                status=error.status,
                code=error.code,
                request_id=error.request_id,
            )
            told.unanswered = error.unanswered
            raise told from None
