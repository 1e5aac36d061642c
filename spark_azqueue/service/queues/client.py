"""The queues of one account, as the rest of the package sees them.

Many calls at once go `in_flight`; a queue's own methods make one call, once, and wait.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeVar

from spark_azqueue.errors import Outcome, ServiceError

from ..account import Account
from ..messages import Lease, Message
from ..retry import Retry
from .calls import Call, Count, Delete, Dequeue, Page, Peek, ProbeUpdate, Put, Update
from .transport import Transport

Tag = TypeVar("Tag")
T = TypeVar("T")


class InFlight(Protocol[Tag, T]):
    """Calls under way at once, for one thread, which must ask `ended` to keep them going."""

    def __len__(self) -> int:
        """How many calls have begun whose result was not given yet."""
        ...

    def begin(
        self, tag: Tag, call: Call[T], retry: Retry | None = None, within_s: float | None = None
    ) -> None:
        """Begin a call, to be tried again as `retry` says (None: one attempt). Never raises.

        within_s: give up what has no answer by then. Whether it took effect is not known.
        """
        ...

    def ended(self, timeout_s: float | None = None) -> list[tuple[Tag, T | Exception]]:
        """Results (or errors) that came, each with its tag: at least one, unless the time is up."""
        ...

    def close(self) -> None:
        """Break off what is under way."""
        ...


class Queue(Protocol):
    """One queue. Every method makes one attempt, and raises ServiceError where it fails."""

    name: str

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        """Enqueue a text (see `Put`)."""
        ...

    def check(self) -> datetime:
        """Check that the queue exists and that we may update in it; return the service's time."""
        ...

    def check_put(self) -> None:
        """Check that we may put into this queue (which exists), without putting anything."""
        ...


class QueueClient(Protocol):
    """The queues of one account."""

    def queue(self, name: str) -> Queue:
        """One of them; nothing is sent."""
        ...

    def in_flight(self) -> InFlight[Any, Any]:
        """For a thread to have many calls under way at once."""
        ...

    def close(self) -> None:
        """Close the connections. What comes later opens new ones."""
        ...


class AzureQueueClient:
    """The queues of one account, from any number of threads of one process."""

    def __init__(self, account: Account) -> None:
        self._transport = Transport(account)

    def queue(self, name: str) -> AzureQueue:
        """One of them; nothing is sent."""
        return AzureQueue(self._transport, name)

    def in_flight(self) -> InFlight[Any, Any]:
        """For a thread to have many calls under way at once."""
        return self._transport.in_flight()

    def now(self, call: Call[T]) -> T:
        """One attempt of one call. Raises ServiceError."""
        return self._transport.now(call)

    def close(self) -> None:
        """Close the connections. What comes later opens new ones."""
        self._transport.close()


class AzureQueue:
    """One queue. Every method makes one attempt, and raises ServiceError where it fails."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._now = transport.now
        self.name = name

    def dequeue(self, count: int, visibility_s: int) -> Page:
        """Lease up to `count` messages (see `Dequeue`)."""
        return self._now(Dequeue(self.name, count, visibility_s))

    def peek(self, count: int) -> tuple[Message, ...]:
        """Look at up to `count` visible messages (see `Peek`)."""
        return self._now(Peek(self.name, count))

    def count(self) -> int:
        """About how many messages it holds (see `Count`)."""
        return self._now(Count(self.name))

    def delete(self, lease: Lease) -> Outcome:
        """Delete by receipt: OK, GONE or LOST (see `Delete`)."""
        return self._now(Delete(lease))

    def update(
        self, lease: Lease, visibility_s: int, text: str | None = None
    ) -> tuple[Outcome, Lease | None]:
        """Hide a message anew, or release it, perhaps with a new text (see `Update`)."""
        return self._now(Update(lease, visibility_s, text))

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        """Enqueue a text (see `Put`)."""
        self._now(Put(self.name, text, delay_s, ttl_s))

    def check(self) -> datetime:
        """Check that the queue exists and that we may update in it; return the service's time."""
        return self._now(ProbeUpdate(self.name))

    def check_put(self) -> None:
        """Check that we may put into this queue (which exists), without putting anything.

        Sends a time to live of 0, which the service refuses with 400 where we may put and with 403
        where we may not. Raises AccessDenied, ServiceError.
        """
        try:
            self.put("", 0, 0)
        except ServiceError as error:
            if error.status != 400:
                raise
