"""End of an availableNow run: wait until invisible messages become visible, or are deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from spark_azqueue.errors import NotDrained

from ..leases.timing import LONGEST_S
from ..offsets import moment
from .monitor import QueueMonitor

log = logging.getLogger(__name__)

_WAIT_AT_MOST_S = LONGEST_S + 60.0
"""Longest wait, in seconds: longer than any lease of `visibilityTimeout=auto`."""

_LOOK_AGAIN_S = 5.0
_A_MOMENT_S = 0.5


class HiddenWait:
    """Makes an availableNow run wait for invisible messages. Used by one thread."""

    def __init__(self, monitor: QueueMonitor, sleep: Callable[[float], None]) -> None:
        self._monitor = monitor
        self._sleep = sleep
        self._is_reported = False
        self.has_waited = False
        """True if the run has waited for messages that were skipped near their expiry."""

    def is_over(
        self, what: str, left: float, until: float, queues: Iterable[str], expires_in: float
    ) -> bool:
        """Return True if these queues have no messages. Otherwise wait some seconds and return
        False.

        what: text for logs and errors that names the messages that may be invisible. left: seconds
        until the last of these messages is visible. until: the same time in seconds since 1970.
        expires_in: seconds until all messages that were skipped near their expiry have expired.

        Raises NotDrained if `left` is above 3,660 s.
        """
        counts = self._monitor.backlog.now()
        if not any(counts.get(name, 1) for name in queues):
            return True  # the count includes invisible messages
        if left > _WAIT_AT_MOST_S:
            # The queues may have only messages that were skipped near their expiry.
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
            log.warning("%s: this availableNow run waits for them, at most %d s", what, left)
        self._sleep(min(left + _A_MOMENT_S, _LOOK_AGAIN_S))
        return False
