"""What Prometheus and OpenTelemetry export: each figure and counter, read when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from .figures import Figures
from .report import Counters, hints_of

if TYPE_CHECKING:
    from .listener import AzQueueListener


class Snapshot(NamedTuple):
    """What a listener knows now: whether each query runs, and each query's newest figures."""

    runs: Mapping[str, bool]
    newest: Mapping[str, Figures]

    @classmethod
    def of(cls, listener: AzQueueListener) -> Snapshot:
        """Take it from this listener."""
        newest = {query: listener.latest(query) for query in listener.queries()}
        return cls(listener.activity(), {query: each for query, each in newest.items() if each})


class Metric(NamedTuple):
    """One exported metric. read: its value in a query's figures; None if it is not known.

    Gauges exist while the query runs. Counters stay when it has ended, and start from zero in each
    run. (Prometheus's client adds `_total` to a counter's name.)
    """

    name: str
    meaning: str
    read: Callable[[Figures], Any]
    labels: tuple[str, ...] = ("query",)
    is_counter: bool = False
    unit: str = ""

    def samples(self, now: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
        """Yield the values of the labels, and the metric's value, for each query (and queue)."""
        for query, figures in now.newest.items():
            value = self.read(figures) if self.is_counter or now.runs.get(query) else None
            if isinstance(value, Mapping):
                yield from (((query, queue), count) for queue, count in value.items())
            elif value is not None:
                yield (query,), value


class _Active(Metric):
    """It exists from a query's start, also before the first figures."""

    def samples(self, now: Snapshot) -> Iterator[tuple[tuple[str, ...], float]]:
        yield from (((query,), int(runs)) for query, runs in now.runs.items())


def _metrics() -> Iterator[Metric]:
    yield _Active("azqueue_query_active", "1 while the query runs.", attrgetter("query"))
    yield Metric(
        "azqueue_last_progress_timestamp_seconds",
        "When the newest trigger began, in seconds since 1970.",
        attrgetter("began"),
        unit="s",
    )
    for field, hint in hints_of(Figures).items():
        meaning, *metric = hint.__metadata__
        labels = ("query", "queue") if field in ("backlog", "poison") else ("query",)
        yield from (
            Metric(f"azqueue_{name}", meaning, attrgetter(field), labels) for name in metric
        )
    for counter, meaning in Counters.meanings().items():
        yield Metric(f"azqueue_{counter}", meaning, partial(_counter, counter), is_counter=True)


def _counter(name: str, figures: Figures) -> int | None:
    return getattr(figures.counters, name, None)


METRICS = tuple(_metrics())
