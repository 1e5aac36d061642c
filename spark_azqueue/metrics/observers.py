"""The listeners of this process, for those that wait until they know of the end of a run.

Pure, so that what decides about restarts needs no Spark.
"""

from __future__ import annotations

import threading
from typing import Any, Protocol
from weakref import WeakSet


class Observer(Protocol):
    """An AzQueueListener."""

    def observes(self, query: Any) -> bool:
        """True if it gets the events of this run."""

    def wait_for_end(self, query: Any, timeout_s: float) -> bool:
        """Wait until it knows of the end of this run; False if that takes too long."""


_lock = threading.Lock()
_all: WeakSet[Observer] = WeakSet()


def register(observer: Observer) -> None:
    """Name an observer to `observers_of`. It is dropped when nothing else refers to it."""
    with _lock:
        _all.add(observer)


def observers_of(query: Any) -> list[Observer]:
    """The observers that get the events of this run."""
    with _lock:
        found = list(_all)
    return [each for each in found if each.observes(query)]
