"""Metrics from one progress event of a query that reads queues.

They are computed from Spark's progress JSON. The offsets describe the batch; `latestOffset` holds
the source's own report. On Spark 4.0 and 4.1 the offset of a new batch has it, see `Carried`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import add
from typing import Annotated, Any, NamedTuple

from .latency import Latencies, added
from .report import AT, Counters, CountsByQueue, Report, TransactionReport, hints_of, whole

# None for what Spark's release does not show.
Count = int | None
Seconds = float | None
ByQueue = Mapping[str, int] | None

TOTAL = "total"
"""Marks a metric that is a counter by name: it starts from zero in each run."""

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
    """The metrics of one query at the end of a batch, or while it is idle (messages = 0).

    Only azqueue sources count; several of them are added together. A metric is declared here, with
    its meaning and the name of its metric (after `azqueue_`), for a map also with the metric's
    second label, and TOTAL if it is a counter; and read in `metrics_of`. Columns and exported
    metrics follow. The maps and counters of the source are declared in `report.py`.
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
        """The same, with the counters of earlier runs added. before: None if there was none."""
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
        """`timestamp` in seconds since 1970."""
        return _moment(self.timestamp)

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """The meaning of each metric, by name, without counters and latencies."""
        hints = hints_of(cls).items()
        return {name: hint.__metadata__[0] for name, hint in hints if name not in _NO_COLUMNS}

    @classmethod
    def columns(cls) -> str:
        """The columns of `as_dict` as Spark's DDL."""
        hints = {name: hint.__origin__ for name, hint in hints_of(cls).items()}
        columns = {name: _DDL[hints[name]] for name in cls.meanings()} | {"timestamp": "timestamp"}
        columns |= dict.fromkeys(Counters.meanings(), "bigint")
        return ", ".join(f"{name} {ddl}" for name, ddl in columns.items())

    def as_dict(self) -> dict[str, Any]:
        """A flat dict of metrics and counters. None for what Spark's release does not show."""
        flat = {name: getattr(self, name) for name in self.meanings()}
        unknown = dict.fromkeys(Counters.meanings())
        return flat | (asdict(self.counters) if self.counters else unknown)


RATE_OVER_S = 600.0


def rate_of(kept: Sequence[QueryMetrics]) -> float | None:
    """Messages a second in the batches of the last ten minutes, up to the end of the newest one.

    kept: oldest first. None if there were no messages.
    """
    if not kept:
        return None
    ends = kept[-1].began + kept[-1].batch_seconds
    recent = [each for each in kept if each.began >= ends - RATE_OVER_S] or [kept[-1]]
    messages = sum(each.messages for each in recent)
    took = ends - recent[0].began
    return messages / took if messages and took > 0 else None


Carried = dict[int, tuple[float, Report]]
"""The newest report that an offset of each source brought in a run of a query, and when."""

CURRENT_FOR_S = 60.0
"""How long the state in such a report counts as that of now. What it has counted stays."""


def metrics_of(
    progress: Mapping[str, Any],
    transaction_of: Callable[[str], TransactionReport | None] | None = None,
    carried: Carried | None = None,
) -> QueryMetrics | None:
    """The metrics of one progress event (parsed JSON); None if the query reads no queue.

    transaction_of: the newest transaction of a query, by its id. carried: what earlier events of
    the same run brought; it is brought up to date.
    """
    began = _moment(str(progress["timestamp"]))
    carried = {} if carried is None else carried
    found = enumerate(map(_source, progress.get("sources") or ()))
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
        # The clocks of the driver and the service may differ; an age is never negative.
        oldest_seconds=None if oldest is None else max(0.0, round(began - oldest, 3)),
        **_reported(report, is_current=is_current),
        template=report.template if report else "",
        # Negative if the first message has expired meanwhile.
        expires_seconds=None if expires is None or not messages else round(expires - began, 3),
        sink_rows=_sink_rows(progress),
        **(transaction.metrics() if transaction else {}),
    )


class Read(NamedTuple):
    """What one progress event says of the queues that its batch read.

    batch: its run and number. sources: how many read queues. messages: how many gave rows. is_new:
    there was a batch of one of them, also one without rows. is_repeated: Spark repeated it after a
    failure, and asked for no other. is_old_spark: it is of Spark 4.0 or 4.1, where `availableNow`
    runs a single batch; None if that is unknown, as of a batch that is repeated. ends: the offsets
    at the end of each source's batch. oldest: of each source with a batch, its account, and the
    earliest insertion time of its messages (seconds since 1970, by the service's clock), None if
    unknown; with leaseOn=executors of the batch before, which is what is known. seconds: how long
    the trigger took. visibility_timeout: that of new leases, 0 if unknown. hides: messages may be
    hidden by killed tasks. counters: of the run so far, None if they are not reported. unread: how
    many messages the batch had, if it is new and no row of it was read: its sink skipped it.
    """

    batch: tuple[str, int]
    sources: int
    messages: int
    is_new: bool
    is_repeated: bool
    is_old_spark: bool | None
    ends: tuple[Mapping[str, Any], ...] = ()
    oldest: tuple[tuple[str, float | None], ...] = ()
    seconds: float = 0.0
    visibility_timeout: int = 0
    hides: bool = False
    counters: Counters | None = None
    unread: int = 0

    @property
    def places(self) -> list[tuple[str, frozenset[str]]]:
        """Of each source its account, and the names of queues that its batch has."""
        return [(str(end["account"]), _queues_in(end)) for end in self.ends]


def read_of(progress: Mapping[str, Any]) -> Read | None:
    """What a progress event (parsed JSON) says was read; None if the query reads no queue.

    Never raises.
    """
    try:
        return _read(progress)
    except _DAMAGE:
        return None


def _read(progress: Mapping[str, Any]) -> Read | None:
    found = [(each, ours) for each in progress.get("sources") or () if (ours := _source(each))]
    if not found:
        return None
    offsets = [
        [_parsed(each.get(name)) or {} for name in ("startOffset", "endOffset", "latestOffset")]
        for each, _ in found
    ]
    latest = [each for _, _, each in offsets if each]
    is_new = [bool(start != end and end["batch"]) for start, end, _ in offsets]
    # A report in an offset is of the run that made it.
    reports = [
        ours.report if ours.report and (latest and (ours.made_at is None or new)) else None
        for (_, ours), new in zip(found, is_new, strict=True)
    ]
    known = [each for each in reports if each]
    return Read(
        (str(progress["runId"]), int(progress["batchId"])),
        len(found),
        sum(ours.messages for _, ours in found),
        any(is_new),
        not latest,
        # The end of the batch, in place of the source's report.
        all({"batch", "account"} <= each.keys() for each in latest) if latest else None,
        tuple(end for _, end, _ in offsets),
        tuple(
            (str(end["account"]), _oldest_in(end, report))
            for (_, end, _), report, new in zip(offsets, reports, is_new, strict=True)
            if new
        ),
        (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1_000,
        max((each.visibility_timeout for each in known), default=0),
        any(each.hidden_for for each in known),
        reduce(add, [each.counters for each in known]) if len(known) == len(found) else None,
        sum(
            _messages_in(end)
            for (source, _), (_, end, _), new in zip(found, offsets, is_new, strict=True)
            if new and latest and not source.get("numInputRows")
        ),
    )


def skipped(read: Read) -> str:
    """What to say of a batch of which no row was read though it had messages; else ""."""
    if not read.unread:
        return ""
    number = read.batch[1]
    logs = sorted(str(end["batch"]) for end in read.ends if "log" in end)
    if logs:
        rows = (
            f"They are in the write-ahead log, batch {', '.join(logs)}: read them with readLog, or"
            " put them into the queue again by the command `replay`"
        )
    elif read.is_old_spark:
        rows = (
            "The next start with this checkpoint would delete them. Until then they are in the"
            " queue: start with a new checkpoint and a new output"
        )
    else:
        rows = "Without a write-ahead log they are deleted with the next batch, and lost"
    return (
        f"batch {number} had {read.unread} messages, and no row of them was read: the sink skipped"
        " it. An output that has batches of an earlier checkpoint skips their numbers: with a new"
        f" checkpoint take a new output (and a new log). {rows}"
    )


def _messages_in(end: Mapping[str, Any]) -> int:
    """How many messages the batch of this offset gave; 0 for a plan, whose tasks lease them."""
    if "slots" in end:
        return 0
    if "log" in end:
        return whole(end["messages"])
    return sum(whole(packed["messages"]) for packed in end["queues"].values())


def _oldest_in(end: Mapping[str, Any], report: Report | None) -> float | None:
    """The earliest insertion time of what this offset brought: see `Read.oldest`."""
    if "slots" not in end:
        return _moment(end["oldest"]) if "oldest" in end else None
    waits = end.get("waiting") or end.get("gaveUp") or any("from" in each for each in end["slots"])
    return None if waits or report is None else report.oldest


def _queues_in(end: Mapping[str, Any]) -> frozenset[str]:
    slots = end.get("slots") or ()
    return frozenset(end.get("queues") or ()).union(*(each["queues"] for each in slots))


def _added(before: ByQueue, now: ByQueue) -> ByQueue:
    total = CountsByQueue()
    for counts in (before, now):
        total.add_counts(counts or {})
    return total.as_dict() or None


def _sink_rows(progress: Mapping[str, Any]) -> int | None:
    """Rows that the sink wrote in this batch; None if Spark does not count them (foreachBatch)."""
    rows = (progress.get("sink") or {}).get("numOutputRows")
    return None if rows is None or int(rows) < 0 else int(rows)


def _reported(report: Report | None, *, is_current: bool) -> dict[str, Any]:
    """The metrics that the source reports as they are. is_current: else only what is counted."""
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


class _Source(NamedTuple):
    """made_at: when the report was made, if it came with the offset, seconds since 1970."""

    messages: int
    oldest: float | None
    report: Report | None
    made_at: int | None = None
    is_current: bool = True

    def with_carried(self, number: int, began: float, carried: Carried) -> _Source:
        """With the report that counts now. began: the trigger; a new offset is made after that."""
        if self.report and self.made_at is None:
            return self  # Spark has asked for it
        if self.report and self.made_at is not None and self.made_at + 1 > began:
            carried[number] = began, self.report
            return self
        if number not in carried:
            return self._replace(report=None)  # of an earlier run, or of none
        at, report = carried[number]
        if began - at <= CURRENT_FOR_S:
            return self._replace(report=report)
        return self._replace(report=report.counted(), is_current=False)


def _source(source: Mapping[str, Any]) -> _Source | None:
    """Read a source's part of the progress; None if it is not an azqueue source, or damaged."""
    try:
        return _undamaged(source)
    except _DAMAGE:
        return None


def _undamaged(source: Mapping[str, Any]) -> _Source | None:
    start, end = _parsed(source.get("startOffset")), _parsed(source.get("endOffset"))
    if end is None or not {"version", "batch", "account"} <= end.keys():
        return None
    plans = {"log", "slots"} <= end.keys()  # leaseOn=executors: count the rows
    if not plans and "queues" not in end and not {"log", "messages"} <= end.keys():
        return None
    report, made_at = _report(_parsed(source.get("latestOffset"))), None
    if report is None and isinstance(in_offset := end.get("report"), dict):
        report, made_at = _report(in_offset), _made_at(in_offset)
        report = None if made_at is None else report
    # Without a log, a batch that is replayed after a crash has no rows: they are delivered later.
    if end == start or not source.get("numInputRows"):
        return _Source(0, None, report, made_at)
    if plans:
        messages = int(source["numInputRows"])
    elif "log" in end:
        messages = _logged(start, end, int(source["numInputRows"]))
    else:
        messages = sum(whole(packed["messages"]) for packed in end["queues"].values())
    return _Source(messages, _oldest_in(end, report), report, made_at)


def _report(value: Mapping[str, Any] | None) -> Report | None:
    try:
        return Report.from_json(value or {})
    except _DAMAGE:
        return None


def _made_at(report: Mapping[str, Any]) -> int | None:
    at = report.get(AT, 0)
    return at if type(at) is int and 0 <= at < 2**63 else None


def _logged(start: Mapping[str, Any] | None, end: Mapping[str, Any], rows: int) -> int:
    """Messages up to an offset in a log. It counts those of its own batch. Spark's first batch
    after a restart may hold two on 4.0 and 4.1: then the rows count."""
    before = start.get("batch") if start else None
    return whole(end["messages"]) if before in (None, int(end["batch"]) - 1) else rows


def _parsed(offset: Any) -> dict[str, Any] | None:
    """An offset as a dict. Spark passes JSON, or text that holds JSON."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except (ValueError, RecursionError):
            return None
    return offset if isinstance(offset, dict) else None


_DAMAGE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What comes of values that no source wrote."""


def _moment(text: str) -> float:
    """Spark's and our own ISO 8601 in UTC -> seconds since 1970."""
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    moment = datetime.datetime.strptime(text, form)
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()
