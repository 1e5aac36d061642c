"""The metrics that Prometheus and OpenTelemetry export. Values are read when an exporter asks."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_azqueue.version import __version__

from .activity import QueryState
from .latency import BATCH, COMMIT, DELIVERY, Histogram
from .query_metrics import TOTAL, QueryMetrics
from .report import Counters, hints_of
from .watched import Scaling, Watched

if TYPE_CHECKING:
    from .listener import AzQueueListener


class Snapshot(NamedTuple):
    """Current values: the state of each query, each query's newest metrics, and its queues.

    newest: each query's newest metrics. Their counters are sums over all runs of the query, because
    several runs may begin before an exporter asks again. watched: backlog and age of queues, read
    independently of the query. rates: messages per second, for queries that have a rate.
    """

    states: Mapping[str, QueryState]
    newest: Mapping[str, QueryMetrics]
    watched: Mapping[str, Watched] = {}
    rates: Mapping[str, float] = {}

    @classmethod
    def of(cls, listener: AzQueueListener) -> Snapshot:
        """Return the current values of this listener."""
        newest = {query: listener.totals(query) for query in listener.queries()}
        rates = {query: listener.rate(query) for query in newest}
        return cls(
            listener.states(),
            {query: each for query, each in newest.items() if each},
            listener.watched(),
            {query: rate for query, rate in rates.items() if rate is not None},
        )

    def active(self, query: str) -> QueryMetrics | None:
        """Return the newest metrics of a query, or None if the query does not run."""
        state = self.states.get(query)
        return self.newest.get(query) if state and state.active else None

    def held(self, query: str) -> int:
        """Return the number of messages that the query has leased, or 0 if unknown."""
        metrics = self.active(query)
        return metrics.held or 0 if metrics else 0


Labels = tuple[str, ...]
Samples = Iterator[tuple[Labels, float]]


class Metric(NamedTuple):
    """One exported metric. samples: yields the values of the labels with the value of the metric.

    Gauges are exported while the query runs or its queues are watched. Counters remain after the
    query has ended, and continue in the query's next run in this process. (Prometheus's client adds
    `_total` to a counter's name.)
    """

    name: str
    meaning: str
    samples: Callable[[Snapshot], Samples]
    labels: Labels = ("query",)
    is_counter: bool = False
    unit: str = ""


class HistogramMetric(NamedTuple):
    """An exported histogram. Like a counter, it remains after the query has ended. samples: yields
    the values of the labels with the histogram.
    """

    name: str
    meaning: str
    samples: Callable[[Snapshot], Iterator[tuple[Labels, Histogram]]]
    labels: Labels = ("query",)


# ── where the values come from ────────────────────────────────────────────────────────────────────


def _of_state(read: Callable[[QueryState], float | None], now: Snapshot) -> Samples:
    """Yield a value for each query, from its start on, even before its first metrics."""
    for query, state in now.states.items():
        yield from _each(query, read(state))


def _gauge(field: str, seen: Callable[[Snapshot, str], Any] | None, now: Snapshot) -> Samples:
    """Yield a value for each query that runs, or whose queues are watched. seen: returns a value
    that was read from the queues, which is newer than the query's report.
    """
    for query in {**now.newest, **now.watched}:
        value = seen(now, query) if seen and query in now.watched else None
        if value is None and (metrics := now.active(query)):
            value = getattr(metrics, field)
        yield from _each(query, value)


def _counter(read: Callable[[QueryMetrics], Any], now: Snapshot) -> Samples:
    """Yield a counter for each query, from its start on. The counter begins with the value 0, so
    that exporters see the first increase.
    """
    for query in {**now.states, **now.newest}:
        metrics = now.newest.get(query)
        yield from _each(query, read(metrics) if metrics else 0)


def _by_queue(field: str, now: Snapshot) -> Samples:
    for query, metrics in now.newest.items():
        yield from _each(query, getattr(metrics, field) or {})


def _of_watch(read: Callable[[Snapshot, str], Any], now: Snapshot) -> Samples:
    for query in now.watched:
        yield from _each(query, read(now, query))


def _each(query: str, value: Any) -> Samples:
    if isinstance(value, Mapping):
        yield from (((query, name), count) for name, count in value.items())
    elif value is not None:
        yield (query,), value


def _expiry(now: Snapshot, query: str) -> float | None:
    """Return the seconds until the first message expires, of the visible messages and the messages
    of the newest batch.
    """
    metrics = now.active(query)
    known: list[float] = [*now.watched[query].expires.values()]
    if metrics and metrics.expires_seconds is not None:
        known.append(metrics.expires_seconds)
    return min(known, default=None)


def _drain_seconds(now: Snapshot, query: str) -> float | None:
    rate, found = now.rates.get(query), _scaling(now, query)
    return found.waiting / rate if found and rate else None


def _waiting(now: Snapshot, query: str) -> int | None:
    found = _scaling(now, query)
    return found.waiting if found else None


def _elsewhere(now: Snapshot, query: str) -> int | None:
    found = _scaling(now, query)
    return found.elsewhere if found else None


def _scaling(now: Snapshot, query: str) -> Scaling | None:
    return now.watched[query].scaling(now.held(query))


def _build(_: Snapshot) -> Samples:
    spark: str = getattr(sys.modules.get("pyspark"), "__version__", "")
    yield (__version__, platform.python_version(), spark), 1


_SEEN: Mapping[str, Callable[[Snapshot, str], Any]] = {
    "backlog": lambda now, query: now.watched[query].backlog or None,
    "poison": lambda now, query: now.watched[query].poison or None,
    "head_seconds": lambda now, query: now.watched[query].heads or None,
    "expires_seconds": _expiry,
}
"""Metrics whose value is also read from the queues, which is newer than the query's last report."""


def _states() -> Iterator[Metric]:
    for name, meaning, read, is_counter, unit in (
        ("active", "1 while the query runs.", lambda now: int(now.active), False, ""),
        (
            "failed",
            "1 after a run of the query failed, until its next start.",
            lambda now: int(now.failed),
            False,
            "",
        ),
        (
            "started_timestamp_seconds",
            "When the query's run started, in seconds since 1970.",
            lambda now: now.started if now.active else None,
            False,
            "s",
        ),
        (
            "failures",
            "Runs of the query that failed, since the listener was made.",
            attrgetter("failures"),
            True,
            "",
        ),
    ):
        samples = partial(_of_state, read)
        yield Metric(f"azqueue_query_{name}", meaning, samples, is_counter=is_counter, unit=unit)


def _of_queues() -> Iterator[Metric]:
    yield Metric(
        "azqueue_queue_answers",
        "1 if the queue answered when it was last looked at from outside, else 0.",
        partial(_of_watch, lambda now, query: now.watched[query].answers),
        ("query", "queue"),
    )
    yield Metric(
        "azqueue_waiting_messages",
        "Messages that can be read now, about; absent while a queue does not answer.",
        partial(_of_watch, _waiting),
    )
    yield Metric(
        "azqueue_leased_elsewhere_or_delayed_messages",
        "Messages that can not be read now, and are not leased by the query, about.",
        partial(_of_watch, _elsewhere),
    )
    yield Metric(
        "azqueue_drain_seconds",
        "Waiting messages, divided by the messages a second of the last ten minutes.",
        partial(_of_watch, _drain_seconds),
        unit="s",
    )


def _metrics() -> Iterator[Metric]:
    yield Metric(
        "azqueue_build_info",
        "1, with the versions of this package, Python and Spark.",
        _build,
        ("version", "python", "spark"),
    )
    yield from _states()
    yield from _of_queues()
    yield Metric(
        "azqueue_last_progress_timestamp_seconds",
        "When the newest trigger began, in seconds since 1970.",
        partial(_gauge, "began", None),
        unit="s",
    )
    for field, hint in hints_of(QueryMetrics).items():
        meaning, *metric = hint.__metadata__
        if metric:
            name, *label = (each for each in metric if each is not TOTAL)
            is_total = TOTAL in metric
            samples = (
                partial(_by_queue, field) if is_total else partial(_gauge, field, _SEEN.get(field))
            )
            yield Metric(f"azqueue_{name}", meaning, samples, ("query", *label), is_total)
    for counter, meaning in Counters.meanings().items():
        samples = partial(_counter, partial(_count, counter))
        yield Metric(f"azqueue_{counter}", meaning, samples, is_counter=True)


def _count(name: str, metrics: QueryMetrics) -> int | None:
    return getattr(metrics.counters, name, None)


def _latency(name: str, now: Snapshot) -> Iterator[tuple[Labels, Histogram]]:
    for query, metrics in now.newest.items():
        if found := (metrics.latencies or {}).get(name):
            yield (query,), found


def _requests(now: Snapshot) -> Iterator[tuple[Labels, Histogram]]:
    for query, metrics in now.newest.items():
        for name, found in (metrics.latencies or {}).items():
            if name not in (DELIVERY, COMMIT, BATCH):
                operation, _, error = name.partition(" ")
                yield (query, operation, error), found


METRICS = tuple(_metrics())

HISTOGRAMS = (
    HistogramMetric(
        "azqueue_delivery_age_seconds",
        "Age of messages when they are put into a batch.",
        partial(_latency, DELIVERY),
    ),
    HistogramMetric(
        "azqueue_commit_age_seconds",
        "Age of messages when the source knows that their batch is committed.",
        partial(_latency, COMMIT),
    ),
    HistogramMetric(
        "azqueue_batch_seconds",
        "How long the triggers of batches with messages took.",
        partial(_latency, BATCH),
    ),
    HistogramMetric(
        "azqueue_request_seconds",
        "How long requests to queues took, by operation and error.",
        _requests,
        ("query", "operation", "error"),
    ),
)
