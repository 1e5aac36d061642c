"""`run_until_done`: restarts a query after failures, until the query ends. The isolation of poison
messages needs such restarts.

    result = run_until_done(lambda: orders.writeStream.….start())
    sys.exit(0 if result.finished else 1)

See docs/supervision.md, also for systemd, Kubernetes and Databricks.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from spark_azqueue.errors.explanation import Explanation, explain
from spark_azqueue.metrics.observers import observers_of
from spark_azqueue.metrics.read import Read, read_of, skipped
from spark_azqueue.service.last_failure import leave

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
        "LoadConflict",
        "NotDrained",
        "TooManyPoison",
        "TransactionConflict",
        "TransactionUnknown",
    }
)
"""Errors after which the query is not restarted, because a restart cannot fix them, or not soon.

LogConflict is included because the restarted query would use the batch that the other query logged,
and its sink would skip the rows.
"""

_OBSERVED_WITHIN_S = 10.0

_LOOK_EVERY_S = 1.0

_AT_ONCE = 4
"""While a poison message is isolated, the query is restarted without a wait after at most this many
consecutive failures."""

_HEALTHY_AT_LEAST_S = 60.0
"""Minimum duration of a healthy run in seconds.

A run that fails at its start takes a few seconds, and must not count as healthy.
"""


@dataclass(frozen=True)
class RunResult:
    """Result of a supervised query.

    finished: True if the query ended without an error. restarts: number of starts after a failure.
    error: the last failure, or None; set even if a restart helped. reason: why the query ended, or
    "".
    """

    finished: bool
    restarts: int
    error: Exception | None = None
    reason: str = ""

    @property
    def explanation(self) -> Explanation | None:
        """Meaning and remedy of the last failure, or None."""
        return explain(self.error) if self.error else None


class Hears(Protocol):
    """Observer that is notified when a run ends: an AzQueueListener."""

    def wait_for_end(self, query: Any, timeout_s: float) -> bool:
        """Wait until the end of this run is reported. Returns False if it is not reported in
        time."""


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

    start: starts the query and returns it. Each call must use the same checkpoint.
    listener: AzQueueListener; after each run, wait up to 10 seconds until it is notified of the
        end.
    restarts: maximum number of consecutive failures without progress. A run that processes messages
        makes progress. restarts_in_all: maximum number of all failures.
    first_wait, longest_wait: seconds before a restart; doubled after each failure without progress.
    healthy_after: seconds (60 or more) after which a run resets both counts.
    sleep, clock: for tests.

    Returns when the query ends by itself or is stopped, fails with an error that a restart cannot
    fix (`PERMANENT`), or fails after the last restart. Raises the errors of the first `start`, and
    TypeError or ValueError if `start` returns no new query. If interrupted, stops the
    query. On Spark 4.0 and 4.1, an `availableNow` run leaves messages in the queue; see `drain`.
    """
    limits = RestartLimits(
        restarts, restarts_in_all, first_wait, longest_wait, healthy_after, sleep, clock
    )
    return supervised(start, listener, limits)


def supervised(
    start: Callable[[], Any],
    listener: Hears | None,
    limits: RestartLimits,
    watch: Callable[[Any], None] | None = None,
) -> RunResult:
    """Run and restart a query; see `run_until_done`. watch: called with the query each second while
    the query runs."""
    runs = Runs(start, listener, limits, watch)
    try:
        query = runs.until_one_ends()
    except SkippedBatch as skipped:
        return RunResult(False, runs.restarts, runs.error, str(skipped))
    if query is None:
        return RunResult(False, runs.restarts, runs.error)
    last = next(reversed([*reads(query)]), None)
    reason = ""
    if last and last.is_new and _runs_one_batch(last):
        stays = f"the {last.messages} messages of the last batch stay in the queue, leased,"
        reason = (
            (f"{stays} until the next start deletes them; " if last.messages else "")
            + "an availableNow run of Spark 4.0 and 4.1 is one batch, so there may be more."
            " spark_azqueue.drain reads and deletes them all"
        )
        log.warning("%s", reason)
    return RunResult(True, runs.restarts, runs.error, reason)


def _runs_one_batch(last: Read) -> bool:
    """Return True if an availableNow run reads only one batch.

    If Spark repeated a batch, the progress does not show this, so Spark's version decides.
    """
    if last.is_old_spark is None:
        version: str = getattr(sys.modules.get("pyspark"), "__version__", "")
        return version.startswith(("4.0.", "4.1."))
    return last.is_old_spark


@dataclass(frozen=True)
class RestartLimits:
    """Limits on the restarts of a query, and the waits before them; see `run_until_done`.

    permanent: names of errors after which the query is not restarted.
    """

    restarts: int = 20
    restarts_in_all: int = 1000
    first_wait: float = 1.0
    longest_wait: float = 60.0
    healthy_after: float = 600.0
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    permanent: frozenset[str] = PERMANENT

    def __post_init__(self) -> None:
        """Raise ValueError for invalid values."""
        if not (
            self.restarts >= 0
            and self.restarts_in_all >= 0
            and 0 <= self.first_wait <= self.longest_wait
        ):
            raise ValueError(
                f"restarts={self.restarts}, restarts_in_all={self.restarts_in_all},"
                f" first_wait={self.first_wait}, longest_wait={self.longest_wait}: none may be"
                " negative, and longest_wait may not be below first_wait"
            )
        if not self.healthy_after >= _HEALTHY_AT_LEAST_S:
            raise ValueError(
                f"healthy_after={self.healthy_after}: expected {_HEALTHY_AT_LEAST_S:g} seconds or"
                " more. A run that fails after less would end the count of failures, and the query"
                " would be started for ever"
            )


class OutOfTime(Exception):  # noqa: N818
    """Raised if the time limit of a `drain` has passed."""


class SkippedBatch(Exception):  # noqa: N818
    """Raised if the sink skipped a batch of new messages: the rows would be lost if the query
    continued."""


class Isolating:
    """Follows the search for poison messages over several runs, from the status in offsets.

    The search advances if it has split a batch or moved a message, and a batch was committed since
    the last advance. If no batch was committed, the sink may be down, and the wait before the next
    start is longer. After a batch was committed during the search, the query is restarted without a
    wait after the next few failures.
    """

    def __init__(self) -> None:
        self.status = ""
        """Status of the search after the newest run, as one line; "" if there is no search."""
        self.may_restart_at_once = False
        """True if the next restart needs no wait, because the sink is probably not down."""
        self._has_committed = True
        self._is_under_way = False
        self._in_a_row = 0

    def advances(self, status: str, has_committed: bool) -> bool:
        """Record a failed run. Return True if the search advanced.

        status: status in the offsets of the run. has_committed: True if the run committed messages.
        """
        is_new = bool(status) and status != self.status
        advances = is_new and self._has_committed
        if is_new:
            self._has_committed = False
        self._has_committed = self._has_committed or has_committed
        self.status = status
        self._in_a_row = 1 if has_committed else self._in_a_row + 1
        self._is_under_way = bool(status) and (self._is_under_way or has_committed)
        self.may_restart_at_once = self._is_under_way and self._in_a_row <= _AT_ONCE
        return advances


class Runs:
    """Consecutive runs of one query, and their failures."""

    def __init__(
        self,
        start: Callable[[], Any],
        listener: Hears | None,
        limits: RestartLimits,
        watch: Callable[[Any], None] | None = None,
        until: float | None = None,
    ) -> None:
        """watch: called with the query each second while the query runs. until: time limit, by
        `limits.clock`."""
        self._start, self._listener, self._limits = start, listener, limits
        self._watch, self._until = watch, until
        self._in_all = self._without_progress = 0
        self._isolating = Isolating()
        self._newest: Any = None
        self.restarts = 0
        self.error: Exception | None = None
        self.began_at = self.failed_at = 0.0
        """Times at which the newest run began and the newest failure was seen, by
        `limits.clock`."""

    def until_one_ends(self) -> Any | None:
        """Start the query again and again until a run ends without an error. Returns this run; None
        if the last allowed restart has failed.

        Raises OutOfTime, SkippedBatch, errors of the first start, and TypeError or ValueError if a
        start returns no new run. Before OutOfTime and SkippedBatch, the query is stopped.
        """
        limits = self._limits
        query = self._checked(self._start()) if self._newest is None else None
        while True:
            began = self.began_at = limits.clock()
            try:
                started = self._start() if query is None else query
            except Exception as error:  # noqa: BLE001 (Spark's, Connect's and Py4J's have no base)
                failure: Exception | None = error
            else:
                query = self._checked(started) if query is None else query
                failure = self._failure_of(query)
            if failure is None:
                if _made_progress(query):  # or the run only replayed a batch, which has no rows
                    self._without_progress = 0
                return query
            self.error, self.failed_at = failure, limits.clock()
            healthy = self.failed_at - began >= limits.healthy_after
            self._in_all = 1 if healthy else self._in_all + 1
            advances = self._isolating.advances(_status_of(query, failure), _made_progress(query))
            made_progress = healthy or _made_progress(query) or advances
            self._without_progress = 1 if made_progress else self._without_progress + 1
            if self._isolating.may_restart_at_once:
                self._without_progress = 0
            if query is not None:
                _stop(query)
            why = explain(failure)
            leave(f"{why.error}: {why.sentence}", _text_of(failure))
            if not self._may_go_on(why):
                return None
            query = None
            self.restarts += 1

    def _checked(self, query: Any) -> Any:
        before = self._newest
        if not hasattr(query, "awaitTermination"):
            raise TypeError(
                f"start returned {type(query).__name__}: it must return the query that it starts"
            )
        if before is not None and (query is before or _run_id(query) == _run_id(before) != ""):
            raise ValueError(
                "start returned the run of an earlier call: it must start the query at each call"
            )
        self._newest = query
        return query

    def _may_go_on(self, why: Explanation) -> bool:
        """Wait before the next start. Returns False if the query may not be started again."""
        limits, in_a_row = self._limits, self._without_progress
        too_many = in_a_row > limits.restarts or self._in_all > limits.restarts_in_all
        if why.error in limits.permanent or too_many:
            log.error("the query is given up after %d restarts: %s", self.restarts, why)
            return False
        wait = limits.first_wait * 2 ** min(in_a_row - 1, 30) if in_a_row else 0.0
        wait = min(limits.longest_wait, wait)
        log.warning(
            "the query failed; restart %d of %d in %s s: %s: %s%s",
            *(max(1, in_a_row), limits.restarts, f"{wait:g}", why.error, why.sentence),
            f". Isolation: {status}" if (status := self._isolating.status) else "",
        )
        if self._until is not None and limits.clock() + wait >= self._until:
            raise OutOfTime
        if wait:
            limits.sleep(wait)
        return True

    def _failure_of(self, query: Any) -> Exception | None:
        """Wait for the end of the run, and return its error.

        If the wait is interrupted, the run is stopped.
        """
        failure = None
        try:
            self._await(query)
        except (OutOfTime, SkippedBatch) as why:
            _stop(query)
            _wait_until_observed(query, self._listener)
            if isinstance(why, SkippedBatch):
                log.error("%s", why)
            raise
        except Exception as error:  # noqa: BLE001 (as above)
            failure = error
        except BaseException:
            query.stop()
            raise
        _wait_until_observed(query, self._listener)
        return failure

    def _await(self, query: Any) -> None:
        ended = False
        while not ended:
            left = _LOOK_EVERY_S
            if self._until is not None:
                left = min(left, self._until - self._limits.clock())
            if left <= 0:
                raise OutOfTime
            try:
                ended = query.awaitTermination(left)
            except Exception:
                self._look_at(query, is_over=True)  # check the last batches of the run as well
                raise
            self._look_at(query, is_over=ended)

    def _look_at(self, query: Any, *, is_over: bool) -> None:
        """Raise SkippedBatch if the sink skipped a batch. is_over: the run has ended, so check all
        its known batches, not only the newest."""
        if self._watch:
            self._watch(query)
        for read in reads(query) if is_over else _newest(query):
            if why := skipped(read):
                raise SkippedBatch(why)


def reads(query: Any) -> Iterator[Read]:
    """Yield what the newest progress events of a run show; nothing if the run does not answer."""
    with contextlib.suppress(Exception):  # the run has not started, or its session has ended
        for progress in [*query.recentProgress]:
            if found := read_of(parsed(progress)):
                yield found


def _newest(query: Any) -> Iterator[Read]:
    """Yield what the newest progress event of a run shows.

    Other events are not fetched, because events of large batches are large.
    """
    with contextlib.suppress(Exception):
        if (progress := query.lastProgress) and (found := read_of(parsed(progress))):
            yield found


def parsed(progress: Any) -> Mapping[str, Any]:
    """Return a progress event as parsed JSON.

    The event's JSON is parsed, because Spark 4.0 and 4.1 change the offsets in the event's objects.
    """
    if text := getattr(progress, "json", None):
        found: Mapping[str, Any] = json.loads(text)
        return found
    return dict(progress)


_STATUS = re.compile(r'"isolation": ?"([ !#-\[\]-~]{1,300})"')
"""Pattern for the status of isolation in an offset: see `source/offsets.py`."""


def _text_of(failure: BaseException) -> str:
    """Return the whole text of this failure, which contains the offsets of its batch."""
    with contextlib.suppress(Exception):  # Spark's errors call the JVM, which may have ended
        return f"{failure}\n{getattr(failure, '_stackTrace', '')}"
    return ""


def _status_of(query: Any, failure: BaseException) -> str:
    """Return the status of isolation from the offsets in this failure.

    If the failure contains no offsets, the offsets in the newest progress are used.
    """
    if found := _STATUS.findall(_text_of(failure)):
        return str(found[-1])
    with contextlib.suppress(Exception):
        newest = parsed([*query.recentProgress][-1])
        ends = [each.get("endOffset") for each in newest["sources"]]
        told = [
            each["isolation"] for each in ends if isinstance(each, dict) and "isolation" in each
        ]
        return next(
            (each for each in map(str, told) if _STATUS.fullmatch(f'"isolation":"{each}"')), ""
        )
    return ""


def _run_id(query: Any) -> str:
    try:
        return str(getattr(query, "runId", ""))
    except Exception:  # noqa: BLE001 (the session has ended)
        return ""


def _stop(query: Any) -> None:
    try:
        if getattr(query, "isActive", True):
            query.stop()
    except Exception as error:  # noqa: BLE001 (Spark's, Connect's and Py4J's have no base)
        log.warning("the query does not stop: %s: %s", type(error).__name__, error)


def _made_progress(query: Any) -> bool:
    """Return True if the run has committed a batch with rows. Returns False if the run does not
    answer."""
    try:
        return any(each["numInputRows"] for each in query.recentProgress)
    except Exception:  # noqa: BLE001 (it did not start, or the session has ended)
        return False


def _wait_until_observed(query: Any, listener: Hears | None) -> None:
    """Wait until this listener and the session's listeners are notified of the end of the run."""
    named: list[Hears] = [] if listener is None else [listener]
    others = [each for each in observers_of(query) if each is not listener]
    heard = [each.wait_for_end(query, _OBSERVED_WITHIN_S) for each in [*named, *others]]
    if not all(heard):
        log.warning(
            "the listener has not heard of the end of the run within %d s, so its metrics may be"
            " older: is it attached to the session of the query?",
            _OBSERVED_WITHIN_S,
        )
