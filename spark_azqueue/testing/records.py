"""Counts and lists the requests to the fake service. Not thread-safe: callers must hold a lock."""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

_FAILURES_AT_MOST = 100


class LogEntry(NamedTuple):
    """One request."""

    op: str
    queue: str
    id: str
    """The message id in the URL (update, delete), else empty."""
    status: int
    """The HTTP status, 0 if there was no answer."""


class Records:
    """Counters of all requests, and the last of them."""

    def __init__(self, log_size: int) -> None:
        self.requests: Counter[str] = Counter()
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.log: deque[LogEntry] = deque(maxlen=log_size)
        self.failures: deque[Exception] = deque(maxlen=_FAILURES_AT_MOST)
        """Exceptions that show a bug in the fake."""

    def note(self, entry: LogEntry) -> None:
        """Count one request and add it to the log."""
        self.requests[entry.op] += 1
        self.statuses[entry.op, entry.status] += 1
        self.log.append(entry)

    def clear(self) -> None:
        """Forget everything."""
        self.requests.clear()
        self.statuses.clear()
        self.log.clear()
        self.failures.clear()
