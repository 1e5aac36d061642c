"""How eagerly a queue is asked: many requests at once while it is full, seldom while it is empty.

Decisions as values; time is an argument. Ring: core (standard library only).
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_PAUSE_S = 0.1
"""Pause after the first look that found nothing; it doubles up to `maxPollInterval`."""

# 0.1 s doubled 16 times is two hours: beyond any maxPollInterval, and no float overflows.
_DOUBLINGS = 16


@dataclass(frozen=True, slots=True)
class Pace:
    """How one queue is polled: `width` requests at once, the next not before `not_before`."""

    width: int = 1
    empty_looks: int = 0
    not_before: float = 0.0

    def page(self, *, asked: int, got: int, widest: int) -> Pace:
        """After one page: twice as wide while pages come back full, one at the first short one."""
        if got >= asked > 0:
            return Pace(min(self.width * 2, widest), 0, self.not_before)
        return Pace(1, 0 if got else self.empty_looks, self.not_before)

    def rest(self, *, found: bool, now: float, longest_s: float) -> Pace:
        """After a whole look at the queue: at once again, or later and later while it is empty."""
        if found:
            return Pace(self.width, 0, now)
        looks = self.empty_looks + 1
        pause = min(FIRST_PAUSE_S * 2 ** min(looks - 1, _DOUBLINGS), longest_s)
        return Pace(1, looks, now + pause)
