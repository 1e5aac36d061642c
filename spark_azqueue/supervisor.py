"""Run a query again after it failed, until it ends: what isolating a poison message needs.

    result = run_until_done(lambda: orders.writeStream.….start())
    sys.exit(0 if result.finished else 1)

See docs/supervision.md, also for systemd, Kubernetes and Databricks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .explanation import Explanation, explain

log = logging.getLogger(__name__)

PERMANENT = frozenset(
    {
        "InvalidOption",
        "InvalidSchema",
        "QueueNotFound",
        "AccessDenied",
        "CheckpointMismatch",
        "LogConflict",
        "LogDamaged",
        "LostSegment",
        "NotDrained",
        "TransactionConflict",
        "TransactionUnknown",
    }
)
"""Errors that another start cannot mend, or not at once. (After LogConflict it would take the log
from another query, which would then do the same. After TransactionConflict it would take the number
of the other's batch for its own, and pass over its own rows.)"""

_HEARD_WITHIN_S = 10.0

_HEALTHY_AT_LEAST_S = 60.0
"""A run that fails at its start lasts for seconds: that must not count as healthy."""


@dataclass(frozen=True)
class RunResult:
    """How a supervised query ended.

    finished: True if it ended without an error. restarts: how often it was started again.
    error: the last failure, None if there was none; also set if a restart helped.
    """

    finished: bool
    restarts: int
    error: Exception | None = None

    @property
    def explanation(self) -> Explanation | None:
        """What the last failure means and what to do, None if there was none."""
        return explain(self.error) if self.error else None


class Hears(Protocol):
    """What hears of the ends of runs: an AzQueueListener."""

    def wait_for_end(self, query: Any, timeout_s: float) -> bool:
        """Wait for the end of this run; False if it is not heard in time."""


def run_until_done(
    start: Callable[[], Any],
    *,
    listener: Hears | None = None,
    restarts: int = 20,
    restarts_in_all: int = 1000,
    first_wait: float = 1.0,
    longest_wait: float = 60.0,
    healthy_after: float = 600.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> RunResult:
    """Start a query, wait for its end, and start it again if it failed.

    start: starts the query and returns it (a StreamingQuery). Each call must use the same
        checkpoint.
    listener: the AzQueueListener whose metrics are used afterwards. The end of each run is waited
        for until it is known there, too: 10 seconds at most, then a warning says so.
    restarts: how many failures in a row without progress are followed by another start, at most.
        A run makes progress if it processes messages, as most do while a poison message is found.
    restarts_in_all: the same for failures with and without progress. So a query comes to an end
        although it always processes some messages before it fails.
    first_wait, longest_wait: seconds before a restart. The first is doubled for each further
        failure without progress, up to the longest.
    healthy_after: a run of this many seconds (60 at least) ends both rows of failures. So a stream
        that runs for months is not given up for a failure each week.
    sleep, clock: for tests.

    Returns when the query ended by itself (`availableNow`) or was stopped, when it failed with an
    error that no restart can mend (`PERMANENT`), or after the last restart. Raises only what the
    first call of `start` raises, since nothing ran by then. If it is interrupted, it stops the
    query.
    """
    if not (restarts >= 0 and restarts_in_all >= 0 and 0 <= first_wait <= longest_wait):
        raise ValueError(
            f"restarts={restarts}, restarts_in_all={restarts_in_all}, first_wait={first_wait},"
            f" longest_wait={longest_wait}: none may be negative, and longest_wait may not be below"
            " first_wait"
        )
    if not healthy_after >= _HEALTHY_AT_LEAST_S:
        raise ValueError(
            f"healthy_after={healthy_after}: expected {_HEALTHY_AT_LEAST_S:g} seconds or more. A"
            " run that fails after less would end the count of failures, and the query would be"
            " started for ever"
        )
    done, in_all, without_progress = 0, 0, 0
    error: Exception | None = None
    query = start()
    while True:
        began = clock()
        try:
            if query is None:
                query = start()
            _wait_for(query, listener)
        except Exception as failure:  # noqa: BLE001 (Spark's, Connect's and Py4J's have no base)
            error = failure
        else:
            return RunResult(True, done, error)
        healthy = clock() - began >= healthy_after
        in_all = 1 if healthy else in_all + 1
        without_progress = 1 if healthy or _made_progress(query) else without_progress + 1
        why = explain(error)
        too_many = without_progress > restarts or in_all > restarts_in_all
        if why.error in PERMANENT or too_many:
            log.error("the query is given up after %d restarts: %s", done, why)
            return RunResult(False, done, error)
        wait = min(longest_wait, first_wait * 2 ** min(without_progress - 1, 30))
        log.warning(
            "the query failed; restart %d of %d in %s s: %s: %s",
            *(without_progress, restarts, f"{wait:g}", why.error, why.sentence),
        )
        sleep(wait)
        query, done = None, done + 1


def _made_progress(query: Any) -> bool:
    """True if the run has committed a batch with rows; False if it has not, or cannot be asked."""
    try:
        return any(each["numInputRows"] for each in query.recentProgress)
    except Exception:  # noqa: BLE001 (it did not start, or its session has gone)
        return False


def _wait_for(query: Any, listener: Hears | None) -> None:
    """Return when the query has ended; raise its error. Stop it if this thread is interrupted."""
    try:
        query.awaitTermination()
    except Exception:
        _wait_until_heard(query, listener)
        raise
    except BaseException:
        query.stop()
        raise
    _wait_until_heard(query, listener)


def _wait_until_heard(query: Any, listener: Hears | None) -> None:
    if listener is not None and not listener.wait_for_end(query, _HEARD_WITHIN_S):
        log.warning(
            "the listener has not heard of the end of the run within %d s, so its metrics may be"
            " older: is it attached to the session of the query?",
            _HEARD_WITHIN_S,
        )
