"""When a run that ends has read everything: it waits for messages that lost leases hide."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from spark_azqueue.errors import NotDrained

from ..leases.timing import LONGEST_S
from ..offsets import moment
from .monitor import QueueMonitor

log = logging.getLogger(__name__)

_WAIT_AT_MOST_S = LONGEST_S + 60.0
"""Longer than any lease of `auto`."""

_LOOK_AGAIN_S = 5.0
_A_MOMENT_S = 0.5


class HiddenWait:
    """Used by one thread."""

    def __init__(self, monitor: QueueMonitor, sleep: Callable[[float], None]) -> None:
        self._monitor = monitor
        self._sleep = sleep
        self._is_reported = False
        self.has_waited = False
        """It has waited for what was skipped near expiry."""

    def is_over(
        self, what: str, left: float, until: float, queues: Iterable[str], expires_in: float
    ) -> bool:
        """True if none of these queues holds a message; else some time passes.

        what: may be hidden, for texts. left: for how long at most, in seconds; until: the same in
        seconds since 1970. expires_in: when all that was skipped has expired, in seconds.
        Raises NotDrained if that takes too long.
        """
        counts = self._monitor.backlog.now()
        if not any(counts.get(name, 1) for name in queues):
            return True  # the service counts hidden ones, too
        if left > _WAIT_AT_MOST_S:
            # The service counts what was skipped near expiry, too, and perhaps nothing else.
            if expires_in > 0:
                self.has_waited = True
                self._sleep(expires_in)
                return False
            raise NotDrained(
                f"this availableNow run has read all that it could get, but {what} until"
                f" {moment(int(until) + 1)} at the latest: start the query again then. Nothing is"
                " lost"
            )
        if not self._is_reported:
            self._is_reported = True
            log.warning("%s: this availableNow run waits for them, %d s at most", what, left)
        self._sleep(min(left + _A_MOMENT_S, _LOOK_AGAIN_S))
        return False
