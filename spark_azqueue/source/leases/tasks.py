"""Requests that the lease worker sends: renewals, deletes and releases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Delete, Release
from spark_azqueue.service.retry import RetryPolicy


@dataclass(slots=True, eq=False)
class Renewal:
    """A renewal that has no answer yet."""

    lease: Lease
    visibility_s: int
    sent_at: float


@dataclass(slots=True, eq=False)
class Group:
    """Deletes or releases that a caller began in one call.

    tell: called when the last request has ended, with True if any request was refused.
    """

    left: int
    tell: Callable[[bool], None] | None = None
    refused: bool = False
    done: list[Lease] = field(default_factory=list)
    error: Exception | None = None
    finished: threading.Event = field(default_factory=threading.Event)
    """Set when all requests have ended, or when a request has failed."""

    def note(self, lease: Lease, result: Outcome | Exception) -> bool:
        """Record the result of one request. Return True if no request of the group is left."""
        self.left -= 1
        if isinstance(result, Exception):
            self.error = result
        else:
            self.refused |= result.refused
            if result is Outcome.OK:
                self.done.append(lease)
        return not self.left


@dataclass(slots=True, eq=False)
class Task:
    """A delete or release to send.

    is_awaited: a caller waits for the result. In this case the ledger does not have the message.
    """

    call: Delete | Release
    retry: RetryPolicy
    group: Group
    is_awaited: bool = False

    @property
    def is_delete_of_ledger(self) -> bool:
        """True if the task is a delete whose result the ledger records."""
        return isinstance(self.call, Delete) and not self.is_awaited
