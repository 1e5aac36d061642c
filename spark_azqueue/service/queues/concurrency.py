"""How many requests may be under way at once, learned from how long they take.

More requests under way bring more throughput until they wait for each other: in the service, or in
our own process, which is one core. From then on they only take longer. Time is an argument.
"""

from __future__ import annotations

_FIRST = 8.0
_LEAST = 4.0
_START_FACTOR = 2.0
_FACTOR = 1.25

_WAITS = 1.5
"""At so many times the smallest latency, requests wait for each other: the limit stays."""
_WAITS_LONG = 2.0
"""At so many times it, the limit shrinks."""

_SHRINK = 0.75
_HELPS = 0.9
"""A shrink helps if latency falls below this part of what it was. If it does not, then requests do
not wait for each other: the service has become slower, and the smallest latency is learned anew."""
_AGAIN_S = 5.0
"""How long the limit stays as it is before a shrink shows whether requests still wait."""

_FEWEST = 16
_LONGEST_WINDOW_S = 2.0


class Concurrency:
    """A limit on requests under way, for one queue or for one process."""

    def __init__(self, most: int) -> None:
        """most: the limit never grows beyond it."""
        self._most = float(most)
        self.size = min(_FIRST, self._most)
        """The limit. Of a fraction, the whole part counts."""
        self.under_way = 0
        """How many have begun and not ended."""
        self._base: float | None = None  # seconds: the smallest mean latency of a window
        self._starting = True
        self._before_shrink: float | None = None  # set while a shrink is being judged
        self._decided_at = float("-inf")
        self._begin_window(float("-inf"))

    def has_room(self) -> bool:
        """True if one more may begin. False shows that the limit is in use, so that it can grow."""
        if self.under_way < int(self.size):
            return True
        self._was_full = True
        return False

    def begun(self) -> None:
        """Note that a request began."""
        self.under_way += 1

    def ended(self) -> None:
        """Note that a request ended, whatever came of it."""
        self.under_way -= 1

    def answered(self, now: float, sent_at: float) -> None:
        """Note that a request was carried out; it was sent at `sent_at`."""
        if sent_at < self._since:  # sent under another limit
            return
        self._answers += 1
        self._latencies += now - sent_at
        if self._answers >= max(_FEWEST, self.size):
            self._judge(now, self._latencies / self._answers)
            self._begin_window(now)
        elif now - self._since > _LONGEST_WINDOW_S:
            self._begin_window(now)

    def disturbed(self) -> None:
        """Note that a request was refused, or had no answer: from now on, grow by small steps."""
        self._starting = False
        self._was_full = False

    def _begin_window(self, now: float) -> None:
        self._since = now
        self._answers = 0
        self._latencies = 0.0
        self._was_full = False

    def _judge(self, now: float, latency: float) -> None:
        """A window ended: `latency` is its mean."""
        before, self._before_shrink = self._before_shrink, None
        if before is not None and latency > before * _HELPS:
            self._base = latency
            self.size = min(self._most, self.size / _SHRINK)
        if self._base is None or latency < self._base:
            self._base = latency
        if latency < self._base * _WAITS:
            if self._was_full:
                self.size = min(
                    self._most, self.size * (_START_FACTOR if self._starting else _FACTOR)
                )
            return
        self._starting = False
        too_long = latency > self._base * _WAITS_LONG
        if before is None and (too_long or now - self._decided_at > _AGAIN_S):
            self._decided_at = now
            self._before_shrink = latency
            self.size = max(_LEAST, self.size * _SHRINK)
