"""With isolationLevel=readCommitted: which messages give no row, since they are about to expire.

A transactional sink puts messages hidden until their last second. One that its transaction
abandoned is never shown, so it can be read in that second alone. (Poison messages are isolated by
`batches/poison.py`.)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.service.messages import UNKNOWN_TIME, Message

log = logging.getLogger(__name__)

LAST_US = 2_000_000
"""Microseconds: the last second, and one since the service writes times in whole seconds."""

EXPIRED_AFTER_S = 3.0
"""After so long a message that was left has expired: times in whole seconds are up to one less."""

_A_MINUTE_S = 60.0


class Isolation:
    """Tells which messages may be abandoned, and warns of what is left. Used by one thread.

    clock: in seconds.
    """

    def __init__(self, level: IsolationLevel, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_on = level is IsolationLevel.READ_COMMITTED
        self._clock = clock
        self._left = 0
        self._warned_at: float | None = None
        self.until = 0.0
        """When the last message that was left has expired at the latest, by `clock`."""

    def may_be_abandoned(self, message: Message, answered_at: int | None) -> bool:
        """True if the message is to give no row. False without proof: if a time is unknown.

        answered_at: the `Date` of the answer with the message, microseconds since 1970.
        """
        if not self._is_on or answered_at is None or message.expiration_time == UNKNOWN_TIME:
            return False
        return message.expiration_time - answered_at <= LAST_US

    def left(self, count: int) -> None:
        """So many more messages are left to expire: warn, at most once a minute."""
        if not count:
            return
        self._left += count
        now = self._clock()
        self.until = now + EXPIRED_AFTER_S
        if self._warned_at is not None and now - self._warned_at < _A_MINUTE_S:
            return
        self._warned_at = now
        log.warning(
            "isolationLevel=readCommitted: %d messages gave no row so far and are left to expire:"
            " they had two seconds or less to live, so a transaction may have abandoned them",
            self._left,
        )
