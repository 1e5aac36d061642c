"""Requests of the worker, due or under way: renewals, and groups of deletes and releases."""

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
    """A renewal under way."""

    lease: Lease
    visibility_s: int
    sent_at: float


@dataclass(slots=True, eq=False)
class Group:
    """Deletes or releases begun together. The last one calls `tell`: True if any was refused."""

    left: int
    tell: Callable[[bool], None] | None = None
    refused: bool = False
    done: list[Lease] = field(default_factory=list)
    error: Exception | None = None
    finished: threading.Event = field(default_factory=threading.Event)
    """Set at the end, or at the first error."""

    def note(self, lease: Lease, result: Outcome | Exception) -> bool:
        """Note the result of one request. Return True if it was the group's last."""
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
    """A delete or release to send. is_awaited: a caller waits for it; it is not in the ledger."""

    call: Delete | Release
    retry: RetryPolicy
    group: Group
    is_awaited: bool = False

    @property
    def is_delete_of_ledger(self) -> bool:
        """True for a delete whose result the ledger records."""
        return isinstance(self.call, Delete) and not self.is_awaited
