"""When to renew a lease, until when to count on it, and how long it should be.

A `Term` says when a `Lease` (id and receipt) is renewed and when it ends. Nothing here talks to the
service or reads a clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spark_azqueue.service.messages import MessageKey

_SHORTEST_TRY_S = 1.0
"""A healthy service answers a renewal in less."""
_LATE_TRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Term:
    """How long a lease lasts, in the caller's clock (seconds).

    Both count from when the request was SENT. The service counts from when it handled the request,
    which is later. So these times are too early, never too late (as in Apache Beam's SQS reader).
    """

    renew_at: float
    ends_at: float
    length_s: float = 0.0
    """For how long it was leased or renewed last."""

    @classmethod
    def of(cls, sent_at: float, visibility_s: float) -> Term:
        """Term of a lease whose request was sent at `sent_at`: renewed when half is over.

        The other half is left for a slow or lost answer, and another try.
        """
        return cls(sent_at + visibility_s / 2, sent_at + visibility_s, visibility_s)

    @classmethod
    def left(cls, now: float, left_s: float, visibility_s: float) -> Term:
        """Term of a lease of another process, with `left_s` seconds left, or less than 0."""
        left_s = max(0.0, left_s)
        return cls(now + left_s / 2, now + left_s, visibility_s)

    def patience_s(self, now: float) -> float:
        """How long a renewal that is sent now may take before it is given up.

        A third of the time left, so that more tries can follow before the lease ends. If no time
        is left, it may take a few seconds: the receipt may still be good.
        """
        left = self.ends_at - now
        return max(left / 3, _SHORTEST_TRY_S) if left > 0 else _LATE_TRY_S

    def retry(self, now: float) -> Term | None:
        """After a renewal that got no answer: try again after a quarter of the time left.

        Returns None if no time is left: the lease counts as lost.
        """
        left = self.ends_at - now
        return None if left <= 0 else replace(self, renew_at=now + left / 4)


# visibilityTimeout=auto. A lease should be several times as long as a batch takes, so that an
# ordinary batch never renews: a renewal costs a request per message and voids the receipts in the
# checkpoint. It should be no longer than needed: after a crash, a message that was dequeued and not
# yet logged is invisible until its lease ends.

START_S = 60
"""The length before any batch was observed. A first batch that takes longer is renewed."""
START_BY_USER_S = 300
"""The first length with deleteOnCommit=false: the user settles within the lease."""
START_ON_EXECUTORS_S = 90
"""With leaseOn=executors, always: a task dequeues for ten seconds, and deletes for some more."""
SHORTEST_S = 60
LONGEST_S = 3600
"""Longer batches are renewed."""
RENEWED_S = 300
"""Up to this length each renewal doubles the lease, so that a first batch that is slow renews
seldom. A later one is renewed for the length that batches suggest."""
NOT_RENEWED_S = 25
"""Batches of up to this many seconds get the shortest lease: it is renewed when half is over."""
MARGIN = 4
"""Lease = this many times the high percentile: renewal is due at twice a slow batch's time."""
PERCENTILE = 0.95
OBSERVED = 50
"""How many of the latest batches count."""
_MOST_DOUBLINGS = 6


@dataclass(frozen=True, slots=True)
class BatchSizing:
    """What was observed of batches, dequeue to settled (seconds), and the lease it suggests."""

    times: tuple[float, ...] = ()
    doublings: int = 0
    start_s: int = START_S

    def on_time(self, seconds: float) -> BatchSizing:
        """A batch was settled, and no lease had ended."""
        times = (*self.times, seconds)[-OBSERVED:]
        # OBSERVED batches in a row without an ended lease take one doubling back.
        calm = len(times) == OBSERVED and self.doublings > 0
        return replace(self, times=() if calm else times, doublings=self.doublings - calm)

    def too_late(self, seconds: float) -> BatchSizing:
        """A batch was settled, but the lease of some message had ended: grow at once."""
        times = (*self.times, seconds)[-OBSERVED:]
        return replace(self, times=times, doublings=min(self.doublings + 1, _MOST_DOUBLINGS))

    def visibility_s(self) -> int:
        """Whole seconds to lease for now."""
        return lease_length(self.times, self.doublings, self.start_s)

    def renewal_s(self, length_s: float) -> int:
        """Whole seconds to renew a lease for that was so long."""
        return int(max(self.visibility_s(), min(2 * length_s, RENEWED_S)))


def lease_length(times: Sequence[float], doublings: int, start_s: int = START_S) -> int:
    """The lease of `visibilityTimeout=auto` in whole seconds, from the seconds that batches took.

    percentile x margin, doubled for each time a lease was found too short, within
    SHORTEST_S…LONGEST_S; `start_s` (times the doublings) before any batch was observed. Batches
    that end before the shortest lease is renewed get that one.
    """
    if times:
        ordered = sorted(times)
        high = ordered[min(len(ordered) - 1, math.ceil(PERCENTILE * len(ordered)) - 1)]
        if not doublings and high <= NOT_RENEWED_S:
            return SHORTEST_S
        wanted = high * MARGIN
    else:
        wanted = start_s
    return int(min(max(math.ceil(wanted * 2**doublings), SHORTEST_S), LONGEST_S))


class LeaseLengths:
    """For how long this process leases and renews: as the option says, or sized from its batches.

    Used by one thread, but for `renewal_s` and `visibility_s`, which any thread may ask.
    """

    def __init__(self, fixed_s: int | None, start_s: int = START_S) -> None:
        """fixed_s: the option `visibilityTimeout` in seconds, None for auto."""
        self._fixed_s = fixed_s
        self._sizing = BatchSizing(start_s=start_s)
        self._longest_s = RENEWED_S

    def visibility_s(self) -> int:
        """How long to lease for now: as batches suggest, but for no longer than was said."""
        if self._fixed_s is not None:
            return self._fixed_s
        return min(self._sizing.visibility_s(), self._longest_s)

    def renewal_s(self, term: Term, *, waits: bool) -> int:
        """How long to renew a lease for. waits: its message is in no batch yet.

        That one stays short: no other process could release it after a crash.
        """
        if self._fixed_s is not None or waits:
            return self.visibility_s()
        return min(self._sizing.renewal_s(term.length_s), self._longest_s)

    def longest_s(self) -> int:
        """The longest that this process leases a message for at once.

        It keeps to what it said last: the next process counts on that, if this one is killed.
        """
        self._longest_s = self._fixed_s or max(self._sizing.visibility_s(), RENEWED_S)
        return self._longest_s

    def unusual_s(self) -> int:
        """`longest_s`, if a process that has observed nothing leases for less; else 0."""
        longest = self.longest_s()
        return longest if longest > RENEWED_S else 0

    def observed(self, seconds: float, *, too_late: bool) -> None:
        """A batch was settled so long after its dequeue. too_late: the lease of a message ended."""
        grow = self._sizing.too_late if too_late else self._sizing.on_time
        self._sizing = grow(seconds)


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
