"""The queues of one account, as the rest of the package sees them.

`in_flight` runs many calls at once. `now` and a queue's own methods make one attempt and wait for
it. The rest of the package takes a `QueueClient`, which is an `AzureQueueClient` by default.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol, TypeVar

from spark_azqueue.errors import AccessDenied, ServiceError

from ..account import Account
from ..messages import Message, QueueRef
from ..retry import Retry
from .calls import Call, Peek, Put
from .management import create_queue, list_queues
from .probes import ProbeUpdate
from .transport import Transport

_PROBE_S = 30

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

    def try_begin(self, tag: Tag, call: Call[T], retry: Retry | None = None) -> bool:
        """Begin a call if the limits of its queue allow one more (see `limits.py`). Never raises.

        If not, returns False, and `ended` returns at the latest when another try makes sense.
        """
        ...

    def ended(self, timeout_s: float | None = None) -> list[tuple[Tag, T | Exception]]:
        """Results (or errors), each with its tag: at least one, unless `timeout_s` is over.

        Returns [] if no call is under way and none waits for the limits.
        """
        ...

    def close(self) -> None:
        """Abandon the calls under way. It is unknown whether they took effect."""
        ...


class Queue(Protocol):
    """One queue. Every method makes one attempt and raises ServiceError if it fails."""

    ref: QueueRef

    def peek(self, count: int) -> tuple[Message, ...]:
        """Read up to `count` visible messages without leasing them (see `Peek`)."""
        ...

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

    def now(self, call: Call[T]) -> T:
        """Make one attempt of one call and wait for it. Raises ServiceError."""
        ...

    @property
    def throttled(self) -> int:
        """How many answers so far said that the service is too busy (503 or 429)."""
        ...

    def create(self, ref: QueueRef) -> bool:
        """Create a queue, with retries. Returns False if it exists already. Raises ServiceError."""
        ...

    def names(self, prefix: str) -> list[str]:
        """The names of the queues that begin so, with retries. Raises ServiceError."""
        ...

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        ...


class AzureQueueClient:
    """The queues of one account. Thread-safe; do not share between processes."""

    def __init__(self, account: Account) -> None:
        self._account = account
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

    @property
    def throttled(self) -> int:
        """How many answers so far said that the service is too busy (503 or 429)."""
        return self._transport.throttled

    def create(self, ref: QueueRef) -> bool:
        """Create a queue, with retries. Returns False if it exists already. Raises ServiceError."""
        return create_queue(self._account, ref.name)

    def names(self, prefix: str) -> list[str]:
        """The names of the queues that begin so, with retries. Raises ServiceError."""
        return list_queues(self._account, prefix)

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._transport.close()


class AzureQueue:
    """One queue. Every method makes one attempt and raises ServiceError if it fails."""

    def __init__(self, transport: Transport, ref: QueueRef) -> None:
        self._now = transport.now
        self.ref = ref

    def peek(self, count: int) -> tuple[Message, ...]:
        """Read up to `count` visible messages without leasing them (see `Peek`)."""
        return self._now(Peek(self.ref, count))

    def put(self, text: str, delay_s: int = 0, ttl_s: int | None = None) -> None:
        """Enqueue a text (see `Put`)."""
        self._now(Put(self.ref, text, delay_s, ttl_s))

    def check(self) -> datetime:
        """Check that the queue exists and that we may update in it; return the service's time."""
        return self._now(ProbeUpdate(self.ref))

    def check_put(self) -> None:
        """Check that we may put into this queue (which must exist), without putting anything.

        Sends a message that expires when it becomes visible. The service refuses it with 400 if we
        may put, and with 403 if we may not. If a service took it, no consumer would see it.
        Raises AccessDenied, ServiceError.
        """
        try:
            self.put("", _PROBE_S, _PROBE_S)
        except AccessDenied:
            raise
        except ServiceError as error:
            if error.status != 400:
                raise
