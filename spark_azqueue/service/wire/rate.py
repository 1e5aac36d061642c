"""The rate limit of one queue, in requests per second, learned from answers with 503.

Without a 503 there is no limit. After a 503, a token bucket limits the requests. The bucket's rate
falls immediately, and then grows along a cubic curve, as in TCP CUBIC. The growth is fast at first,
slow near the refused rate, and then faster again. Some refusals do not depend on the rate (a busy
partition, a proxy). So cuts of the rate that do not reduce refusals are undone. This module reads
no clock: the time is an argument.
"""

from __future__ import annotations

_FIRST_CUT = 0.7
_CUT = 0.92
"""Factor by which a cut multiplies the refused rate."""
_UNKNOWN = 100.0
"""Requests per second that are assumed if the very first answers are 503."""
_GROWTH = 0.0125
"""Growth in: rate = refused rate x (1 + growth x (seconds - seconds to get there) ** 3)."""
_LEAST = 20.0
"""Lowest rate, in requests per second."""
_FLOOR = 2 * _LEAST
"""Rate below which the effect of cuts is judged without comparing rates."""
_MOST = 100_000.0
"""Highest rate, in requests per second: more than a process can send."""

_SETTLES_S = 0.25
"""Seconds after a cut. Refusals in this time count as answers to requests from before the cut,
unless there are many refusals.
"""
_FEW = 3
"""Minimum number of refusals that cuts the rate. Fewer refusals may be chance."""
_MANY = 8
_LARGE_SHARE = 0.2
"""Number and share of answers. If refusals exceed both, the rate is cut without waiting."""
_SMALL_SHARE = 0.03
"""Share of refusals above which the rate of accepted answers shows the service's limit."""

_FRUITLESS = 0.5
"""Share of the original rate. When cuts have left less than this share, their effect is judged.

If refusals are about as frequent as before, they do not depend on the rate, and the cuts are
undone. A simulated queue that refuses 5 % of requests at any rate (2,000 requests/s, 10 ms,
tests/support/throttling) carries out 1,830/s with this rule, and 26/s without the rule.
"""
_BELOW = 0.75
_FEWEST_BELOW = 64
"""Share of the rate before the cuts, and a number of answers. The effect of cuts is judged below
this share, over at least this many answers.
"""
_HELPS = 0.6
_HELPS_ALWAYS = 0.006
"""Two shares: of the earlier refusals, and of all answers. Cuts have helped if the remaining
refusals are at most one of these shares.
"""
_BEYOND = 2.0
"""Multiple of the expected share of refusals that applies after cuts that did not help.

Only refusals above this multiple cut the rate again.

If the midpoint between the expected share and 1 is lower than the multiple, the midpoint applies.
"""
_TRIED_AGAIN_S = 10.0
"""Seconds for which refusals that cuts did not reduce are expected to continue. Afterwards, cuts
are tried again.

Each time that cuts fail again doubles the seconds, up to a maximum.
"""
_LONGEST_TRUST_S = 120.0

_PAUSE_S = 0.02
"""Pause after a cut, in seconds, in which the service's burst allowance recovers."""
_BURST_S = 0.02
_LEAST_BURST = 4.0
"""Minimum capacity of the bucket in tokens. Otherwise, the capacity is the tokens of `_BURST_S`
seconds.
"""
_AHEAD = 8.0
"""Number of tokens by which requests with Turn.AHEAD may overdraw the bucket."""
_LONGEST_DEBT_S = 1.0
"""Maximum overdraft of the bucket by repeated requests, as seconds of the rate."""
_LONGEST_WAIT_S = 1.0
"""Maximum time that a request waits before it asks again, in seconds."""

_METER_S = 0.1
_SHORTEST_S = 0.01
"""Minimum length of a measurement of the rate, in seconds."""
_DOUBLES_S = 1.0
_DOUBLES_FAST_S = 0.25
"""Seconds in which the rate doubles between the first cut and the second cut.

The second cut shows the service's limit. The faster value applies if the first cut came too early
for a measurement of the rate.
"""
_OVERSHOT = 0.85
"""Factor for the estimate of the service's limit at the second cut, because the service's burst
allowance raised the measured rate.
"""

_WANTED_S = 0.05
_NEAR = 8.0
"""Multiple of the accepted rate below which the rate stays while requests wait for another limit.
"""
_IDLE_S = 1.0
"""Seconds. If no request had to wait for this time, a refusal counts as caused by other clients."""
_WARMS_UP_S = 0.5
"""Seconds at the start in which the rate is not measured, because too few requests are under way.
"""
_FORGOTTEN_S = 60.0
"""Seconds without a refusal after which the limit is removed."""


class Rate:
    """The rate limit of one queue."""

    def __init__(self) -> None:
        self.per_s: float | None = None
        """Requests per second. None means no limit."""
        self._tokens = 0.0
        self._filled_at = 0.0
        self._refused_rate = 0.0
        self._after_cut = 0.0  # the rate right after the last cut
        # Seconds of growth since the cut; only time in which the rate was fully used counts
        self._growing_s = 0.0
        self._cut_at = float("-inf")
        self._refused_at = float("-inf")
        self._wanted_at = float("-inf")  # time at which demand last exceeded the limit
        self._accepted_since_cut = 0
        self._refused_since_cut = 0
        self._accepted_beyond = 0  # accepted answers after the first refusal since the cut
        self._doubles_s: float | None = None  # set from the first cut to the second
        # seconds in which a limit that the service's answers showed was used
        self._used_s = -_WARMS_UP_S
        self._used = 0  # answers other than 503 in these seconds
        self._meter = _Meter()
        self._before_cuts = 0.0  # the rate before the cuts whose effect is not judged yet
        # The share of refusals before these cuts, counted from the first refusal
        self._share_before = 0.0
        self._below = self._refused_below = 0  # answers and refusals at a much lower rate
        self._expected = 0.0  # the share of refusals that no cut prevents
        self._trusted_s = _TRIED_AGAIN_S
        self._trusted_until = float("-inf")

    @property
    def mean_per_s(self) -> float | None:
        """The mean rate while requests waited, or None if there is no limit."""
        if self.per_s is None or self._used_s < _METER_S:
            return self.per_s
        return min(self.per_s, self._used / self._used_s)

    @property
    def _is_known(self) -> bool:
        return self.per_s is not None and self._doubles_s is None

    def go_on(self, per_s: int, now: float) -> None:
        """Begin with a rate that another process has learned."""
        self._refused_at = now
        self._cut(now, per_s, per_s)

    def wait_s(self, now: float, *, ahead: bool = False) -> float:
        """Return the seconds until a request may be sent; 0 means now. ahead: True if the request
        may precede waiting requests.
        """
        self._fill(now)
        if self.per_s is None:
            return 0.0
        missing = (1.0 - _AHEAD if ahead else 1.0) - self._tokens
        if missing <= 0:
            return 0.0
        self.wanted(now)
        return min(missing / self.per_s, _LONGEST_WAIT_S)

    def wanted(self, now: float, *, is_limit: bool = True) -> None:
        """Record that requests wait, so the number of accepted answers now measures the service's
        limit.

        is_limit: True if the requests wait because of this rate. If False, the rate grows only
        while it is below a multiple of the accepted rate (`_NEAR`).
        """
        passed = min(max(0.0, now - self._wanted_at), _WANTED_S)
        if is_limit or (self.per_s or 0.0) < _NEAR * self._meter.per_s(now)[0]:
            self._growing_s += passed
        self._used_s += passed * self._is_known
        self._wanted_at = now

    def taken(self) -> None:
        """Record that a request is sent."""
        if self.per_s is not None:
            self._tokens = max(self._tokens - 1.0, self._deepest)

    def accepted(self, now: float, sent_at: float) -> None:
        """Record an answer other than 503."""
        self._meter.count(now)
        self._used += self._is_known and self._used_s > 0
        if sent_at >= self._cut_at:
            self._accepted_since_cut += 1
            self._accepted_beyond += self._refused_since_cut > 0
            self._below += self._is_below

    def refused(self, now: float, sent_at: float) -> None:
        """Record an answer 503 to a request that was sent at `sent_at`."""
        self._refused_at = now
        if sent_at < self._cut_at or now - self._wanted_at > _IDLE_S:
            return  # the request was sent before the last cut, or other clients caused the refusal
        self._refused_since_cut += 1
        self._below += self._is_below
        self._refused_below += self._is_below
        if self.per_s is None:
            measured, seconds = self._meter.per_s(now)
            self._cut(now, measured, measured * _FIRST_CUT)
            self._doubles_s = _DOUBLES_S if seconds >= _METER_S else _DOUBLES_FAST_S
            return
        refused, accepted = self._refused_since_cut, self._accepted_since_cut
        share = refused / (refused + accepted)
        if self._expected and now >= self._trusted_until:
            self._expected = 0.0
            self._cut(now, self.per_s, self.per_s)
            return
        most = min(_BEYOND * self._expected, (1 + self._expected) / 2)
        unexpected = refused - most * (refused + accepted)
        has_settled = now - self._cut_at > _SETTLES_S
        if not (
            (unexpected >= _MANY and share > _LARGE_SHARE) or (unexpected >= _FEW and has_settled)
        ):
            return
        if self._are_fruitless:
            self._take_back(now)
            return
        top, rate = self.per_s, self.per_s * _CUT
        # Far above the service's limit, so the accepted answers measure the limit
        if share > _SMALL_SHARE:
            sent_within_s = sent_at - self._cut_at - _PAUSE_S
            top = min(top, accepted / max(sent_within_s, _SHORTEST_S))
            rate = top * _CUT
        elif top < self._refused_rate:  # less than at the last cut: leave room for other processes
            top *= (1 + _CUT) / 2
        if self._doubles_s is not None:
            top, rate = min(top, self.per_s * _OVERSHOT), min(rate, self.per_s * _FIRST_CUT)
        self._cut(now, top, rate)

    @property
    def _is_below(self) -> bool:
        """True if the cuts have taken effect. (Repeats may still exceed the rate.)"""
        if self.per_s is None or self._tokens < 0:
            return False
        return self.per_s < max(_BELOW * self._before_cuts, _FLOOR)

    @property
    def _deepest(self) -> float:
        """Return the minimum (negative) number of tokens of an overdrawn bucket."""
        assert self.per_s is not None
        return -self.per_s * _LONGEST_DEBT_S - _AHEAD

    @property
    def _are_fruitless(self) -> bool:
        """True if the cuts did not help.

        If the cuts helped, the comparison restarts for later cuts.
        """
        assert self.per_s is not None
        enough = self._below >= _FEWEST_BELOW
        helped = self._refused_below <= self._below * max(
            _HELPS_ALWAYS, _HELPS * self._share_before
        )
        is_first = self.per_s >= self._before_cuts and not 0 < self._before_cuts < _FLOOR
        if is_first or (enough and helped):
            self._before_cuts = self.per_s
            beyond = self._refused_since_cut + self._accepted_beyond
            self._share_before = self._refused_since_cut / beyond
            self._below = self._refused_below = 0
            return False
        return enough and self.per_s < max(_FRUITLESS * self._before_cuts, _FLOOR)

    def _take_back(self, now: float) -> None:
        """Undo the last cuts, because a share of all requests is refused at any rate."""
        self._expected = self._refused_below / self._below
        self._cut(now, self._before_cuts, self._before_cuts)
        self._before_cuts = 0.0
        self._trusted_until = now + self._trusted_s
        self._trusted_s = min(2 * self._trusted_s, _LONGEST_TRUST_S)

    def _cut(self, now: float, refused_rate: float, rate: float) -> None:
        """Set the rate. The rate grows back to `refused_rate` fast, and beyond it slowly."""
        self._fill(now)
        self.per_s = self._after_cut = min(max(_LEAST, rate), _MOST)
        self._refused_rate = min(max(self.per_s, refused_rate), _MOST)
        self._tokens = max(min(self._tokens, 0.0) - self.per_s * _PAUSE_S, self._deepest)
        self._growing_s = 0.0
        self._cut_at = now
        self._accepted_since_cut = self._refused_since_cut = self._accepted_beyond = 0
        self._doubles_s = None

    def _fill(self, now: float) -> None:
        """Add the tokens since the last call, and increase the rate or remove the limit."""
        if self.per_s is None:
            self._filled_at = now
            self._tokens, self._used_s, self._used = 0.0, -_WARMS_UP_S, 0
            return
        if now - self._refused_at > _FORGOTTEN_S:
            self.per_s, self._expected, self._trusted_s = None, 0.0, _TRIED_AGAIN_S
            return
        burst = max(_LEAST_BURST, self.per_s * _BURST_S)
        passed = max(0.0, now - self._filled_at)
        self._tokens = min(burst, self._tokens + passed * self.per_s)
        self._filled_at = now
        if self._doubles_s is not None:
            doublings = min(self._growing_s / self._doubles_s, 20.0)
            self.per_s = min(self._after_cut * 2**doublings, _MOST)
            return
        top = self._refused_rate
        to_top_s = ((1 - self._after_cut / top) / _GROWTH) ** (1 / 3)
        grown = top * (1 + _GROWTH * (self._growing_s - to_top_s) ** 3)
        self.per_s = min(max(self._after_cut, grown), _MOST)


class _Meter:
    """Measures answers per second, over the last 0.1 to 0.2 seconds."""

    def __init__(self) -> None:
        self._since = float("-inf")
        self._now = 0
        self._before = 0
        self._before_s = 0.0

    def count(self, now: float) -> None:
        passed = now - self._since
        if passed >= _METER_S:
            fresh = passed < 2 * _METER_S
            self._before = self._now if fresh else 0
            self._before_s = passed if fresh else 0.0
            self._since, self._now = now, 0
        self._now += 1

    def per_s(self, now: float) -> tuple[float, float]:
        """Return answers per second, and the number of seconds measured, which is 0 if there is no
        measurement.
        """
        if now - self._since >= 2 * _METER_S:
            return _UNKNOWN, 0.0
        seconds = self._before_s + now - self._since
        return (self._before + self._now) / max(seconds, _SHORTEST_S), seconds
