"""Registry of the listeners in this process, for code that waits until listeners are notified of a
run's end.

This module does not import Spark, so that decisions about restarts need no Spark.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol
from weakref import WeakSet


class Observer(Protocol):
    """Interface of an AzQueueListener."""

    def observes(self, query: Any) -> bool:
        """True if the observer gets the events of this run."""

    def wait_for_end(self, query: Any, timeout_s: float) -> bool:
        """Wait until the observer is notified of the end of this run. Return False after
        `timeout_s` seconds.
        """


_lock = threading.Lock()
_all: WeakSet[Observer] = WeakSet()


def register(observer: Observer) -> None:
    """Register an observer. The observer is removed when no other object refers to it."""
    with _lock:
        _all.add(observer)


def observers_of(query: Any) -> list[Observer]:
    """Return the observers that get the events of this run."""
    with _lock:
        found = list(_all)
    return [each for each in found if each.observes(query)]
