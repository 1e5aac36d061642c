"""Adaptive concurrency: how many requests may be under way at once, learned from their latency.

More requests at once bring more throughput until they queue: in the service, or in our process,
which uses one core. From then on only latency grows. Time is an argument.
"""

from __future__ import annotations

_FIRST = 8.0
_LEAST = 4.0
_START_FACTOR = 2.0
_FACTOR = 1.25

_WAITS = 2.0
"""Above this multiple of the base latency, the limit stops growing."""
_WAITS_LONG = 3.0
"""Above this multiple, the limit shrinks."""

_SHRINK = 0.75
_HELPS = 0.9
"""A shrink succeeds if latency falls below 0.9 times what it was. If it fails, the service has
become slower, and the base latency is learned again."""
_AGAIN_S = 5.0
"""How long the limit stays as it is before another shrink is tried."""

_RELEARNS = 1.5
"""One failed shrink raises the base latency by this factor at most: it may have been chance. A
second one in a row raises it in full."""

_FEWEST = 16
_SHORTEST_WINDOW_S = 0.02
_CALM_WINDOW_S = 0.2
"""After the first steps: long enough that a pause of our process does not cause a shrink."""
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
        self._base = float("inf")  # seconds: the base latency, the smallest mean of a window
        self._starting = True
        self._before_shrink: float | None = None  # set while a shrink is being judged
        self._failed_shrinks = 0  # how many shrinks in a row failed
        self._shrunk_at = float("-inf")
        self._begin_window(float("-inf"))

    def go_on(self, size: int) -> None:
        """Begin with a limit that another process has learned, and grow by small steps."""
        self.size = min(max(float(size), _LEAST), self._most)
        self._starting = False

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
        passed = now - self._since
        shortest = _SHORTEST_WINDOW_S if self._starting else _CALM_WINDOW_S
        if self._answers >= max(_FEWEST, self.size) and passed >= shortest:
            self._judge(now, self._latencies / self._answers)
            self._begin_window(now)
        elif passed > _LONGEST_WINDOW_S:
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
        was_shrunk = self._before_shrink is not None
        if self._before_shrink is not None:
            self._learn(self._before_shrink, latency)
            self._before_shrink = None
        if latency < self._base:
            self._base = latency
        if latency < self._base * _WAITS:
            if self._was_full:
                factor = _START_FACTOR if self._starting else _FACTOR
                self.size = min(self._most, self.size * factor)
            return
        self._starting = False
        too_long = latency > self._base * _WAITS_LONG
        if not was_shrunk and (too_long or now - self._shrunk_at > _AGAIN_S):
            self._shrunk_at = now
            self._before_shrink = latency
            self.size = max(_LEAST, self.size * _SHRINK)

    def _learn(self, before: float, latency: float) -> None:
        """The limit was shrunk, and the latency went from `before` to `latency`."""
        if latency <= before * _HELPS:
            self._failed_shrinks = 0
            return
        self._failed_shrinks += 1
        self._base = latency if self._failed_shrinks > 1 else min(latency, self._base * _RELEARNS)
        self.size = min(self._most, self.size / _SHRINK)
