"""Client for the queues of one account.

`in_flight` runs many calls concurrently. `now` and the methods of `Queue` make one attempt and wait
for the answer.
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
        """session: a session with its own limits or connections; None for a session with the
        account's limits.
        """
        self._session = session or Session(account)

    def queue(self, ref: QueueRef) -> Queue:
        """Return this queue. Sends nothing."""
        return Queue(self, ref)

    def in_flight(self) -> InFlight[Any, Any]:
        """Return an object that runs many concurrent calls of one thread."""
        return InFlight(self._session, self._session.wire())

    def now(self, call: Call[T]) -> T:
        """Make one attempt of a call, and wait for the answer. Raises ServiceError."""
        result: T = carried_out(self.in_flight(), call)
        return result

    def create(self, ref: QueueRef) -> bool:
        """Create a queue, with retries. Returns False if it exists already. Raises ServiceError."""
        return create_queue(self._session.account, ref.name)

    def names(self, prefix: str) -> list[str]:
        """Return the names of the queues that begin with `prefix`, with retries.

        Raises ServiceError.
        """
        return list_queues(self._session.account, prefix)

    @property
    def throttled(self) -> int:
        """Number of answers so far with which the service throttled a request (503 or 429)."""
        return self._session.throttled

    def requests(self) -> dict[str, int]:
        """Return the number of requests sent so far by kind, including retries: {"dequeue": 12}."""
        return self._session.requests()

    def latencies(self) -> dict[str, Histogram]:
        """Return the durations of requests so far, by kind, such as "delete". The kind of a failed
        request includes the error, as in "delete 503".
        """
        return self._session.latencies()

    @property
    def limits(self) -> Limits:
        """Limits of the queues that this process has learned."""
        return self._session.limits

    def close(self) -> None:
        """Close the connections. A later call opens new connections."""
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
        """Check that the queue exists, and that the credential may update its messages. Returns the
        service's time.
        """
        return self._now(ProbeUpdate(self.ref))

    def check_put(self) -> None:
        """Check that the credential may put into this queue, without adding a message.

        The queue must exist. Sends a message that would expire at the moment at which it becomes
        visible. The service refuses this message with 400 if the credential may put, and with 403
        if not. If a service accepted the message, no consumer would get it. Raises AccessDenied,
        ServiceError.
        """
        try:
            self.put("", _PROBE_S, _PROBE_S)
        except AccessDenied:
            raise
        except ServiceError as error:
            if error.status != 400:
                raise
