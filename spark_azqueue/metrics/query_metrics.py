"""Metrics of a query that reads queues, from one progress event.

The metrics are computed from Spark's progress JSON; see `source_progress.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated, Any

from .latency import Latencies, added
from .report import Counters, CountsByQueue, Report, TransactionReport, hints_of
from .source_progress import Carried, seconds_since_1970, source_progress

# A value is None if Spark's release does not show it.
Count = int | None
Seconds = float | None
ByQueue = Mapping[str, int] | None

TOTAL = "total"
"""Marks a field that is a map of counters by name. The counters start at zero in each run."""

_NO_COLUMNS = ("counters", "latencies", "template")

_DDL: Mapping[Any, str] = {
    str: "string",
    int: "bigint",
    Count: "bigint",
    float: "double",
    Seconds: "double",
    ByQueue: "map<string, bigint>",
}


@dataclass(frozen=True, slots=True)
class QueryMetrics:
    """The metrics of one query at the end of a batch, or while the query is idle (messages = 0).

    Only azqueue sources are included. If there are several, their values are added. Each field
    declares a metric: its meaning, its name after `azqueue_`, the second label of a map, and TOTAL
    for a counter. `metrics_of` computes the values. The columns and the exported metrics are
    derived from the declarations. `report.py` declares the maps and counters of the source.
    """

    query: Annotated[str, "The query's name, or its id if it has no name."]
    query_id: Annotated[str, "Spark's id of the query: the same after a restart."]
    run_id: Annotated[str, "Spark's id of this run."]
    timestamp: Annotated[str, "When the trigger began (UTC, ISO 8601)."]
    batch_id: Annotated[int, "Number of the micro-batch."]
    messages: Annotated[int, "Messages in the batch.", "batch_messages"]
    batch_seconds: Annotated[
        float, "How long the trigger took: dequeue, your work and commit.", "batch_duration_seconds"
    ]
    messages_per_second: Annotated[
        float, "Messages in the batch, divided by its seconds.", "messages_per_second"
    ]
    oldest_seconds: Annotated[
        Seconds, "Age of the batch's oldest message at the trigger.", "oldest_message_age_seconds"
    ]
    backlog: Annotated[
        ByQueue, "Approximate number of messages in each queue.", "backlog_messages", "queue"
    ] = None
    held: Annotated[Count, "Messages leased now, and not known to be gone.", "held_messages"] = None
    unconfirmed_deletes: Annotated[
        Count, "Committed messages not deleted yet.", "unconfirmed_deletes"
    ] = None
    visibility_timeout: Annotated[
        Count, "Current visibility timeout of new leases, seconds.", "visibility_timeout_seconds"
    ] = None
    counters: Annotated[Counters | None, "Totals since the run began."] = None
    latencies: Annotated[Latencies | None, "How long things took, since the run began."] = None
    template: Annotated[str, "The option `queue`, if it has patterns."] = ""
    log_segments: Annotated[Count, "Batches that the write-ahead log holds.", "log_segments"] = None
    log_bytes: Annotated[Count, "Bytes of these batches, as they are stored.", "log_bytes"] = None
    log_uncommitted: Annotated[
        Count, "Logged batches not known to be committed.", "log_uncommitted_batches"
    ] = None
    log_seen: Annotated[
        Count, "Messages whose copies would give no second row.", "log_seen_messages"
    ] = None
    log_pending_deletes: Annotated[
        Count, "Of these, committed ones without a confirmed delete.", "log_pending_deletes"
    ] = None
    log_put_seconds: Annotated[
        Seconds, "How long the newest batch took to log.", "log_put_duration_seconds"
    ] = None
    poison: Annotated[
        ByQueue,
        "Approximate number of messages in each poison queue.",
        "poison_queue_messages",
        "queue",
    ] = None
    head_seconds: Annotated[
        ByQueue,
        "Age of the first visible message in each queue.",
        "queue_head_age_seconds",
        "queue",
    ] = None
    delivered_by_queue: Annotated[
        ByQueue, "Messages passed to Spark, by queue.", "queue_delivered", "queue", TOTAL
    ] = None
    requests: Annotated[
        ByQueue, "Requests to queues, by operation.", "requests", "operation", TOTAL
    ] = None
    expires_seconds: Annotated[
        Seconds,
        "Time until the first message of the batch expires, at the trigger.",
        "message_expiry_seconds",
    ] = None
    sink_rows: Annotated[
        Count, "Rows that the sink wrote, by Spark's count.", "batch_sink_rows"
    ] = None
    sink_published: Annotated[
        Count, "Of the newest transaction: messages made visible.", "transaction_published_messages"
    ] = None
    sink_prepared: Annotated[
        Count,
        "Of the newest transaction: recorded, not known to be published.",
        "transaction_prepared_messages",
    ] = None
    sink_orphaned: Annotated[
        Count,
        "Of the newest transaction: messages that may stay hidden until they expire.",
        "transaction_orphaned_messages",
    ] = None
    sink_missing: Annotated[
        Count,
        "Of the newest transaction: messages gone before they were published.",
        "transaction_missing_messages",
    ] = None
    sink_publish_seconds: Annotated[
        Seconds,
        "How long it took to publish the newest transaction.",
        "transaction_publish_duration_seconds",
    ] = None

    def plus(self, before: QueryMetrics | None) -> QueryMetrics:
        """Return these metrics with the counters of earlier runs added. before: metrics of the
        earlier runs, or None.
        """
        if before is None:
            return self
        both = [each.counters for each in (before, self) if each.counters]
        totals: dict[str, Any] = {
            name: _added(getattr(before, name), getattr(self, name))
            for name, hint in hints_of(QueryMetrics).items()
            if TOTAL in hint.__metadata__
        }
        latencies = added(before.latencies or {}, self.latencies or {}) or None
        counters = reduce(add, both) if both else None
        return replace(self, counters=counters, latencies=latencies, **totals)

    @property
    def began(self) -> float:
        """The time in the field `timestamp`, in seconds since 1970."""
        return seconds_since_1970(self.timestamp)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Return the meaning of each metric by name, except counters and latencies."""
        hints = hints_of(cls).items()
        return {name: hint.__metadata__[0] for name, hint in hints if name not in _NO_COLUMNS}

    @classmethod
    def columns(cls) -> str:
        """Return the columns of `as_dict` as DDL for Spark."""
        hints = {name: hint.__origin__ for name, hint in hints_of(cls).items()}
        columns = {name: _DDL[hints[name]] for name in cls.meanings()} | {"timestamp": "timestamp"}
        columns |= dict.fromkeys(Counters.meanings(), "bigint")
        return ", ".join(f"{name} {ddl}" for name, ddl in columns.items())

    def as_dict(self) -> dict[str, Any]:
        """Return a flat dict of metrics and counters.

        A value is None if Spark's release does not report it.
        """
        flat = {name: getattr(self, name) for name in self.meanings()}
        unknown = dict.fromkeys(Counters.meanings())
        return flat | (asdict(self.counters) if self.counters else unknown)


RATE_OVER_S = 600.0


def rate_of(kept: Sequence[QueryMetrics]) -> float | None:
    """Return messages per second over the ten minutes before the end of the newest batch.

    kept: metrics in order of time. Returns None if there were no messages.
    """
    if not kept:
        return None
    ends = kept[-1].began + kept[-1].batch_seconds
    recent = [each for each in kept if each.began >= ends - RATE_OVER_S] or [kept[-1]]
    messages = sum(each.messages for each in recent)
    took = ends - recent[0].began
    return messages / took if messages and took > 0 else None


def metrics_of(
    progress: Mapping[str, Any],
    transaction_of: Callable[[str], TransactionReport | None] | None = None,
    carried: Carried | None = None,
) -> QueryMetrics | None:
    """Return the metrics of one progress event (parsed JSON). Return None if the query reads no
    queue.

    transaction_of: returns the newest transaction of the query with this id. carried: reports from
    earlier events of the same run; this function updates them.
    """
    began = seconds_since_1970(str(progress["timestamp"]))
    carried = {} if carried is None else carried
    found = enumerate(map(source_progress, progress.get("sources") or ()))
    sources = [each.with_carried(number, began, carried) for number, each in found if each]
    if not sources:
        return None
    seconds = (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1_000
    messages = sum(each.messages for each in sources)
    oldest = min((each.oldest for each in sources if each.oldest is not None), default=None)
    reports = [each.report for each in sources if each.report]
    report = reduce(add, reports) if reports else None
    is_current = any(each.is_current for each in sources if each.report)
    expires = report.expires if report else None
    transaction = transaction_of(str(progress["id"])) if transaction_of else None
    return QueryMetrics(
        query=str(progress.get("name") or progress["id"]),
        query_id=str(progress["id"]),
        run_id=str(progress["runId"]),
        timestamp=str(progress["timestamp"]),
        batch_id=int(progress["batchId"]),
        messages=messages,
        batch_seconds=seconds,
        messages_per_second=round(messages / seconds, 3) if seconds else 0.0,
        # The clocks of the driver and the service may differ, so negative ages become 0.
        oldest_seconds=None if oldest is None else max(0.0, round(began - oldest, 3)),
        **_reported(report, is_current=is_current),
        template=report.template if report else "",
        # negative if the first message has expired
        expires_seconds=None if expires is None or not messages else round(expires - began, 3),
        sink_rows=_sink_rows(progress),
        **(transaction.metrics() if transaction else {}),
    )


def _added(before: ByQueue, now: ByQueue) -> ByQueue:
    total = CountsByQueue()
    for counts in (before, now):
        total.add_counts(counts or {})
    return total.as_dict() or None


def _sink_rows(progress: Mapping[str, Any]) -> int | None:
    """Return the number of rows that the sink wrote in this batch; None if Spark does not know the
    number (foreachBatch).
    """
    rows = (progress.get("sink") or {}).get("numOutputRows")
    return None if rows is None or int(rows) < 0 else int(rows)


def _reported(report: Report | None, *, is_current: bool) -> dict[str, Any]:
    """Return the metrics in a source's report. is_current: False to return only the counters,
    because the report is old.
    """
    if report is None:
        return {}
    if not is_current:
        return {
            "counters": report.counters,
            "latencies": report.latencies or None,
            **report.metrics(),
        }
    log = asdict(report.log) if report.log else {}
    return {
        "backlog": report.backlog,
        "held": report.held,
        "unconfirmed_deletes": report.unconfirmed_deletes,
        "visibility_timeout": report.visibility_timeout,
        "counters": report.counters,
        "latencies": report.latencies or None,
        **report.metrics(),
        **{f"log_{name}": value for name, value in log.items()},
    }
