"""Latencies as histograms with fixed buckets, so that histograms of several runs and sources can be
added.

Pure functions. A latency is measured within one process. Other processes get only the counts of the
buckets.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

Bounds = tuple[float, ...]

AGES: Bounds = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 43_200, 86_400, 259_200)
"""Buckets for ages of messages, in seconds: from a second to three days."""

REQUESTS: Bounds = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""Buckets for durations of requests, in seconds, as OpenTelemetry's conventions for messaging
recommend.
"""

BATCHES: Bounds = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600)

DELIVERY, COMMIT, BATCH = "delivery", "commit", "batch"
"""Names of latencies: the age of messages when they are put into a batch, the age of messages when
the source finds out that their batch is committed, and the duration of batches. All other names are
kinds of requests. For failed requests, the error follows after a space: "delete 503".
"""

NO_ANSWER, OTHER = "no_answer", "_OTHER"

_NAMES_AT_MOST = 40
_NAME = re.compile(r"[a-z]{1,16}( [A-Za-z0-9_]{1,16})?")
_MOST = 2**63 - 1


def bounds_of(name: str) -> Bounds:
    """Return the upper bounds of this latency's buckets. The last bucket has no upper bound."""
    return {DELIVERY: AGES, COMMIT: AGES, BATCH: BATCHES}.get(name, REQUESTS)


@dataclass(frozen=True, slots=True)
class Histogram:
    """The count of each bucket, and the sum of all values in milliseconds (total_ms). There is one
    more bucket than bounds.
    """

    bounds: Bounds
    counts: tuple[int, ...]
    total_ms: int = 0

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self.counts)

    @property
    def total(self) -> float:
        """The sum of all values, in seconds."""
        return self.total_ms / 1_000

    @property
    def cumulative(self) -> list[tuple[str, int]]:
        """The buckets in Prometheus's form: each upper bound with the number of values up to this
        bound.
        """
        names = [*(f"{bound:g}" for bound in self.bounds), "+Inf"]
        return list(zip(names, accumulate(self.counts), strict=True))

    def quantile(self, share: float) -> float | None:
        """Return an estimate of the quantile for this share (0 to 1), or None if there are no
        values.

        The estimate assumes that values are evenly distributed within a bucket, as in Prometheus's
        `histogram_quantile`.
        """
        wanted, below = share * self.count, 0
        if not self.count:
            return None
        for lower, upper, count in zip((0.0, *self.bounds), self.bounds, self.counts, strict=False):
            if count and below + count >= wanted:
                return lower + (upper - lower) * max(0.0, wanted - below) / count
            below += count
        return self.bounds[-1]

    def __add__(self, other: Histogram) -> Histogram:
        counts = zip(self.counts, other.counts, strict=True)
        return Histogram(
            self.bounds,
            tuple(min(one + more, _MOST) for one, more in counts),
            min(self.total_ms + other.total_ms, _MOST),
        )

    def since(self, before: Histogram | None) -> Histogram:
        """Return the values that were added since `before`; all values if `before` is not an
        earlier state of this histogram.
        """
        if before is None:
            return self
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        total_ms = self.total_ms - before.total_ms
        return self if min(*counts, total_ms) < 0 else Histogram(self.bounds, counts, total_ms)

    def values(self) -> list[tuple[float, int]]:
        """Return values that have the same buckets and the same sum, each with its number of
        occurrences.

        There is one value for each bucket, at the same fraction of every bucket's width. In the
        last bucket, the value is the last bound, or a larger value if the sum requires it.
        """
        least = sum(low * n for low, n in zip((0.0, *self.bounds), self.counts, strict=True))
        widths = [high - low for low, high in zip((0.0, *self.bounds), self.bounds, strict=False)]
        width = sum(wide * n for wide, n in zip(widths, self.counts, strict=False))
        part = min(1.0, max(0.0, (self.total - least) / width)) if width else 1.0
        left = max(0.0, self.total - least - part * width)
        above = self.counts[-1]
        lows = zip((0.0, *self.bounds), widths, self.counts, strict=False)
        found = [(low + part * wide, n) for low, wide, n in lows if n]
        if above:
            found.append((self.bounds[-1] * (1 + 1e-9) + left / above, above))
        return found

    def to_json(self) -> list[int]:
        """Return the sum in milliseconds, followed by the counts without trailing zeros."""
        last = max((place for place, count in enumerate(self.counts, 1) if count), default=0)
        return [self.total_ms, *self.counts[:last]]

    @classmethod
    def from_json(cls, value: Any, bounds: Bounds) -> Histogram:
        """Parse a histogram. Raises TypeError or ValueError if the value is not a histogram."""
        total_ms, *counts = value
        missing = len(bounds) + 1 - len(counts)
        for each in (total_ms, *counts):
            if type(each) is not int or not 0 <= each <= _MOST:
                raise ValueError("a number of a histogram is no count")
        if missing < 0:
            raise ValueError("a histogram has too many buckets")
        return cls(bounds, (*counts, *[0] * missing), total_ms)


Latencies = Mapping[str, Histogram]


def added(one: Latencies, other: Latencies) -> dict[str, Histogram]:
    """Return, for each name, the sum of the two histograms."""
    found = dict(one)
    for name, each in other.items():
        found[name] = found[name] + each if name in found else each
    return found


def latencies_to_json(latencies: Latencies) -> dict[str, list[int]]:
    """Return the histograms as values for JSON."""
    return {name: each.to_json() for name, each in latencies.items()}


def latencies_from_json(value: Any) -> dict[str, Histogram]:
    """Parse histograms by name. Raises TypeError, ValueError or AttributeError if the value has
    another form.
    """
    if len(value) > _NAMES_AT_MOST or not all(map(_NAME.fullmatch, value)):
        raise ValueError("a report has too many latencies, or one that has no such name")
    return {name: Histogram.from_json(each, bounds_of(name)) for name, each in value.items()}


class Recorder:
    """Counts values of several latencies. Not thread-safe."""

    def __init__(self) -> None:
        self._counts: dict[str, list[int]] = {}
        self._totals: dict[str, float] = {}

    def observe(self, name: str, seconds: Iterable[float]) -> None:
        """Count these values. A negative value, which occurs if clocks differ, counts as 0.

        After twenty different names with errors, a new error is counted as the error `_OTHER` of
        its kind.
        """
        if name not in self._counts:
            kind, _, error = name.partition(" ")
            if error and len(self._counts) >= _NAMES_AT_MOST // 2:
                name = f"{kind} {OTHER}"
            self._counts.setdefault(name, [0] * (len(bounds_of(name)) + 1))
            self._totals.setdefault(name, 0.0)
        counts, bounds, total = self._counts[name], bounds_of(name), 0.0
        for each in seconds:
            each = max(0.0, each)
            counts[bisect_left(bounds, each)] += 1
            total += each
        self._totals[name] += total

    def latencies(self) -> dict[str, Histogram]:
        """Return the histograms so far."""
        return {
            name: Histogram(bounds_of(name), tuple(counts), round(self._totals[name] * 1_000))
            for name, counts in list(self._counts.items())
        }
