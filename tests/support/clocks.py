"""A clock that a test sets, in place of a module's `time`."""

from __future__ import annotations

import time

_MORE_S = 1e-6
"""A sleep ends a little after its time."""


class Clock:
    """Stands still until somebody sleeps, or advances it. `time` is the real one: it is for dates.

    slept: how long was slept, each time.
    """

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds + _MORE_S
