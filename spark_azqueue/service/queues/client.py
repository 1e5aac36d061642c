"""The queues of one account, as the rest of the package sees them.

`in_flight` runs many calls at once. A queue's own methods make one attempt and wait for it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeVar

from spark_azqueue.errors import Outcome, ServiceError

from ..account import Account
from ..messages import Lease, Message, QueueRef
from ..retry import Retry
from .calls import Call, Count, Delete, Dequeue, Page, Peek, ProbeUpdate, Put, Update
from .transport import Transport

Tag = TypeVar("Tag")
T = TypeVar("T")


class InFlight(Protocol[Tag, T]):
    """Concurrent calls of one thread. They progress only while that thread is in `ended`."""

    def __len__(self) -> int:
        """How many calls have begun whose results `ended` has not returned yet."""
        ...

    def begin(
        self, tag: Tag, call: Call[T], retry: Retry | None = None, within_s: float | None = None
    ) -> None:
        """Begin a call, to be retried as `retry` says (None: one attempt). Never raises.

        tag: returned with the result. within_s: give up after this many seconds without an answer;
        it is then unknown whether the call took effect.
        """
        ...

    def ended(self, timeout_s: float | None = None) -> list[tuple[Tag, T | Exception]]:
        """Results (or errors), each with its tag: at least one, unless `timeout_s` is over."""
        ...

    def close(self) -> None:
        """Abandon the calls under way. It is unknown whether they took effect."""
        ...


class Queue(Protocol):
    """One queue. Every method makes one attempt and raises ServiceError if it fails."""

    ref: QueueRef

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        """Enqueue a text (see `Put`)."""
        ...

    def check(self) -> datetime:
        """Check that the queue exists and that we may update in it; return the service's time."""
        ...

    def check_put(self) -> None:
        """Check that we may put into this queue (which must exist), without putting anything."""
        ...


class QueueClient(Protocol):
    """The queues of one account."""

    def queue(self, ref: QueueRef) -> Queue:
        """Return this queue; sends nothing."""
        ...

    def in_flight(self) -> InFlight[Any, Any]:
        """Return a runner for many concurrent calls of one thread."""
        ...

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        ...


class AzureQueueClient:
    """The queues of one account. Thread-safe; do not share between processes."""

    def __init__(self, account: Account) -> None:
        self._transport = Transport(account)

    def queue(self, ref: QueueRef) -> AzureQueue:
        """Return this queue; sends nothing."""
        return AzureQueue(self._transport, ref)

    def in_flight(self) -> InFlight[Any, Any]:
        """Return a runner for many concurrent calls of one thread."""
        return self._transport.in_flight()

    def now(self, call: Call[T]) -> T:
        """Make one attempt of one call and wait for it. Raises ServiceError."""
        return self._transport.now(call)

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._transport.close()


class AzureQueue:
    """One queue. Every method makes one attempt and raises ServiceError if it fails."""

    def __init__(self, transport: Transport, ref: QueueRef) -> None:
        self._now = transport.now
        self.ref = ref

    def dequeue(self, count: int, visibility_s: int) -> Page:
        """Lease up to `count` messages (see `Dequeue`)."""
        return self._now(Dequeue(self.ref, count, visibility_s))

    def peek(self, count: int) -> tuple[Message, ...]:
        """Read up to `count` visible messages without leasing them (see `Peek`)."""
        return self._now(Peek(self.ref, count))

    def count(self) -> int:
        """Approximate number of messages in the queue (see `Count`)."""
        return self._now(Count(self.ref))

    def delete(self, lease: Lease) -> Outcome:
        """Delete by receipt. Returns OK, GONE, LOST or PROBABLY (see `Delete`)."""
        return self._now(Delete(lease))

    def update(
        self, lease: Lease, visibility_s: int, text: str | None = None
    ) -> tuple[Outcome, Lease | None]:
        """Hide a message again or release it, with a new text if given (see `Update`)."""
        return self._now(Update(lease, visibility_s, text))

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        """Enqueue a text (see `Put`)."""
        self._now(Put(self.ref, text, delay_s, ttl_s))

    def check(self) -> datetime:
        """Check that the queue exists and that we may update in it; return the service's time."""
        return self._now(ProbeUpdate(self.ref))

    def check_put(self) -> None:
        """Check that we may put into this queue (which must exist), without putting anything.

        Sends a time to live of 0. The service refuses it with 400 if we may put, and with 403 if
        we may not. Raises AccessDenied, ServiceError.
        """
        try:
            self.put("", 0, 0)
        except ServiceError as error:
            if error.status != 400:
                raise
