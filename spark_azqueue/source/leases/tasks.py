"""What the worker has due or under way: renewals, and deletes and releases in groups."""

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
    """Deletes or releases begun together. `tell` is called at the end: True if one was refused."""

    left: int
    tell: Callable[[bool], None] | None = None
    refused: bool = False
    done: list[Lease] = field(default_factory=list)
    error: Exception | None = None
    finished: threading.Event = field(default_factory=threading.Event)
    """Set at the end, or at the first error."""

    def note(self, lease: Lease, result: Outcome | Exception) -> bool:
        """Note that one of them ended. Returns True if it was the last."""
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
    """A delete or release to make. is_awaited: its caller waits, and its ledger knows nothing."""

    call: Delete | Release
    retry: RetryPolicy
    group: Group
    is_awaited: bool = False

    @property
    def is_delete_of_ledger(self) -> bool:
        """True if its result is to be recorded in the ledger."""
        return isinstance(self.call, Delete) and not self.is_awaited
