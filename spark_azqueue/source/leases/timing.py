"""Times of leases: when to renew a lease, when a lease ends, and how long leases should be.

A `Lease` has a message's id and receipt, and a `Term` has the times of the lease. This module does
not call the service, and does not read a clock.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from spark_azqueue.service.messages import MessageKey

_SHORTEST_TRY_S = 1.0
"""Shortest timeout of a renewal, in seconds. A healthy service answers sooner."""
_LATE_TRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Term:
    """Times at which to renew a lease, and at which the lease ends, in seconds of the caller's
    clock.

    Both times are computed from the moment at which this process SENT the request. The service
    counts from the moment at which it handles the request, which is later. So both times may be too
    early, but never too late (as in Apache Beam's SQS reader).
    """

    renew_at: float
    ends_at: float
    length_s: float = 0.0
    """Visibility timeout of the last dequeue or renewal, in seconds."""

    @classmethod
    def of(cls, sent_at: float, visibility_s: float) -> Term:
        """Return the term of a lease requested at `sent_at`.

        The lease is renewed at half its length.

        The other half is left for a slow or lost answer, and for a retry.
        """
        return cls(sent_at + visibility_s / 2, sent_at + visibility_s, visibility_s)

    @classmethod
    def left(cls, now: float, left_s: float, visibility_s: float) -> Term:
        """Return the term of a lease of another process that ends in `left_s` seconds.

        left_s: may be negative.
        """
        left_s = max(0.0, left_s)
        return cls(now + left_s / 2, now + left_s, visibility_s)

    def patience_s(self, now: float) -> float:
        """Timeout of a renewal that is sent now, in seconds.

        The timeout is a third of the lease's remaining time, so that retries can follow before the
        lease ends. If no time is left, the timeout is five seconds, because the receipt may still
        be valid.
        """
        left = self.ends_at - now
        return max(left / 3, _SHORTEST_TRY_S) if left > 0 else _LATE_TRY_S

    def retry(self, now: float) -> Term | None:
        """Return the term after a renewal without an answer: the renewal is retried after a quarter
        of the time left.

        Returns None if no time is left. In this case the lease counts as lost.
        """
        left = self.ends_at - now
        return None if left <= 0 else replace(self, renew_at=now + left / 4)


# visibilityTimeout=auto. A lease should last several times as long as a batch, so that an ordinary
# batch needs no renewals: a renewal costs a request for each message, and makes the receipts in the
# checkpoint stale. A lease should not be longer than needed: after a crash, a message that was
# dequeued, but is in no log yet, is invisible until its lease ends.

START_S = 60
"""Length of leases, in seconds, before a batch was measured. If the first batch takes longer, its
leases are renewed.
"""
START_BY_USER_S = 300
"""Start length, in seconds, with deleteOnCommit=false: the user has to settle each message within
its lease.
"""
START_ON_EXECUTORS_S = 90
"""Start length, in seconds, with leaseOn=executors. A task dequeues for 10 s, then deletes for some
seconds.
"""
SHORTEST_S = 60
LONGEST_S = 3600
"""Length of the longest lease, in seconds. If a batch takes longer, its leases are renewed."""
RENEWED_S = 300
"""Maximum length, in seconds, to which renewals double a lease. So a slow first batch needs few
renewals. Leases of later batches are renewed for the length that `BatchSizing` suggests.
"""
NOT_RENEWED_S = 25
"""If batches take at most this many seconds, leases have the length SHORTEST_S. Such a batch ends
before a renewal is due.
"""
MARGIN = 4
"""The lease length is this multiple of the PERCENTILE of batch times. A renewal is due at half of
the lease, so after twice the time of a slow batch.
"""
PERCENTILE = 0.95
OBSERVED = 50
"""Number of the latest batches whose times are used."""
_MOST_DOUBLINGS = 6


@dataclass(frozen=True, slots=True)
class BatchSizing:
    """Times that the latest batches took from dequeue to settling, and the lease length that
    results.
    """

    times: tuple[float, ...] = ()
    doublings: int = 0
    start_s: int = START_S

    def on_time(self, seconds: float) -> BatchSizing:
        """Record a batch in which no lease ended before its message was settled."""
        times = (*self.times, seconds)[-OBSERVED:]
        # After OBSERVED batches in a row in which no lease ended too early, one doubling is undone.
        calm = len(times) == OBSERVED and self.doublings > 0
        return replace(self, times=() if calm else times, doublings=self.doublings - calm)

    def too_late(self, seconds: float) -> BatchSizing:
        """Record a batch in which a lease ended before its message was settled.

        Double the lease length.
        """
        times = (*self.times, seconds)[-OBSERVED:]
        return replace(self, times=times, doublings=min(self.doublings + 1, _MOST_DOUBLINGS))

    def visibility_s(self) -> int:
        """Visibility timeout for the next dequeue, in whole seconds."""
        return lease_length(self.times, self.doublings, self.start_s)

    def renewal_s(self, length_s: float) -> int:
        """Visibility timeout, in whole seconds, of the renewal of a lease of `length_s` seconds."""
        return int(max(self.visibility_s(), min(2 * length_s, RENEWED_S)))


def lease_length(times: Sequence[float], doublings: int, start_s: int = START_S) -> int:
    """Length of leases with `visibilityTimeout=auto`, computed from batch times; all in seconds.

    The length is PERCENTILE of `times` x MARGIN, or `start_s` if no batch was measured. The length
    is then doubled `doublings` times. The result is between SHORTEST_S and LONGEST_S. If no lease
    was too short, and batches take at most NOT_RENEWED_S, the length is SHORTEST_S.
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
    """Lengths of this process's leases and renewals, set by `visibilityTimeout` or computed from
    batch times.

    Only one thread may change this object. Other threads may call `renewal_s` and `visibility_s`.
    """

    def __init__(self, fixed_s: int | None, start_s: int = START_S) -> None:
        """fixed_s: value of `visibilityTimeout` in seconds; None for `auto`."""
        self._fixed_s = fixed_s
        self._sizing = BatchSizing(start_s=start_s)
        self._longest_s = RENEWED_S

    def visibility_s(self) -> int:
        """Visibility timeout for the next dequeue, in seconds; at most the last `longest_s`."""
        if self._fixed_s is not None:
            return self._fixed_s
        return min(self._sizing.visibility_s(), self._longest_s)

    def renewal_s(self, term: Term, *, waits: bool) -> int:
        """Visibility timeout of a renewal, in seconds.

        waits: True if the message is in no batch yet.

        The lease of a message in no batch stays short, because after a crash no other process could
        release the message.
        """
        if self._fixed_s is not None or waits:
            return self.visibility_s()
        return min(self._sizing.renewal_s(term.length_s), self._longest_s)

    def longest_s(self) -> int:
        """Return the longest lease, in seconds, that this process may request from now on.

        No later lease is longer than the value that was returned last. If this process is killed,
        the next process relies on this value.
        """
        self._longest_s = self._fixed_s or max(self._sizing.visibility_s(), RENEWED_S)
        return self._longest_s

    def unusual_s(self) -> int:
        """Return `longest_s` if the next process would assume a shorter lease, else 0."""
        longest = self.longest_s()
        return longest if longest > RENEWED_S else 0

    def observed(self, seconds: float, *, too_late: bool) -> None:
        """Record how many seconds a batch took from dequeue to settling.

        too_late: a lease had ended before its message was settled.
        """
        grow = self._sizing.too_late if too_late else self._sizing.on_time
        self._sizing = grow(seconds)


_OUTDATED = 1_000
"""Outdated times are removed if there are this many more of them than valid times."""


class Schedule:
    """A priority queue of message keys, ordered by time.

    A time that is no longer valid is removed when it becomes the earliest time.

    All messages of a page have the same time, so the heap contains each time only once.

    valid: returns True if the key is still due at the given time.
    """

    def __init__(self, valid: Callable[[MessageKey, float], bool]) -> None:
        self._valid = valid
        self._times: list[float] = []  # a heap
        self._keys: dict[float, list[MessageKey]] = {}  # by time
        self._sorted: float | None = None  # the time whose keys are sorted in descending order
        self._count = 0
        self._kept = 0  # number of valid pairs at the last clean-up

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
        """Return the earliest valid time and its lowest key, or None."""
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
        """Number of pairs of key and time, including outdated pairs."""
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
