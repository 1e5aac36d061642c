"""One container of an account: connections, time limits, and the error for a missing container."""

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
"""Maximum time of a call with all its attempts, in seconds, besides the time to transfer a body."""

_NOTHING_IN_RANGE = 416

SLOWEST_BYTES_PER_S = 128 * 1024
"""Lowest transfer rate of a body that the maximum time of a call allows for."""

_ATTEMPT_S = 15.0
"""Maximum time to wait for the answer to an attempt without a large body, in seconds.

A request on a broken connection gets no answer. So this time is shorter than the 60 s of a call,
which leaves time for another attempt.
"""


class Container:
    """A container. Connects on first use. Thread-safe; do not share between processes."""

    def __init__(
        self, account: Account, name: str, *, if_missing: str, within_s: float = CALL_S
    ) -> None:
        """Store the name of the container. Sends no request.

        account: the account; its `url` is the blob endpoint. if_missing: remedy, for the error
        about a missing container. within_s: maximum time of a call in seconds, besides the time to
        transfer a body.
        """
        self.ref = QueueRef(account.name, name)
        self._if_missing = if_missing
        self._within_s = within_s
        self._session = Session(account, plane=Plane.BLOBS)

    @property
    def place(self) -> str:
        """The container as text for errors: "container 'logs' of account 'shop'"."""
        return f"container '{self.ref.name}' of account '{self.ref.account}'"

    def seconds(self, size: int) -> float:
        """Return the maximum time, in seconds, of a call with a body of `size` bytes."""
        return self._within_s + size / SLOWEST_BYTES_PER_S

    def once(self, call: Call[T], size: int = 0) -> T:
        """Make one attempt of a call. size: bytes of the body. Raises ServiceError."""
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

        size: bytes of the body of the request or the answer. retry_s: seconds after which no
        further attempt begins; None for the call's maximum time without the time to transfer a
        body. within_s: number of seconds that the caller has left; None if the call may take its
        maximum time.
        """
        seconds = self.seconds(size) if within_s is None else min(within_s, self.seconds(size))
        attempt_s = min(_ATTEMPT_S, self._within_s / 4) + size / SLOWEST_BYTES_PER_S
        retry = RetryPolicy(self._within_s if retry_s is None else retry_s, attempt_s)
        return self._told(call, retry, seconds)

    def read(self, path: str, most: int, needs: str) -> bytes | None:
        """Read at most the first `most` bytes of a blob, with retries. Return None if the blob does
        not exist.

        Requests no more than these bytes, and never decompresses them.
        """
        try:
            return self.do(GetBlob(self.ref, path, needs, most), most)
        except ServiceError as error:
            if error.code == "BlobNotFound":
                return None
            if error.status != _NOTHING_IN_RANGE:
                raise
            return b""  # an empty blob has no first byte

    def delete(self, path: str, needs: str) -> None:
        """Delete a blob, with retries. Succeeds if the blob does not exist. Raises ServiceError."""
        try:
            self.do(DeleteBlob(self.ref, path, needs))
        except ServiceError as error:
            if error.code != "BlobNotFound":
                raise

    def create(self) -> bool:
        """Create the container, in one attempt. Returns False if it exists. Raises ServiceError."""
        try:
            self.once(CreateContainer(self.ref))
        except ServiceError as error:
            if error.code != "ContainerAlreadyExists":
                raise
            return False
        return True

    def remove(self) -> None:
        """Delete the container and its blobs, in one attempt. Raises ServiceError."""
        self.once(DeleteContainer(self.ref))

    def close(self) -> None:
        """Close the connections. A later call opens new connections."""
        self._session.close()

    def _told(self, call: Call[T], retry: RetryPolicy | None, within_s: float) -> T:
        """Make the call. If the container is missing, add the remedy to the error."""
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
