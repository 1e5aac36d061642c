"""What one progress event says about a query that reads queues, in figures.

Arithmetic on Spark's progress JSON: the offsets tell of the batch, `latestOffset` carries the
source's own report (Spark 4.2 and later; on 4.0 and 4.1 those figures are None).
Ring: core (standard library only).
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .reporting import Counters, Report


def _says(meaning: str) -> dict[str, str]:
    return {"meaning": meaning}


@dataclass(frozen=True, slots=True)
class Figures:
    """One moment of one query: at the end of a batch, or while it is idle (messages = 0).

    Sources on other systems are left out; several azqueue sources are added together.
    """

    query: str = field(metadata=_says("The query's name; its id where it has none."))
    query_id: str = field(metadata=_says("Spark's id of the query: the same after a restart."))
    run_id: str = field(metadata=_says("Spark's id of this run."))
    timestamp: str = field(metadata=_says("When the trigger began (UTC, ISO 8601)."))
    batch_id: int = field(metadata=_says("Number of the micro-batch."))
    messages: int = field(metadata=_says("Messages in the batch."))
    batch_seconds: float = field(
        metadata=_says("How long the trigger took: dequeue, your work, commit.")
    )
    messages_per_second: float = field(
        metadata=_says("Messages in the batch, divided by its seconds.")
    )
    oldest_seconds: float | None = field(
        metadata=_says("Age of the batch's oldest message at the trigger.")
    )
    backlog: Mapping[str, int] | None = field(
        metadata=_says("About how many messages each queue holds.")
    )
    held: int | None = field(metadata=_says("Messages leased now and not yet seen gone."))
    remembered: int | None = field(metadata=_says("Committed messages that could not be deleted yet."))
    visibility_timeout: int | None = field(
        metadata=_says("Seconds for which leases are asked for now.")
    )
    counters: Counters | None = field(metadata=_says("Totals since the run began."))

    @classmethod
    def meanings(cls) -> dict[str, str]:
        """Each figure's name, with what it says; counters apart."""
        told = {each.name: each.metadata["meaning"] for each in fields(cls)}
        del told["counters"]
        return told

    def as_dict(self) -> dict[str, Any]:
        """A flat dict, the counters among the figures; None for what Spark's release hides."""
        flat = {name: getattr(self, name) for name in self.meanings()}
        counters = dict.fromkeys(Counters.meanings()) if self.counters is None else self.counters
        return flat | (counters if isinstance(counters, dict) else asdict(counters))


def figures_of(progress: Mapping[str, Any]) -> Figures | None:
    """Figures of one progress event's JSON; None for a query that reads no queue."""
    sources = [each for each in map(_source, progress.get("sources") or ()) if each]
    if not sources:
        return None
    seconds = (progress.get("durationMs") or {}).get("triggerExecution", 0) / 1_000
    messages = sum(each.messages for each in sources)
    began = _moment(str(progress["timestamp"]))
    oldest = min((each.oldest for each in sources if each.oldest is not None), default=None)
    report = _together([each.report for each in sources if each.report])
    return Figures(
        query=str(progress.get("name") or progress["id"]),
        query_id=str(progress["id"]),
        run_id=str(progress["runId"]),
        timestamp=str(progress["timestamp"]),
        batch_id=int(progress["batchId"]),
        messages=messages,
        batch_seconds=seconds,
        messages_per_second=round(messages / seconds, 3) if seconds else 0.0,
        # The two clocks are the driver's and the service's: never younger than just now.
        oldest_seconds=None if oldest is None else max(0.0, round(began - oldest, 3)),
        backlog=report.backlog if report else None,
        held=report.held if report else None,
        remembered=report.remembered if report else None,
        visibility_timeout=report.visibility_timeout if report else None,
        counters=report.counters if report else None,
    )


@dataclass(frozen=True, slots=True)
class _Source:
    messages: int
    oldest: float | None
    report: Report | None


def _source(source: Mapping[str, Any]) -> _Source | None:
    """What a source's part of the progress says, None where it is not one of ours."""
    start, end = _parsed(source.get("startOffset")), _parsed(source.get("endOffset"))
    if end is None or not {"version", "batch", "account", "queues"} <= end.keys():
        return None
    try:
        report = Report.from_json(_parsed(source.get("latestOffset")) or {})
    except (LookupError, TypeError, ValueError):
        report = None
    # A batch that is replayed after a crash gives no rows now: its messages come again later.
    if end == start or not source.get("numInputRows"):
        return _Source(0, None, report)
    messages = sum(int(packed["messages"]) for packed in end["queues"].values())
    return _Source(messages, _moment(end["oldest"]) if "oldest" in end else None, report)


def _together(reports: list[Report]) -> Report | None:
    if not reports:
        return None
    total, *others = reports
    for other in others:
        backlog = dict(total.backlog)
        for queue, count in other.backlog.items():
            backlog[queue] = backlog.get(queue, 0) + count
        total = Report(
            backlog,
            total.held + other.held,
            total.remembered + other.remembered,
            max(total.visibility_timeout, other.visibility_timeout),
            total.counters + other.counters,
        )
    return total


def _parsed(offset: Any) -> dict[str, Any] | None:
    """An offset, which Spark gives as JSON, or as text that holds JSON."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    return offset if isinstance(offset, dict) else None


def _moment(text: str) -> float:
    """Spark's and our own ISO 8601 in UTC -> seconds since 1970."""
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    moment = datetime.datetime.strptime(text, form)
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()
