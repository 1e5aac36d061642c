"""Parses the part of one source in the JSON of a query's progress event.

The offsets describe the batch, and `latestOffset` contains the source's report. On Spark 4.0 and
4.1, the offset of a new batch contains the report; see `Carried`.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from .report import AT, Report, whole

DAMAGE = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors that parsing may raise for a value that the source did not write."""

CLOSING = "closing"
"""Field of a closing offset, which ends an empty batch: see `source/engine_calls.py`."""

Carried = dict[int, tuple[float, Report]]
"""For each source of a query's run, the newest report that an offset contained, and its time."""

CARRIED_FOR_S = 60.0
"""Seconds for which the state in such a report counts as current. Its counters stay valid for
longer.
"""


class SourceProgress(NamedTuple):
    """A source's part of a progress event.

    made_at: time at which the report was made, in seconds since 1970, if the report is from an
    offset.
    """

    messages: int
    oldest: float | None
    report: Report | None
    made_at: int | None = None
    is_current: bool = True

    def with_carried(self, number: int, began: float, carried: Carried) -> SourceProgress:
        """Return this progress with the newest report. began: start of the trigger. A report that
        was made before it belongs to an older offset.
        """
        if self.report and self.made_at is None:
            return self  # Spark has requested this report
        if self.report and self.made_at is not None and self.made_at + 1 > began:
            carried[number] = began, self.report
            return self
        if number not in carried:
            # the report is from an earlier run, or there is no report
            return self._replace(report=None)
        at, report = carried[number]
        if began - at <= CARRIED_FOR_S:
            return self._replace(report=report)
        return self._replace(report=report.counted(), is_current=False)


def source_progress(source: Mapping[str, Any]) -> SourceProgress | None:
    """Parse a source's part of the progress; None if the source is not an azqueue source, or if the
    part is damaged.
    """
    try:
        return _undamaged(source)
    except DAMAGE:
        return None


def _undamaged(source: Mapping[str, Any]) -> SourceProgress | None:
    start, end = offset_of(source.get("startOffset")), offset_of(source.get("endOffset"))
    if end is None or not {"version", "batch", "account"} <= end.keys():
        return None
    plans = {"log", "slots"} <= end.keys()  # leaseOn=executors: count the rows
    if not plans and "queues" not in end and not {"log", "messages"} <= end.keys():
        return None
    report, made_at = _report(offset_of(source.get("latestOffset"))), None
    if report is None and isinstance(in_offset := end.get("report"), dict):
        report, made_at = _report(in_offset), _made_at(in_offset)
        report = None if made_at is None else report
    # Without a log, a batch that Spark repeats after a crash has no rows; its messages are
    # delivered later.
    if end == start or not source.get("numInputRows"):
        return SourceProgress(0, None, report, made_at)
    if plans:
        messages = int(source["numInputRows"])
    elif "log" in end:
        messages = _logged(start, end, int(source["numInputRows"]))
    else:
        messages = sum(whole(packed["messages"]) for packed in end["queues"].values())
    return SourceProgress(messages, oldest_in(end, report), report, made_at)


def _report(value: Mapping[str, Any] | None) -> Report | None:
    try:
        return Report.from_json(value or {})
    except DAMAGE:
        return None


def _made_at(report: Mapping[str, Any]) -> int | None:
    at = report.get(AT, 0)
    return at if type(at) is int and 0 <= at < 2**63 else None


def _logged(start: Mapping[str, Any] | None, end: Mapping[str, Any], rows: int) -> int:
    """Return the number of messages between two offsets of a log. An offset contains the number of
    messages of its last batch.

    On Spark 4.0 and 4.1, the first batch after a restart may consist of two batches of the log. In
    this case, the number of rows is returned.
    """
    before = start.get("batch") if start else None
    return whole(end["messages"]) if before in (None, int(end["batch"]) - 1) else rows


def offset_of(offset: Any) -> dict[str, Any] | None:
    """Return an offset as a dict. Spark passes JSON, or a string that contains JSON."""
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except (ValueError, RecursionError):
            return None
    return offset if isinstance(offset, dict) else None


def seconds_since_1970(text: str) -> float:
    """Parse an ISO 8601 time in UTC, from Spark or from this package, to seconds since 1970."""
    form = "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ"
    moment = datetime.datetime.strptime(text, form)
    return moment.replace(tzinfo=datetime.timezone.utc).timestamp()


def oldest_in(end: Mapping[str, Any], report: Report | None) -> float | None:
    """Return the earliest insertion time of the messages of this offset: see `Read.oldest`."""
    if "slots" not in end:
        return seconds_since_1970(end["oldest"]) if "oldest" in end else None
    waits = end.get("waiting") or end.get("gaveUp") or any("from" in each for each in end["slots"])
    return None if waits or report is None else report.oldest
