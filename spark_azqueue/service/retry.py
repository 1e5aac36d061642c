"""Retry policies of the operations. Pauses between attempts are random, grow, and have a maximum.

Only requests whose answer is classified as RETRY are retried. A pause is at least as long as the
answer's Retry-After, but never longer than the maximum pause.
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
    """A retry policy. No attempt begins later than `seconds` after the first attempt.

    attempt_s: maximum duration of an attempt in seconds, so that time remains for another attempt;
    None for the transport's limit of 40 s.
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
        """Call `note` with this error, because of which the transport sends the request again."""
        if self._note:
            self._note(error)

    def attempts(self, begun_at: float) -> Attempts:
        """Return a counter for the attempts of a call that began at this monotonic time."""
        return Attempts(self._retrying, begun_at, self._note)

    def __call__(self, work: Callable[..., T], *arguments: object) -> T:
        """Call work(*arguments) until it succeeds, raises an error that is not retryable, or the
        time is over.

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

        Returns the seconds to wait before the next attempt; None if no further attempt may follow.
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
# not the generator of the module `random`, whose seed the user may have set
_chance = random.Random()


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ServiceError) else None
    # "Full jitter": a random pause up to a growing limit, so that callers do not all retry at the
    # same time.
    return max(_chance.uniform(0.0, _backoff(state)), min(asked or 0.0, _LONGEST_PAUSE_S))


RECEIVE = RetryPolicy(120.0)
"""Policy for dequeues. If the service is unreachable for two minutes, the query fails. No message
is lost.
"""

SETTLE = RetryPolicy(30.0, attempt_s=10.0)
"""Policy for deletes in the background.

If a delete does not succeed within 30 s, the source deletes the message when a later dequeue
returns it. If the answer to a delete is lost, the retry is refused, which shows that the first
attempt probably worked. So the limit of an attempt (10 s) leaves time for a retry.
"""

REPLAY = RetryPolicy(120.0)
"""Policy for deletes and releases that a restarted query must finish before it resumes."""

RENEW = RetryPolicy(10.0)
"""Policy for renewals. If a renewal does not succeed within 10 s, the ledger decides when to retry
it.
"""

LAST_WORDS_S = 3.0
LAST_WORDS = RetryPolicy(LAST_WORDS_S)
"""Policy for releases while the process stops, for which Spark may allow only seconds."""

SEND = RetryPolicy(60.0)
"""Policy for puts. If a put does not succeed within 60 s, the task fails, and Spark may retry the
task.
"""

CONTROL = RetryPolicy(30.0)
"""Policy for checks and peeks."""
