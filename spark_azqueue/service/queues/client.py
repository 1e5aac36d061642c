"""The queues of one account, as the rest of the package sees them.

`in_flight` runs many calls at once. `now` and a queue's own methods make one attempt and wait for
it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

from spark_azqueue.errors import AccessDenied, ServiceError
from spark_azqueue.metrics.latency import Histogram

from ..account import Account
from ..messages import Message, QueueRef
from ..wire.calls import Call
from ..wire.concurrency import Limits
from ..wire.http import Session
from ..wire.transport import InFlight, carried_out
from .calls import Peek, Put
from .management import create_queue, list_queues
from .reach import ProbeUpdate

__all__ = ["InFlight", "Queue", "QueueClient"]

_PROBE_S = 30

T = TypeVar("T")


class QueueClient:
    """The queues of one account. Thread-safe; do not share between processes."""

    def __init__(self, account: Account, session: Session | None = None) -> None:
        """session: with limits or connections of its own, if not those of the account."""
        self._session = session or Session(account)

    def queue(self, ref: QueueRef) -> Queue:
        """Return this queue; sends nothing."""
        return Queue(self, ref)

    def in_flight(self) -> InFlight[Any, Any]:
        """Return a runner for many concurrent calls of one thread."""
        return InFlight(self._session, self._session.wire())

    def now(self, call: Call[T]) -> T:
        """Make one attempt of one call and wait for it. Raises ServiceError."""
        result: T = carried_out(self.in_flight(), call)
        return result

    def create(self, ref: QueueRef) -> bool:
        """Create a queue, with retries. Returns False if it exists already. Raises ServiceError."""
        return create_queue(self._session.account, ref.name)

    def names(self, prefix: str) -> list[str]:
        """The names of the queues that begin so, with retries. Raises ServiceError."""
        return list_queues(self._session.account, prefix)

    @property
    def throttled(self) -> int:
        """How many answers so far said that the service is too busy (503 or 429)."""
        return self._session.throttled

    def requests(self) -> dict[str, int]:
        """How many requests of each kind were sent so far, repeats included: "dequeue": 12."""
        return self._session.requests()

    def latencies(self) -> dict[str, Histogram]:
        """How long requests took so far, by kind: "delete"; if they failed, "delete 503"."""
        return self._session.latencies()

    @property
    def limits(self) -> Limits:
        """What this process has learned of the queues."""
        return self._session.limits

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._session.close()


class Queue:
    """One queue. Every method makes one attempt and raises ServiceError if it fails."""

    def __init__(self, client: QueueClient, ref: QueueRef) -> None:
        self._now = client.now
        self.ref = ref

    def peek(self, count: int) -> tuple[Message, ...]:
        """Read up to `count` visible messages without leasing them (see `Peek`)."""
        return self._now(Peek(self.ref, count)).messages

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
