"""Reports of a source (backlog, leases and counters), and of a sink's transaction log.

Spark shows the `Report` as JSON in the progress, next to the offsets. A report is lost at a
restart, so every run of a query counts from zero.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

from .latency import Latencies, added, latencies_from_json, latencies_to_json

REPORT_VERSION = 1

MOST_QUEUES_REPORTED = 100
"""Maximum number of queues with metrics of their own, because each queue is a time series. This
limit does not apply to the backlog.
"""

AT = "at"
"""Field of a report in an offset: time at which the report was made, in seconds since 1970."""

BYTES_IN_AN_OFFSET = 4_096
_MOST_IN_AN_OFFSET = (20, 10, 5, 0)
"""Numbers of queues with metrics of their own in an offset. The first number with which the report
is small enough is used.
"""

_MOST_NAMES = 10_000
"""Maximum number of names in a report that is accepted. A query reads at most 1,000 queues."""

OTHERS = "(others)"
"""Name under which all queues without metrics of their own are counted. No queue can have this
name."""

_NAME = re.compile(rf"[a-z0-9_-]{{1,63}}|{re.escape(OTHERS)}")
"""Pattern of the names that a report may contain.

Names are checked because a report comes from a checkpoint, and its names become labels and parts of
log lines.
"""

_TEMPLATE = re.compile(r"[a-z0-9*?,-]{0,200}")

WATCH = "watch"
"""Marks a counter that the log line of a batch shows if the counter is not 0."""

_Sum = TypeVar("_Sum", "Counters", "LogReport")
_Counts = Mapping[str, int]


def whole(value: Any) -> int:
    """Return a whole number from a progress event, if it fits into Spark's long. Raises TypeError
    or ValueError.
    """
    number = int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number of a report is too large")
    return number


def _plus(one: int, other: int) -> int:
    """Return the sum, or the nearest number that fits into Spark's long."""
    return max(-(2**63), min(one + other, 2**63 - 1))


def hints_of(kind: type) -> Mapping[str, Any]:
    """Return the metadata in `Annotated` for each field of a dataclass, by name.

    The first text of the metadata is the meaning of the field.
    """
    return get_type_hints(kind, include_extras=True)


@dataclass(slots=True)
class Counters:
    """Totals since the run of the query began. Most of them are numbers of messages.

    With leaseOn=driver, the lock of the ledger guards the counters.
    """

    dequeued: Annotated[int, "Messages dequeued, copies included."] = 0
    redelivered: Annotated[int, "New to this run, but dequeued before by a run or a consumer."] = 0
    delivered: Annotated[int, "Messages passed to Spark in micro-batches."] = 0
    delivered_bytes: Annotated[
        int, "Bytes of the messages passed to Spark, as they are stored."
    ] = 0
    deleted: Annotated[int, "Messages deleted, originals of poison copies included."] = 0
    deletes_refused: Annotated[int, "Deletes refused because the lease was lost.", WATCH] = 0
    deletes_given_up: Annotated[int, "Deletes given up after their retries.", WATCH] = 0
    renewals: Annotated[int, "Leases extended."] = 0
    leases_lost: Annotated[int, "Leases whose renewal was refused or failed.", WATCH] = 0
    duplicates_suppressed: Annotated[
        int, "Redelivered messages that produced no second row.", WATCH
    ] = 0
    poison_moved: Annotated[int, "Messages moved to a poison queue.", WATCH] = 0
    evicted_deletes: Annotated[
        int, "Unconfirmed deletes evicted, since there were too many.", WATCH
    ] = 0
    skipped_near_expiry: Annotated[
        int, "Messages skipped, since they were about to expire.", WATCH
    ] = 0
    throttled: Annotated[int, "Answers of a service that was too busy (503 or 429)."] = 0

    @classmethod
    def meanings(cls) -> Mapping[str, str]:
        """Return the meaning of each counter, by name."""
        return {name: hint.__metadata__[0] for name, hint in hints_of(cls).items()}

    @classmethod
    def watched(cls) -> list[str]:
        """Return the names of the counters that are marked with WATCH."""
        return [name for name, hint in hints_of(cls).items() if WATCH in hint.__metadata__]

    @classmethod
    def from_json(cls, counters: Mapping[str, Any]) -> Counters:
        """Parse counters. A missing counter is 0. Unknown counters, from a newer release, are
        ignored.
        """
        return cls(**{name: whole(counters.get(name, 0)) for name in cls.meanings()})

    def __add__(self, other: Counters) -> Counters:
        return _added(self, other)


class CountsByQueue:
    """A count for each of the first hundred queues, by name, and one count for all other queues."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, names: Iterable[str]) -> None:
        """Add one to the count of each name."""
        self.add_counts(Counter(names))

    def add_counts(self, counts: _Counts) -> None:
        """Add these counts, by name."""
        for name, count in counts.items():
            is_known = name in self._counts or len(self._counts) < MOST_QUEUES_REPORTED
            kept = name if is_known else OTHERS
            self._counts[kept] = _plus(self._counts[kept], count)

    def as_dict(self) -> dict[str, int]:
        """Return the counts so far."""
        return dict(self._counts)


@dataclass(frozen=True, slots=True)
class LogReport:
    """State of a write-ahead log, including batches of earlier runs.

    `QueryMetrics` has the meaning of each field: `log_segments` is `segments`, and so on.
    """

    segments: int
    bytes: int
    uncommitted: int
    seen: int
    pending_deletes: int
    put_seconds: float | None = None

    @classmethod
    def from_json(cls, log: Mapping[str, Any]) -> LogReport:
        """Parse a report. Raises LookupError, TypeError or ValueError if the value is not a
        report.
        """
        took = log.get("put_seconds")
        counts = {name: whole(log[name]) for name in hints_of(cls) if name != "put_seconds"}
        if took is not None and not math.isfinite(took := float(took)):
            raise ValueError("a number of a report is not finite")
        return cls(**counts, put_seconds=took)

    def __add__(self, other: LogReport) -> LogReport:
        took = [each.put_seconds for each in (self, other) if each.put_seconds is not None]
        return _added(self, other, put_seconds=max(took, default=None))


@dataclass(frozen=True, slots=True)
class TransactionReport:
    """The newest transaction that a query has recorded.

    `QueryMetrics` has the meaning of each field: `sink_published` is `published`, and so on.
    """

    published: int
    prepared: int
    orphaned: int
    missing: int
    publish_seconds: float | None = None

    def metrics(self) -> dict[str, Any]:
        """Return the fields, by their names in `QueryMetrics`."""
        return {f"sink_{name}": value for name, value in asdict(self).items()}


ReadTransaction = Callable[[str], TransactionReport | None]
"""Function that takes a query's id and returns the query's newest transaction, read from the log;
None if the log has none.
"""


class _Map(NamedTuple):
    """Names of a map in the report's JSON (which leaves out an empty map) and in `QueryMetrics`."""

    json: str
    metric: str
    add: Callable[[_Counts, _Counts], dict[str, int]]
    is_total: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """The state of the source's process beside the driver.

    backlog: the service's approximate number of messages in each queue, including leased and
    delayed messages. Queues whose count failed are left out. held: number of leased messages,
    except messages that are known to be deleted or whose leases are lost. unconfirmed_deletes:
    number of committed messages that are not deleted yet; the source deletes such a message when it
    is dequeued again. visibility_timeout: visibility timeout of new leases, in seconds. log: state
    of the write-ahead log; None without a log, and before the log is open. poison: number of
    messages in each poison queue; empty if no poison queue is used.

    expires: time at which the first message of the newest batch expires, in seconds since 1970;
    None if no message expires. oldest: with leaseOn=executors, insertion time of the oldest message
    of the newest closed batch, in seconds since 1970; None if unknown, or if the offset has this
    time. hidden_for: seconds for which messages of killed tasks may stay invisible.

    heads: age of the first visible message of each queue, in seconds, at the last read.
    delivered_by_queue: number of messages passed to Spark since the run began. requests: number of
    requests to queues from the source's process, by operation; empty if tasks also send requests.
    latencies: histograms since the run began, see `latency.py`. template: the option `queue` if the
    option has patterns, otherwise "".
    """

    backlog: _Counts
    held: int
    unconfirmed_deletes: int
    visibility_timeout: int
    counters: Counters
    log: LogReport | None = None
    poison: Annotated[_Counts, _Map("poison", "poison", _summed)] = field(default_factory=dict)
    expires: int | None = None
    oldest: int | None = None
    hidden_for: int = 0
    heads: Annotated[_Counts, _Map("heads", "head_seconds", _largest)] = field(default_factory=dict)
    delivered_by_queue: Annotated[
        _Counts, _Map("deliveredByQueue", "delivered_by_queue", _summed, True)
    ] = field(default_factory=dict)
    requests: Annotated[_Counts, _Map("requests", "requests", _summed, True)] = field(
        default_factory=dict
    )
    latencies: Latencies = field(default_factory=dict)
    template: str = ""

    @classmethod
    def _maps(cls) -> Iterator[tuple[str, _Map]]:
        for name, hint in hints_of(cls).items():
            for declared in getattr(hint, "__metadata__", ()):
                yield name, declared

    def metrics(self) -> dict[str, _Counts | None]:
        """Return the maps, by their names in `QueryMetrics`. An empty map becomes None."""
        return {each.metric: getattr(self, name) or None for name, each in self._maps()}

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain dicts for Spark, without secrets and message ids."""
        value: dict[str, Any] = {
            "version": REPORT_VERSION,
            "backlog": dict(self.backlog),
            "held": self.held,
            "unconfirmedDeletes": self.unconfirmed_deletes,
            "visibilityTimeout": self.visibility_timeout,
            "counters": asdict(self.counters),
        }
        if self.log:
            value["log"] = asdict(self.log)
        times = {"expires": self.expires, "oldest": self.oldest}
        value |= {name: time for name, time in times.items() if time is not None}
        if self.hidden_for:
            value["hiddenFor"] = self.hidden_for
        if self.template:
            value["template"] = self.template
        if self.latencies:
            value["latencies"] = latencies_to_json(self.latencies)
        maps = {each.json: dict(getattr(self, name)) for name, each in self._maps()}
        return value | {name: counts for name, counts in maps.items() if counts}

    def for_an_offset(self, now: float) -> dict[str, Any]:
        """Return the report with its time, shortened to at most 4 KB, because offsets are copied
        often.

        now: seconds since 1970.
        """
        for most in _MOST_IN_AN_OFFSET:
            shorter: dict[str, Any] = {"backlog": _shortened(self.backlog, most, _summed)}
            for name, each in self._maps():
                shorter[name] = _shortened(getattr(self, name), most, each.add)
            value = replace(self, **shorter).to_json() | {AT: int(now)}
            if len(json.dumps(value)) <= BYTES_IN_AN_OFFSET:
                return value
        return {name: each for name, each in value.items() if name != "latencies"}

    def counted(self) -> Report:
        """Return a report with only the counters, because the other values are outdated."""
        totals: dict[str, Any] = {
            name: getattr(self, name) for name, each in self._maps() if each.is_total
        }
        return Report(
            {},
            *(0, 0, 0, self.counters),
            latencies=self.latencies,
            template=self.template,
            **totals,
        )

    @classmethod
    def from_json(cls, report: Mapping[str, Any]) -> Report:
        """Parse a report. Raises LookupError, TypeError or ValueError for another value."""
        expires, oldest = (
            None if (time := report.get(name)) is None else whole(time)
            for name in ("expires", "oldest")
        )
        return cls(
            _counts(report["backlog"]),
            whole(report["held"]),
            whole(report["unconfirmedDeletes"]),
            whole(report["visibilityTimeout"]),
            Counters.from_json(report["counters"]),
            LogReport.from_json(report["log"]) if report.get("log") else None,
            expires=expires,
            oldest=oldest,
            hidden_for=whole(report.get("hiddenFor", 0)),
            latencies=latencies_from_json(report.get("latencies") or {}),
            template=_template(report.get("template", "")),
            **{name: _counts(report.get(each.json) or {}) for name, each in cls._maps()},
        )

    def __add__(self, other: Report) -> Report:
        expires = [each.expires for each in (self, other) if each.expires is not None]
        oldest = [each.oldest for each in (self, other) if each.oldest is not None]
        return Report(
            _summed(self.backlog, other.backlog),
            _plus(self.held, other.held),
            _plus(self.unconfirmed_deletes, other.unconfirmed_deletes),
            max(self.visibility_timeout, other.visibility_timeout),
            self.counters + other.counters,
            self.log + other.log if self.log and other.log else self.log or other.log,
            expires=min(expires, default=None),
            oldest=min(oldest, default=None),
            hidden_for=max(self.hidden_for, other.hidden_for),
            latencies=added(self.latencies, other.latencies),
            template=self.template or other.template,
            **{
                name: each.add(getattr(self, name), getattr(other, name))
                for name, each in self._maps()
            },
        )


def _added(one: _Sum, other: _Sum, **given: Any) -> _Sum:
    """Add two objects field by field. Fields in `given` are not added, but set to these values."""
    names = hints_of(type(one)).keys() - given.keys()
    sums: dict[str, Any] = {name: _plus(getattr(one, name), getattr(other, name)) for name in names}
    return type(one)(**sums, **given)


def _counts(counts: Any) -> dict[str, int]:
    found = {str(queue): whole(count) for queue, count in dict(counts).items()}
    if len(found) > _MOST_NAMES or not all(map(_NAME.fullmatch, found)):
        raise ValueError("a report has too many names, or one that no queue can have")
    return found


def _template(written: Any) -> str:
    if not isinstance(written, str) or not _TEMPLATE.fullmatch(written):
        raise ValueError("a report has names of queues that no option can have")
    return written


def _shortened(
    counts: _Counts, most: int, together: Callable[[_Counts, _Counts], dict[str, int]]
) -> _Counts:
    """Return the largest counts by name, and the sum of all other counts."""
    names = sorted(counts, key=counts.__getitem__, reverse=True)
    found: _Counts = {name: counts[name] for name in names[:most]}
    for name in names[most:]:
        found = together(found, {OTHERS: counts[name]})
    return found


def _largest(ages: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    both = {**ages, **others}
    return {queue: max(age, ages.get(queue, 0)) for queue, age in both.items()}


def _summed(counts: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    return {
        queue: _plus(counts.get(queue, 0), others.get(queue, 0)) for queue in {**counts, **others}
    }
