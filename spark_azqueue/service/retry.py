"""Retry policies by operation: short, capped, jittered pauses.

Only answers classified as RETRY are retried. A Retry-After is respected, up to the longest pause.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import tenacity

from spark_azqueue.errors import Outcome, ServiceError

T = TypeVar("T")
Note: TypeAlias = Callable[[ServiceError], None]

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class RetryPolicy:
    """A policy: no attempt begins later than `seconds` after the first.

    attempt_s: an attempt without an answer ends after this many seconds, so that another attempt
    has time. None: only the transport's limit of 40 s applies.
    """

    def __init__(
        self, seconds: float, attempt_s: float | None = None, note: Note | None = None
    ) -> None:
        """note: called with each error that leads to a retry, in the thread of the attempt."""
        self.attempt_s = attempt_s
        self._seconds = seconds
        self._note = note
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_before_delay(seconds),
            wait=_pause,
            retry=tenacity.retry_if_exception(_worth_retrying),
        )

    def noting(self, note: Note) -> RetryPolicy:
        """Return the same policy with this `note`."""
        return RetryPolicy(self._seconds, self.attempt_s, note)

    def repeated(self, error: ServiceError) -> None:
        """Report to `note` a repeat that the transport made itself because of this error."""
        if self._note:
            self._note(error)

    def attempts(self, begun_at: float) -> Attempts:
        """Count the attempts of one call, which began at this monotonic time."""
        return Attempts(self._retrying, begun_at, self._note)

    def __call__(self, work: Callable[..., T], *arguments: object) -> T:
        """Call work(*arguments) until it succeeds, fails for good, or the time is over.

        Raises the last ServiceError when the time is over. Raises any other error immediately.
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
    """The attempts of one call. `in_doubt`: a failed attempt may have taken effect."""

    def __init__(
        self, retrying: tenacity.Retrying, begun_at: float, note: Note | None = None
    ) -> None:
        self._retrying = retrying
        self._note = note
        self._state = tenacity.RetryCallState(retrying, None, (), {})
        self._state.start_time = begun_at
        self.in_doubt = False

    def failed(self, error: ServiceError) -> float | None:
        """Record a failed attempt.

        Returns the seconds to wait before the next attempt; None to stop.
        """
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
        if self._note:
            self._note(error)
        return pause_s


def _worth_retrying(error: BaseException) -> bool:
    return isinstance(error, ServiceError) and error.outcome is Outcome.RETRY


_backoff = tenacity.wait_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S)
_chance = random.Random()  # not the module's generator, whose state belongs to the user


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ServiceError) else None
    # "Full jitter": a random pause up to a growing limit, so that callers do not retry in step.
    return max(_chance.uniform(0.0, _backoff(state)), min(asked or 0.0, _LONGEST_PAUSE_S))


RECEIVE = RetryPolicy(120.0)
"""Dequeues. If the service is unreachable for two minutes, the query fails; no message is lost."""

SETTLE = RetryPolicy(30.0, attempt_s=10.0)
"""Deletes in the background.

After 30 s without success, the source remembers the message and deletes it when it returns. If an
answer is lost, a repeat is refused, which shows that the first delete probably worked. So the limit
of one attempt (10 s) leaves time for a repeat.
"""

REPLAY = RetryPolicy(120.0)
"""Deletes and releases that a restart must finish before it resumes."""

RENEW = RetryPolicy(10.0)
"""Renewals. After 10 s without success, the ledger decides when to try again."""

LAST_WORDS_S = 3.0
LAST_WORDS = RetryPolicy(LAST_WORDS_S)
"""Releases while the process stops. Spark may leave only seconds for them."""

SEND = RetryPolicy(60.0)
"""Puts. After 60 s without success, the task fails, and Spark may retry it."""

CONTROL = RetryPolicy(30.0)
"""Checks and peeks."""
