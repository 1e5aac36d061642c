"""How often and how long a request is tried again: short, capped, jittered, by operation.

Only answers classified as RETRY are repeated, and a Retry-After is honoured. The SDK's own policy
is not used: it sleeps up to 84 s, which outlives leases.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

import tenacity

from spark_azqueue.errors import Outcome, ServiceError

T = TypeVar("T")

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class Retry:
    """A policy: give up after `seconds` (and no attempt begins later than that)."""

    def __init__(self, seconds: float) -> None:
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_before_delay(seconds),
            wait=_pause,
            retry=tenacity.retry_if_exception(_worth_retrying),
        )

    def attempts(self, begun_at: float) -> Attempts:
        """Count the attempts of one call, which began at this monotonic time."""
        return Attempts(self._retrying, begun_at)

    def __call__(self, work: Callable[..., T], *arguments: object) -> T:
        """Run work(*arguments) until it succeeds, fails for good, or the time is used up.

        Raises the last ServiceError when the time is used up, any other error at once.
        """
        attempts = self.attempts(time.monotonic())
        while True:
            try:
                return work(*arguments)
            except ServiceError as error:
                pause_s = attempts.failed(error)
                if pause_s is None:
                    raise
            time.sleep(pause_s)


class Attempts:
    """The attempts of one call. `in_doubt`: one that failed may have taken effect."""

    def __init__(self, retrying: tenacity.Retrying, begun_at: float) -> None:
        self._retrying = retrying
        self._state = tenacity.RetryCallState(retrying, None, (), {})
        self._state.start_time = begun_at
        self.in_doubt = False

    def failed(self, error: ServiceError) -> float | None:
        """One attempt failed: how many seconds to pause before the next, None for no more."""
        self.in_doubt |= error.may_have_taken_effect
        state = self._state
        state.set_exception((type(error), error, error.__traceback__))
        if not self._retrying.retry(state):
            return None
        state.upcoming_sleep = self._retrying.wait(state)
        if self._retrying.stop(state):
            return None
        pause_s = state.upcoming_sleep
        state.prepare_for_next_attempt()
        return pause_s


def _worth_retrying(error: BaseException) -> bool:
    return isinstance(error, ServiceError) and error.outcome is Outcome.RETRY


_backoff = tenacity.wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S)
_chance = random.Random()  # not the module's: its state is the user's


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ServiceError) else None
    # "Full jitter": anywhere up to a bound that grows, so that many callers do not come at once.
    return max(_chance.uniform(0.0, _backoff(state)), min(asked or 0.0, _LONGEST_PAUSE_S))


RECEIVE = Retry(120.0)
"""Dequeues: a service that stays away for two minutes stops the query (nothing is lost by it)."""

SETTLE = Retry(30.0)
"""Deletes in the background: after that the message is remembered, and deleted when it returns."""

REPLAY = Retry(120.0)
"""Deletes and releases that a restart must finish before it may go on."""

RENEW = Retry(10.0)
"""Renewals: after that the ledger decides when to try again."""

LAST_WORDS_S = 3.0
LAST_WORDS = Retry(LAST_WORDS_S)
"""Releases on the way out: nobody promises the process more than seconds."""

SEND = Retry(60.0)
"""Puts: after that the task fails and Spark decides."""

CONTROL = Retry(30.0)
"""Checks and peeks."""
