"""Requests of the worker: renewals, and groups of deletes and releases."""

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
    """Deletes or releases that a caller began together.

    tell: called when the last request has ended, with True if any request was refused.
    """

    left: int
    tell: Callable[[bool], None] | None = None
    refused: bool = False
    done: list[Lease] = field(default_factory=list)
    error: Exception | None = None
    finished: threading.Event = field(default_factory=threading.Event)
    """Set when all requests have ended, or at the first error."""

    def note(self, lease: Lease, result: Outcome | Exception) -> bool:
        """Record the result of one request. Return True if this request was the group's last."""
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

    is_awaited: True if a caller waits for the result. The ledger does not have the message of such
    a task.
    """

    call: Delete | Release
    retry: RetryPolicy
    group: Group
    is_awaited: bool = False

    @property
    def is_delete_of_ledger(self) -> bool:
        """True for a delete whose result the ledger records."""
        return isinstance(self.call, Delete) and not self.is_awaited
