"""What Prometheus and OpenTelemetry export: each metric and counter, read when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .activity import QueryState
from .query_metrics import TOTAL, QueryMetrics
from .report import Counters, hints_of

if TYPE_CHECKING:
    from .listener import AzQueueListener


class Snapshot(NamedTuple):
    """What a listener knows now: the state of each query, and each query's newest metrics.

    newest: with the counters of all runs of a query added up, since an exporter may look less often
    than runs begin.
    """

    states: Mapping[str, QueryState]
    newest: Mapping[str, QueryMetrics]

    @classmethod
    def of(cls, listener: AzQueueListener) -> Snapshot:
        """Take it from this listener."""
        newest = {query: listener.totals(query) for query in listener.queries()}
        return cls(listener.states(), {query: each for query, each in newest.items() if each})


class Metric(NamedTuple):
    """One exported metric. read: its value in a query's metrics; None if it is not known.

    Gauges exist while the query runs. Counters stay when it has ended, and continue in its next
    run in this process. (Prometheus's client adds `_total` to a counter's name.)

    of_state: `read` takes the query's state in place of its metrics. So the metric exists from the
    query's start, also before the first metrics.
    """

    name: str
    meaning: str
    read: Callable[[Any], Any]
    labels: tuple[str, ...] = ("query",)
    is_counter: bool = False
    unit: str = ""
    of_state: bool = False

    def samples(self, now: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the values of the labels, and the metric's value, for each query (and queue)."""
        known: Mapping[str, Any] = now.states if self.of_state else now.newest
        for query, found in known.items():
            runs = query in now.states and now.states[query].active
            value = self.read(found) if self.of_state or self.is_counter or runs else None
            if isinstance(value, Mapping):
                yield from (((query, queue), count) for queue, count in value.items())
            elif value is not None:
                yield (query,), value


_state = partial(Metric, of_state=True)


def _metrics() -> Iterator[Metric]:
    yield _state("azqueue_query_active", "1 while the query runs.", lambda now: int(now.active))
    yield _state(
        "azqueue_query_failed",
        "1 after a run of the query failed, until its next start.",
        lambda now: int(now.failed),
    )
    yield _state(
        "azqueue_query_started_timestamp_seconds",
        "When the query's run started, in seconds since 1970.",
        lambda now: now.started if now.active else None,
        unit="s",
    )
    yield _state(
        "azqueue_query_failures",
        "Runs of the query that failed, since the listener was made.",
        attrgetter("failures"),
        is_counter=True,
    )
    yield Metric(
        "azqueue_last_progress_timestamp_seconds",
        "When the newest trigger began, in seconds since 1970.",
        attrgetter("began"),
        unit="s",
    )
    for field, hint in hints_of(QueryMetrics).items():
        meaning, *metric = hint.__metadata__
        if metric:
            name, *label = (each for each in metric if each is not TOTAL)
            labels = ("query", *label)
            yield Metric(f"azqueue_{name}", meaning, attrgetter(field), labels, TOTAL in metric)
    for counter, meaning in Counters.meanings().items():
        yield Metric(f"azqueue_{counter}", meaning, partial(_counter, counter), is_counter=True)


def _counter(name: str, metrics: QueryMetrics) -> int | None:
    return getattr(metrics.counters, name, None)


METRICS = tuple(_metrics())
