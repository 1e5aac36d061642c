"""Which of many leases is to be renewed next, without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from spark_azqueue.service.messages import MessageKey

_OUTDATED = 1_000
"""How many outdated times may be kept, in addition to as many as there are valid ones."""


class Schedule:
    """Keys, each with a time. A time that is not valid any more is dropped when it comes up.

    The messages of a page share their time, so the heap holds each time once.

    valid: says whether a key is still expected at this time.
    """

    def __init__(self, valid: Callable[[MessageKey, float], bool]) -> None:
        self._valid = valid
        self._times: list[float] = []  # a heap
        self._keys: dict[float, list[MessageKey]] = {}  # by time
        self._sorted: float | None = None  # the time whose keys are in order, the first one last
        self._count = 0
        self._kept = 0  # how many were valid at the last clean-up

    def add(self, key: MessageKey, at: float) -> None:
        """Expect this key at this time."""
        keys = self._keys.get(at)
        if keys is None:
            heapq.heappush(self._times, at)
            self._keys[at] = [key]
        else:
            keys.append(key)
            if at == self._sorted:
                self._sorted = None
        self._count += 1
        if self._count > 2 * self._kept + _OUTDATED:
            self._clean_up()

    def soonest(self) -> tuple[float, MessageKey] | None:
        """The earliest time that is valid, with its key (of several, the lowest); or None."""
        while self._times:
            at = self._times[0]
            keys = self._keys[at]
            if at != self._sorted:
                keys.sort(reverse=True)
                self._sorted = at
            while keys:
                if self._valid(keys[-1], at):
                    return at, keys[-1]
                keys.pop()
                self._count -= 1
            heapq.heappop(self._times)
            del self._keys[at]
        return None

    def __len__(self) -> int:
        """How many times are kept, outdated ones included."""
        return self._count

    def _clean_up(self) -> None:
        self._keys = {
            at: valid
            for at, keys in self._keys.items()
            if (valid := [key for key in keys if self._valid(key, at)])
        }
        self._times = sorted(self._keys)
        self._sorted = None
        self._count = self._kept = sum(map(len, self._keys.values()))
