"""Which of many leases is to be renewed next, without looking at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from spark_azqueue.service.messages import MessageKey

_OUTDATED = 1_000
"""How many outdated times may be kept, in addition to as many as there are valid ones."""


class Schedule:
    """Keys, each with a time. A time that is not valid any more is dropped when it comes up.

    valid: says whether a key is still expected at this time.
    """

    def __init__(self, valid: Callable[[MessageKey, float], bool]) -> None:
        self._valid = valid
        self._times: list[tuple[float, MessageKey]] = []
        self._kept = 0  # how many were valid at the last clean-up

    def add(self, key: MessageKey, at: float) -> None:
        """Expect this key at this time."""
        heapq.heappush(self._times, (at, key))
        if len(self._times) > 2 * self._kept + _OUTDATED:
            self._times = [each for each in self._times if self._valid(each[1], each[0])]
            heapq.heapify(self._times)
            self._kept = len(self._times)

    def soonest(self) -> tuple[float, MessageKey] | None:
        """The earliest time that is valid, with its key; None if there is none."""
        while self._times:
            at, key = self._times[0]
            if self._valid(key, at):
                return at, key
            heapq.heappop(self._times)
        return None

    def __len__(self) -> int:
        """How many times are kept, outdated ones included."""
        return len(self._times)
