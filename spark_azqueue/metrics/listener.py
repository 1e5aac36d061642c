"""A listener that keeps the metrics of a session's queries.

    listener = AzQueueListener.attach(spark)
    …
    listener.latest("orders").backlog
    listener.as_dataframe(spark).show()

The metrics are only in the memory of this process, so they are lost at a restart.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from .activity import Activity, QueryState
from .latency import BATCH, Recorder, added
from .observers import register
from .query_metrics import QueryMetrics, metrics_of, rate_of
from .read import read_of, skipped
from .report import Counters, ReadTransaction, TransactionReport
from .source_progress import Carried
from .watched import Watched, WatchQueues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)

QUERIES_AT_MOST = 100
"""Maximum number of queries whose metrics are kept. The queries that ended first are removed first.
"""

_ENDED_AT_MOST = 1_000
"""Maximum number of ended runs that are kept for `wait_for_end`."""

TRANSACTION_EVERY_S = 30.0
"""Minimum number of seconds between two reads of a query's transaction log."""

SCHEMA = QueryMetrics.columns()
"""Columns of `as_dataframe`, as DDL."""


class AzQueueListener(StreamingQueryListener):
    """Keeps the latest metrics of each query that reads queues, and logs a line for each batch.

    A query is identified by its name or, without a name, by its id. Thread-safe.
    """

    def __init__(
        self,
        keep: int = 100,
        transactions: ReadTransaction | None = None,
        watch: WatchQueues | None = None,
    ) -> None:
        """keep: number of progress events whose metrics are kept for each query.

        transactions: function that reads the transaction log of the queries' sinks; the result of
        `transaction_reader`. For each query, the function is called at most every 30 seconds, and
        at the query's end.

        watch: function that reads the state of queries' queues; the result of `queue_watch`. The
        function is called when metrics are exported, even for queries that fail or do not run.
        """
        self._keep = keep
        self._watch = watch
        self._lock = threading.Lock()
        self._ends = threading.Condition(self._lock)
        self._ended: OrderedDict[str, None] = OrderedDict()  # the newest runs that have ended
        self._kept: OrderedDict[str, deque[QueryMetrics]] = OrderedDict()
        self._before: dict[str, QueryMetrics] = {}  # with counters of earlier runs
        self._carried: dict[str, Carried] = {}  # by run
        self._batches: dict[str, Recorder] = {}  # histograms of batch durations by query
        self._followers: list[Callable[[QueryMetrics], object]] = []
        self._activity = Activity()
        self._transactions = SeldomRead(transactions) if transactions else None
        self._sends: set[str] = set()  # names of queries whose sink is a queue
        # runs with a temporary checkpoint, before the warning is logged
        self._unsafe: set[str] = set()
        register(self)

    @classmethod
    def attach(
        cls,
        spark: SparkSession,
        keep: int = 100,
        transactions: ReadTransaction | None = None,
        watch: WatchQueues | None = None,
    ) -> AzQueueListener:
        """Make a listener and add it to this session, classic or Connect.

        keep, transactions, watch: see `__init__`.
        """
        listener = cls(keep, transactions, watch)
        listener.spark = spark
        spark.streams.addListener(listener)
        return listener

    # ── queries ───────────────────────────────────────────────────────────────────────────────────

    def queries(self, *, active: bool = False) -> list[str]:
        """Return the names or ids of the queries with metrics. active: True to return only queries
        that run.
        """
        with self._lock:
            running = self._activity.running
            return [query for query in self._kept if not active or query in running]

    def activity(self) -> dict[str, bool]:
        """Return, by name or id, whether each query runs now (`active` of `states`)."""
        return {query: state.active for query, state in self.states().items()}

    def states(self) -> dict[str, QueryState]:
        """Return the state of each query, by name or id: whether the query runs, its start, and its
        failures.

        A query is included from its start, even if it has no metrics yet or failed before its first
        metrics. With Spark Connect, it may be unknown whether a query reads queues. Such a query is
        included until its first progress.
        """
        with self._lock:
            return self._activity.of_all(self._kept)

    def latest(self, query: Any) -> QueryMetrics | None:
        """Return the newest metrics of a query, or None. query: the name, the id, or the query
        object.
        """
        known = self._of(query)
        return known[-1] if known else None

    def totals(self, query: Any) -> QueryMetrics | None:
        """Return the newest metrics of a query. Counters are sums over all its observed runs.

        So they do not restart at 0 in each run, as in `latest` and `metrics`.
        """
        newest = self.latest(query)
        if newest is None:
            return None
        with self._lock:
            return self._total(newest)

    def sends(self, query: str) -> bool:
        """True if the query's sink is a queue. False if it is not, or if the sink is unknown
        (Connect).
        """
        with self._lock:
            return query in self._sends

    def follow(self, follower: Callable[[QueryMetrics], object]) -> None:
        """Call this function with the `totals` of a query whenever the query has new metrics."""
        self._followers.append(follower)

    def _total(self, newest: QueryMetrics) -> QueryMetrics:
        total = newest.plus(self._before.get(newest.query))
        if (batches := self._batches.get(newest.query)) is None:
            return total
        return replace(total, latencies=added(total.latencies or {}, batches.latencies()))

    def watched(self) -> Mapping[str, Watched]:
        """Return the state of queries' queues, by the name of the query. Empty if the listener has
        no `watch`.
        """
        if self._watch is None:
            return {}
        try:
            return self._watch()
        except Exception:
            log.exception("the queues are not looked at")
            return {}

    def rate(self, query: Any) -> float | None:
        """Return messages per second over the last ten minutes, including idle time.

        Returns None before the first batch, and if there were no messages.
        """
        return rate_of(self._of(query))

    def wait_for_end(self, query: Any, timeout_s: float = 10.0) -> bool:
        """Wait until the listener is notified of the end of a run. Return False after `timeout_s`
        seconds.

        query: the StreamingQuery, which has ended. Spark notifies listeners later than callers that
        wait for the query. Until then, the listener shows the query as running.
        """
        run = str(query.runId)
        with self._ends:
            return self._ends.wait_for(lambda: run in self._ended, timeout_s)

    def observes(self, query: Any) -> bool:
        """True if the listener gets the events of this run: it is attached to the run's session.

        query: the StreamingQuery. Spark reports a start before it returns the query, also with
        Connect.
        """
        try:
            run = str(query.runId)
        except Exception:  # noqa: BLE001 (it did not start, or its session has gone)
            return False
        with self._lock:
            return self._activity.knows(run) or run in self._ended

    def metrics(self, query: Any = None) -> list[dict[str, Any]]:
        """Return all kept metrics of one query, or of all queries, as flat dicts.

        The metrics of one query are in order of time.
        """
        chosen = [query] if query is not None else self.queries()
        return [each.as_dict() for one in chosen for each in self._of(one)]

    def as_dataframe(self, spark: SparkSession, query: Any = None) -> DataFrame:
        """Return `metrics` as a DataFrame with the columns of `SCHEMA`."""
        rows = [
            each | {"timestamp": datetime.fromisoformat(each["timestamp"].replace("Z", "+00:00"))}
            for each in self.metrics(query)
        ]
        return spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)

    def _of(self, query: Any) -> list[QueryMetrics]:
        if not isinstance(query, str):
            query = getattr(query, "name", None) or str(getattr(query, "id", query))
        with self._lock:
            by_name = self._kept.get(query)
            if by_name is not None:
                return list(by_name)
            return [each for kept in self._kept.values() for each in kept if each.query_id == query]

    # ── called by Spark ───────────────────────────────────────────────────────────────────────────

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Record that the query runs. Log a warning later if its checkpoint is temporary."""
        run, query = str(event.runId), str(event.name or event.id)
        checkpoint = self._in_jvm(str(event.id), lambda query: query.resolvedCheckpointRoot())
        unsafe = _is_temporary(checkpoint or "")
        reads_queues = self._reads_queues(str(event.id))
        sink = self._in_jvm(str(event.id), lambda query: query.sink().name())
        with self._lock:
            self._sends.discard(query)
            if sink == "azqueue":
                self._sends.add(query)
            if unsafe:
                self._unsafe.add(run)
            self._activity.started(run, query, time.time(), reads_queues=reads_queues)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Keep the metrics of a batch."""
        self._take(event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Keep the metrics of an idle query. This event has no metrics, so the query's last
        progress is read.
        """
        if self.spark is None:
            return
        try:
            query = self.spark.streams.get(str(event.id))
            progress = query.lastProgress if query else None
        except Exception:
            log.debug("query %s has no progress", event.id, exc_info=True)  # the query has ended
            return
        if progress is not None:
            self._take(progress.json)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Record that the query ended. Its metrics are kept; metrics of queries that ended long ago
        may be removed.
        """
        if self._transactions:
            self._take_last_transaction(self._transactions, str(event.id), str(event.runId))
        with self._lock:
            failed = event.exception is not None
            self._activity.ended(str(event.runId), self._kept, failed=failed)
            self._unsafe.discard(str(event.runId))
            self._carried.pop(str(event.runId), None)
            running = self._activity.running
            ended = [query for query in self._kept if query not in running]
            for query in ended[: max(0, len(self._kept) - QUERIES_AT_MOST)]:
                del self._kept[query]
                self._before.pop(query, None)
                self._batches.pop(query, None)
                self._sends.discard(query)
            self._ended[str(event.runId)] = None
            while len(self._ended) > _ENDED_AT_MOST:
                self._ended.popitem(last=False)
            self._ends.notify_all()

    def _take(self, progress: str) -> None:
        try:
            fields = json.loads(progress)
            read = self._transactions.of if self._transactions else None
            run = str(fields["runId"])
            metrics = metrics_of(fields, read, self._carried_in(run))
        except (LookupError, TypeError, ValueError):
            log.warning("a progress event could not be read; its metrics are left out")
            log.debug("%s", progress, exc_info=True)
            return
        if metrics is None:
            with self._lock:
                self._activity.reads_no_queue(run)
            return
        with self._lock:
            unsafe = metrics.run_id in self._unsafe
            self._unsafe.discard(metrics.run_id)
            self._activity.has_metrics(run, metrics.query)
            kept = self._kept.setdefault(metrics.query, deque(maxlen=self._keep))
            if kept and kept[-1].run_id != metrics.run_id:
                before = self._before.get(metrics.query)
                self._before[metrics.query] = kept[-1].plus(before)
            trigger = (metrics.run_id, metrics.timestamp)
            is_repeated = bool(kept) and (kept[-1].run_id, kept[-1].timestamp) == trigger
            if kept and _nothing_happened(kept[-1], metrics):
                kept.pop()  # otherwise, idle hours would displace metrics of batches
            kept.append(metrics)
            self._kept.move_to_end(metrics.query)
            if metrics.messages and not is_repeated:
                batches = self._batches.setdefault(metrics.query, Recorder())
                batches.observe(BATCH, (metrics.batch_seconds,))
            total = self._total(metrics) if self._followers else None
        if total:
            self._tell(total)
        if unsafe:
            log.warning(
                "query '%s' has a temporary checkpoint, which a restart does not find: messages of"
                " its last batches then come again. Set the option 'checkpointLocation' at"
                " writeStream",
                metrics.query,
            )
        if metrics.messages:
            log.info("%s", line(metrics))
        if (read_here := read_of(fields)) and (why := skipped(read_here)):
            log.error("query '%s': %s", metrics.query, why)

    def _tell(self, total: QueryMetrics) -> None:
        for each in self._followers:
            try:
                each(total)
            except Exception:
                log.exception("a follower of the metrics failed")

    def _carried_in(self, run: str) -> Carried:
        with self._lock:
            found = self._carried.setdefault(run, {})
            while len(self._carried) > _ENDED_AT_MOST:
                self._carried.pop(next(iter(self._carried)))
            return found

    def _take_last_transaction(self, transactions: SeldomRead, query_id: str, run: str) -> None:
        """Read the last transaction of a run that ended, and add it to the run's newest metrics."""
        known = self._of(query_id)
        found = transactions.now(query_id) if known else None
        if found is None:
            return
        with self._lock:
            kept = self._kept.get(known[-1].query)
            if kept and kept[-1].run_id == run:
                kept[-1] = replace(kept[-1], **found.metrics())

    def _reads_queues(self, query_id: str) -> bool:
        """Return False if the query's plan has no azqueue source. Return True if it has, or if the
        plan is unknown.
        """
        plan = self._in_jvm(query_id, lambda query: query.analyzedPlan().toString())
        return plan is None or "azqueue" in plan.lower()

    def _in_jvm(self, query_id: str, ask: Callable[[Any], Any]) -> str | None:
        """Call `ask` with the query's object in the JVM and return the result; None if there is no
        such object, as with Spark Connect.
        """
        try:
            query = self.spark.streams.get(query_id)  # type: ignore[union-attr]
            return str(ask(query._jsq.streamingQuery()))
        except Exception:
            log.debug("the JVM's query %s is not known", query_id, exc_info=True)
            return None


class SeldomRead:
    """Reads the transaction log of each query at most every 30 seconds, and keeps the result.
    Thread-safe.

    If a log is unreadable, only the metrics of transactions are missing, and a warning is logged
    once for each query.
    """

    def __init__(self, read: ReadTransaction, clock: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._known: OrderedDict[str, tuple[float, TransactionReport | None]] = OrderedDict()
        self._warned: set[str] = set()

    def of(self, query_id: str) -> TransactionReport | None:
        """Return the newest transaction of this query, at most 30 seconds old; None if there is no
        transaction.
        """
        with self._lock:
            known = self._known.get(query_id)
        if known and self._clock() - known[0] < TRANSACTION_EVERY_S:
            return known[1]
        return self.now(query_id)

    def now(self, query_id: str) -> TransactionReport | None:
        """Read the log, and return the newest transaction of this query."""
        found = None
        try:
            found = self._read(query_id)
        except Exception as error:  # noqa: BLE001 (metrics alone are lost)
            if query_id not in self._warned:
                self._warned.add(query_id)
                log.warning("the metrics of query %s lack its transactions: %s", query_id, error)
        with self._lock:
            self._known[query_id] = self._clock(), found
            self._known.move_to_end(query_id)
            while len(self._known) > QUERIES_AT_MOST:
                self._warned.discard(self._known.popitem(last=False)[0])
        return found


def _is_temporary(checkpoint: str) -> bool:
    """Return True for a temporary folder that Spark made because the query has no checkpoint
    location."""
    return checkpoint.rstrip("/").rpartition("/")[2].startswith("temporary-")


def _nothing_happened(before: QueryMetrics, now: QueryMetrics) -> bool:
    """Return True if the query only looked for messages between these two metrics, and found
    none."""
    same = replace(before, timestamp=now.timestamp, batch_seconds=now.batch_seconds)
    return replace(same, requests=now.requests) == now


def line(metrics: QueryMetrics) -> str:
    """Return the metrics of one batch as a line for the log."""
    parts = [
        f"query '{metrics.query}' batch {metrics.batch_id}: {metrics.messages} messages in"
        f" {metrics.batch_seconds:.1f} s ({metrics.messages_per_second:.0f}/s)"
    ]
    if metrics.oldest_seconds is not None:
        parts.append(f"the oldest {metrics.oldest_seconds:.0f} s old")
    if metrics.backlog:
        backlog = ", ".join(f"{queue} {count}" for queue, count in metrics.backlog.items())
        parts.append(f"backlog {backlog}")
    if metrics.counters:
        values = metrics.as_dict()
        parts += [f"{name} {values[name]}" for name in Counters.watched() if values[name]]
    return "; ".join(parts)
