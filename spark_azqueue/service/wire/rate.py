"""Learns the rate limit of a queue, in requests per second, from answers with 503.

Before the first 503, there is no limit. After a 503, a token bucket limits the requests. The
bucket's rate is *cut* at once, then grows along a cubic curve, as in TCP CUBIC: fast at first,
slowly near the rate at which requests were refused, and then faster again. Some refusals do not
depend on the rate (a busy partition, a proxy). So cuts that do not reduce refusals are undone. This
module reads no clock: functions get the time as an argument.
"""

from __future__ import annotations

_FIRST_CUT = 0.7
_CUT = 0.92
"""A cut sets the rate to this factor times the rate at which requests were refused."""
_UNKNOWN = 100.0
"""Rate that is assumed, in requests per second, if the first answers of all are 503."""
_GROWTH = 0.0125
"""Growth in: rate = refused rate x (1 + growth x (seconds - seconds to get there) ** 3)."""
_LEAST = 20.0
"""Lowest rate, in requests per second."""
_FLOOR = 2 * _LEAST
"""Below this rate, the effect of cuts is judged even if the rate has not fallen far enough."""
_MOST = 100_000.0
"""Highest rate, in requests per second: more than a process can send."""

_SETTLES_S = 0.25
"""For this many seconds after a cut, refusals are attributed to requests that were sent before the
cut, unless there are many refusals.
"""
_FEW = 3
"""Minimum number of refusals after which the rate is cut. Fewer refusals may be chance."""
_MANY = 8
_LARGE_SHARE = 0.2
"""A number of refusals, and a share of the answers. If the refusals exceed both, the rate is cut
without waiting."""
_SMALL_SHARE = 0.03
"""If a larger share of requests is refused, the rate of accepted answers is the service's limit."""

_FRUITLESS = 0.5
"""The effect of cuts is judged when they have left less than this share of the original rate.

If refusals are about as frequent as before, they do not depend on the rate, and the cuts are
undone. A simulated queue that refuses 5 % of requests at any rate (2,000 requests/s, 10 ms,
tests/support/throttling) carries out 1,830/s with this rule, and 26/s without the rule.
"""
_BELOW = 0.75
_FEWEST_BELOW = 64
"""A share of the rate before the cuts, and a number of answers. The effect of cuts is measured
while the rate is below this share, over at least this many answers.
"""
_HELPS = 0.6
_HELPS_ALWAYS = 0.006
"""Cuts have helped if the refusals fall to the first share of the earlier refusals, or to the
second share of all answers.
"""
_BEYOND = 2.0
"""After cuts that did not help, a share of refusals is expected. The rate is cut again only if more
than this multiple of the expected share is refused.



If the midpoint between the expected share and 1 is lower than this multiple, the midpoint is used.
"""
_TRIED_AGAIN_S = 10.0
"""For this many seconds after cuts that did not help, a share of refusals is expected. After this
time, cuts are tried again.

Each time that cuts do not help again, this time is doubled, up to a maximum.
"""
_LONGEST_TRUST_S = 120.0

_PAUSE_S = 0.02
"""Pause after a cut, in seconds, during which the service's burst allowance recovers."""
_BURST_S = 0.02
_LEAST_BURST = 4.0
"""Minimum capacity of the bucket in tokens. Above this minimum, the capacity is the number of
tokens of `_BURST_S` seconds.
"""
_AHEAD = 8.0
"""Number of tokens by which requests with Turn.AHEAD may overdraw the bucket."""
_LONGEST_DEBT_S = 1.0
"""Maximum overdraft of the bucket by retries, in seconds of the rate."""
_LONGEST_WAIT_S = 1.0
"""Maximum time, in seconds, that a request waits before it asks again."""

_METER_S = 0.1
_SHORTEST_S = 0.01
"""Minimum length of a measurement of the rate, in seconds."""
_DOUBLES_S = 1.0
_DOUBLES_FAST_S = 0.25
"""Times, in seconds, in which the rate doubles between the first cut and the second cut.

The second cut shows the service's limit. The shorter time is used if the first cut came too early
for a measurement of the rate.
"""
_OVERSHOT = 0.85
"""Factor for the estimate of the service's limit at the second cut, because the service's burst
allowance raised the measured rate.
"""

_WANTED_S = 0.05
_NEAR = 8.0
"""While requests wait for another limit, the rate grows only up to this multiple of the accepted
rate.
"""
_IDLE_S = 1.0
"""If no request had to wait for this many seconds, other clients are assumed to have caused a
refusal."""
_WARMS_UP_S = 0.5
"""The rate is not measured for this many seconds after the start, because too few requests are in
flight.
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
        self._after_cut = 0.0  # the rate just after the last cut
        # Seconds of growth since the cut; only time in which the rate was fully used counts
        self._growing_s = 0.0
        self._cut_at = float("-inf")
        self._refused_at = float("-inf")
        self._wanted_at = float("-inf")  # time at which requests last had to wait
        self._accepted_since_cut = 0
        self._refused_since_cut = 0
        self._accepted_beyond = 0  # accepted answers after the first refusal since the cut
        self._doubles_s: float | None = None  # set from the first cut to the second cut
        # seconds for which the rate was used, while it was a limit that the service has shown
        self._used_s = -_WARMS_UP_S
        self._used = 0  # answers other than 503 in these seconds
        self._meter = _Meter()
        self._before_cuts = 0.0  # the rate before the newest cuts, whose effect is not judged yet
        # The share of refusals before these cuts, counted from the first refusal
        self._share_before = 0.0
        self._below = self._refused_below = 0  # answers and refusals at a much lower rate
        self._expected = 0.0  # the expected share of refusals, which no cut prevents
        self._trusted_s = _TRIED_AGAIN_S
        self._trusted_until = float("-inf")

    @property
    def mean_per_s(self) -> float | None:
        """Mean rate while requests had to wait, or None if there is no limit."""
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
        """Return the seconds until a request may be sent; 0 for now. ahead: True if the request may
        be sent before requests that wait.
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
        """Record that requests wait. So the rate of accepted answers is now the service's limit.

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
            return  # sent before the last cut, or refused because of other clients
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
        # The rate is far above the service's limit, so the accepted answers show the limit
        if share > _SMALL_SHARE:
            sent_within_s = sent_at - self._cut_at - _PAUSE_S
            top = min(top, accepted / max(sent_within_s, _SHORTEST_S))
            rate = top * _CUT
        elif top < self._refused_rate:  # lower than at the last cut: leave room for other processes
            top *= (1 + _CUT) / 2
        if self._doubles_s is not None:
            top, rate = min(top, self.per_s * _OVERSHOT), min(rate, self.per_s * _FIRST_CUT)
        self._cut(now, top, rate)

    @property
    def _is_below(self) -> bool:
        """Return True if the cuts have taken effect. (Retries may still exceed the rate.)"""
        if self.per_s is None or self._tokens < 0:
            return False
        return self.per_s < max(_BELOW * self._before_cuts, _FLOOR)

    @property
    def _deepest(self) -> float:
        """Return the lowest number of tokens of an overdrawn bucket, which is negative."""
        assert self.per_s is not None
        return -self.per_s * _LONGEST_DEBT_S - _AHEAD

    @property
    def _are_fruitless(self) -> bool:
        """Return True if the cuts did not help.

        If the cuts helped, later cuts are judged from now on.
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
        """Undo the newest cuts, because the same share of requests is refused at any rate."""
        self._expected = self._refused_below / self._below
        self._cut(now, self._before_cuts, self._before_cuts)
        self._before_cuts = 0.0
        self._trusted_until = now + self._trusted_s
        self._trusted_s = min(2 * self._trusted_s, _LONGEST_TRUST_S)

    def _cut(self, now: float, refused_rate: float, rate: float) -> None:
        """Set the rate. From there, the rate grows fast up to `refused_rate`, and slowly beyond
        it."""
        self._fill(now)
        self.per_s = self._after_cut = min(max(_LEAST, rate), _MOST)
        self._refused_rate = min(max(self.per_s, refused_rate), _MOST)
        self._tokens = max(min(self._tokens, 0.0) - self.per_s * _PAUSE_S, self._deepest)
        self._growing_s = 0.0
        self._cut_at = now
        self._accepted_since_cut = self._refused_since_cut = self._accepted_beyond = 0
        self._doubles_s = None

    def _fill(self, now: float) -> None:
        """Add the tokens for the time since the last call. Increase the rate, or remove the
        limit."""
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
        """Return the number of answers per second, and the length of the measurement in seconds (0
        if there is none).
        """
        if now - self._since >= 2 * _METER_S:
            return _UNKNOWN, 0.0
        seconds = self._before_s + now - self._since
        return (self._before + self._now) / max(seconds, _SHORTEST_S), seconds
