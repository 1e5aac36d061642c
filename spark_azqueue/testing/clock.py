"""A clock that tests advance, so that leases and messages expire without waiting."""

from __future__ import annotations

import threading
import time


class FakeClock:
    """Unix time in seconds: real time plus what the tests have added to it. Thread-safe.

    `start`: the first time, in unix seconds (default: now). With `frozen=True`, only `advance`
    moves the clock. It never runs backwards, even if the machine's clock is set back.
    """

    def __init__(self, start: float | None = None, *, frozen: bool = False) -> None:
        self._lock = threading.Lock()
        self._base = time.time() if start is None else float(start)
        self._origin = time.monotonic()
        self._frozen = frozen

    def now(self) -> float:
        """Return the time in unix seconds, with fractions."""
        with self._lock:
            return self._now()

    def advance(self, seconds: float) -> float:
        """Move the clock forward by `seconds`; return the new time.

        Raises ValueError for a negative number: queues are ordered by time, and the service's
        own clock does not run backwards.
        """
        if seconds < 0:
            raise ValueError(f"the clock only moves forward, not by {seconds} s")
        with self._lock:
            self._base += seconds
            return self._now()

    def _now(self) -> float:
        return self._base if self._frozen else self._base + time.monotonic() - self._origin
