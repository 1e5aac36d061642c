"""How often and how long a request is tried again: short, capped, jittered, by operation.

Only answers classified as RETRY are repeated, and a Retry-After is honoured. The SDK's own policy
is not used: it sleeps up to 84 s, which outlives leases. Ring: edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import tenacity

from .errors import Outcome, ServiceError

T = TypeVar("T")

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 5.0


class Retry:
    """A policy: give up after `seconds` (and no attempt begins later than that).

    Call it with a function; raises the last ServiceError when the time is used up, and any error
    that no retry helps at once.
    """

    def __init__(self, seconds: float) -> None:
        self._retrying = tenacity.Retrying(
            stop=tenacity.stop_before_delay(seconds),
            wait=_pause,
            retry=tenacity.retry_if_exception(_worth_retrying),
            reraise=True,
        )

    def __call__(self, work: Callable[..., T], *arguments: object) -> T:
        """Run work(*arguments) until it succeeds, fails for good, or the time is used up."""
        return self._retrying(work, *arguments)


def _worth_retrying(error: BaseException) -> bool:
    return isinstance(error, ServiceError) and error.outcome is Outcome.RETRY


_backoff = tenacity.wait_random_exponential(multiplier=_FIRST_PAUSE_S, max=_LONGEST_PAUSE_S)


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    asked = error.retry_after if isinstance(error, ServiceError) else None
    return max(_backoff(state), min(asked or 0.0, _LONGEST_PAUSE_S))


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

BLOB = Retry(60.0)
"""Reading and deleting large bodies."""

CONTROL = Retry(30.0)
"""Checks, peeks and the creation of queues."""
