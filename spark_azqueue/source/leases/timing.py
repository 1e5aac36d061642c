"""Times of leases: when to renew a lease, when it ends, and how long it should be.

A `Term` has the times of a `Lease` (id and receipt). Nothing here calls the service or reads a
clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spark_azqueue.service.messages import MessageKey

_SHORTEST_TRY_S = 1.0
"""Least time for a renewal. A healthy service answers sooner."""
_LATE_TRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Term:
    """When to renew a lease, and when it ends, by the caller's clock (seconds).

    Both times count from when the request was SENT. The service counts from when it handled the
    request, which is later. So both times may be early, but never late (as in Apache Beam's SQS
    reader).
    """

    renew_at: float
    ends_at: float
    length_s: float = 0.0
    """Visibility timeout of the last dequeue or renewal."""

    @classmethod
    def of(cls, sent_at: float, visibility_s: float) -> Term:
        """Return the term of a lease that was requested at `sent_at`: renew at half its time.

        The second half leaves time for a slow or lost answer, and for another try.
        """
        return cls(sent_at + visibility_s / 2, sent_at + visibility_s, visibility_s)

    @classmethod
    def left(cls, now: float, left_s: float, visibility_s: float) -> Term:
        """Return the term of another process's lease that ends in `left_s` (may be negative)."""
        left_s = max(0.0, left_s)
        return cls(now + left_s / 2, now + left_s, visibility_s)

    def patience_s(self, now: float) -> float:
        """Timeout of a renewal that is sent now.

        A third of the time left, so that more tries can follow before the lease ends. If no time
        is left, five seconds, because the receipt may still be valid.
        """
        left = self.ends_at - now
        return max(left / 3, _SHORTEST_TRY_S) if left > 0 else _LATE_TRY_S

    def retry(self, now: float) -> Term | None:
        """Return the term after an unanswered renewal: retry after a quarter of the time left.

        Returns None if no time is left: the lease counts as lost.
        """
        left = self.ends_at - now
        return None if left <= 0 else replace(self, renew_at=now + left / 4)


# visibilityTimeout=auto. A lease should last several times the duration of a batch, so that an
# ordinary batch never renews: a renewal costs a request per message and voids the receipts in the
# checkpoint. A lease should not be longer than needed: after a crash, a message that was dequeued
# and not yet logged is invisible until its lease ends.

START_S = 60
"""Length of leases before any batch was observed. A longer first batch renews its leases."""
START_BY_USER_S = 300
"""Start length with deleteOnCommit=false, where the user settles messages within the lease."""
START_ON_EXECUTORS_S = 90
"""Start length with leaseOn=executors: a task dequeues for 10 s, then deletes for some more."""
SHORTEST_S = 60
LONGEST_S = 3600
"""Longest lease. A batch that takes longer renews its leases."""
RENEWED_S = 300
"""Length up to which each renewal doubles the lease, so that a slow first batch renews seldom.
Later batches renew for the length that `BatchSizing` suggests."""
NOT_RENEWED_S = 25
"""Batches up to this long get SHORTEST_S: they end before half the lease, when it is renewed."""
MARGIN = 4
"""Lease length / PERCENTILE of batch times: a renewal is due at twice a slow batch's time."""
PERCENTILE = 0.95
OBSERVED = 50
"""Number of latest batches whose times count."""
_MOST_DOUBLINGS = 6


@dataclass(frozen=True, slots=True)
class BatchSizing:
    """Times of batches from dequeue to settled (seconds), and the lease that they suggest."""

    times: tuple[float, ...] = ()
    doublings: int = 0
    start_s: int = START_S

    def on_time(self, seconds: float) -> BatchSizing:
        """Note a settled batch of which no lease ended early."""
        times = (*self.times, seconds)[-OBSERVED:]
        # OBSERVED batches in a row without an ended lease undo one doubling.
        calm = len(times) == OBSERVED and self.doublings > 0
        return replace(self, times=() if calm else times, doublings=self.doublings - calm)

    def too_late(self, seconds: float) -> BatchSizing:
        """Note a settled batch of which a lease ended early: double the lease at once."""
        times = (*self.times, seconds)[-OBSERVED:]
        return replace(self, times=times, doublings=min(self.doublings + 1, _MOST_DOUBLINGS))

    def visibility_s(self) -> int:
        """Visibility timeout for the next dequeue, in whole seconds."""
        return lease_length(self.times, self.doublings, self.start_s)

    def renewal_s(self, length_s: float) -> int:
        """Visibility timeout to renew a lease of length `length_s`, in whole seconds."""
        return int(max(self.visibility_s(), min(2 * length_s, RENEWED_S)))


def lease_length(times: Sequence[float], doublings: int, start_s: int = START_S) -> int:
    """Length of leases with `visibilityTimeout=auto`, from batch times, both in seconds.

    The length is PERCENTILE of `times` x MARGIN (or `start_s` if no batch was observed), doubled
    `doublings` times, and at least SHORTEST_S, at most LONGEST_S. If no lease was too short, and
    batches end before the shortest lease is renewed, the length is SHORTEST_S.
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
    """Lengths of this process's leases and renewals: as the option sets, or from batch times.

    One thread uses this object. Other threads may call only `renewal_s` and `visibility_s`.
    """

    def __init__(self, fixed_s: int | None, start_s: int = START_S) -> None:
        """fixed_s: the option `visibilityTimeout` in seconds, None for auto."""
        self._fixed_s = fixed_s
        self._sizing = BatchSizing(start_s=start_s)
        self._longest_s = RENEWED_S

    def visibility_s(self) -> int:
        """Visibility timeout for the next dequeue: at most what `longest_s` returned last."""
        if self._fixed_s is not None:
            return self._fixed_s
        return min(self._sizing.visibility_s(), self._longest_s)

    def renewal_s(self, term: Term, *, waits: bool) -> int:
        """Visibility timeout of a renewal. waits: the message is in no batch yet.

        A waiting message keeps a short lease: after a crash, no other process could release it.
        """
        if self._fixed_s is not None or waits:
            return self.visibility_s()
        return min(self._sizing.renewal_s(term.length_s), self._longest_s)

    def longest_s(self) -> int:
        """Return the longest lease that this process may take from now on.

        Leases keep to the last value returned, because the next process relies on it if this
        process is killed.
        """
        self._longest_s = self._fixed_s or max(self._sizing.visibility_s(), RENEWED_S)
        return self._longest_s

    def unusual_s(self) -> int:
        """Return `longest_s` if it is longer than a new process would assume, else 0."""
        longest = self.longest_s()
        return longest if longest > RENEWED_S else 0

    def observed(self, seconds: float, *, too_late: bool) -> None:
        """Note the seconds from a batch's dequeue to its settling. too_late: a lease had ended."""
        grow = self._sizing.too_late if too_late else self._sizing.on_time
        self._sizing = grow(seconds)


_OUTDATED = 1_000
"""Outdated times that may be kept, in addition to the number of valid ones."""


class Schedule:
    """A queue of keys by time. A time that is no longer valid is dropped when it comes up.

    The messages of a page share their time, so the heap has each time once.

    valid: returns True if a key is still expected at a time.
    """

    def __init__(self, valid: Callable[[MessageKey, float], bool]) -> None:
        self._valid = valid
        self._times: list[float] = []  # a heap
        self._keys: dict[float, list[MessageKey]] = {}  # by time
        self._sorted: float | None = None  # the time whose keys are sorted, the first key last
        self._count = 0
        self._kept = 0  # how many were valid at the last clean-up

    def add(self, key: MessageKey, at: float) -> None:
        """Add a key at a time."""
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
        """Return the earliest valid time with its key (the lowest of several), or None."""
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
        """Number of keys with their times, outdated ones included."""
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
