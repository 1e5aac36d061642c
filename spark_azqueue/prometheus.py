"""A listener's figures for Prometheus. Needs `pip install "spark-azqueue[prometheus]"`.

    export(AzQueueListener.attach(spark))
    prometheus_client.start_http_server(9464, addr="127.0.0.1")

Figures are read from the listener at each scrape; nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from .metrics.figures import Figures
from .metrics.listener import AzQueueListener
from .metrics.names import ACTIVE, BY_QUEUE, COUNTERS, GAUGES, PROGRESS
from .metrics.report import Counters


class FiguresCollector(Collector):
    """The newest figures of each query, as Prometheus metrics.

    Gauges exist while the query runs; counters stay after it has ended.
    """

    def __init__(self, listener: AzQueueListener) -> None:
        self._listener = listener

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering the collector does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        activity = self._listener.activity()
        newest = {query: self._listener.latest(query) for query in self._listener.queries()}
        known = {query: figures for query, figures in newest.items() if figures}
        running = {query: figures for query, figures in known.items() if activity.get(query)}

        up = GaugeMetricFamily(ACTIVE, "1 while the query runs.", labels=["query"])
        for query, is_active in activity.items():
            up.add_metric([query], float(is_active))
        yield up
        yield _progress(running)
        for figure, name in BY_QUEUE.items():
            yield _by_queue(figure, name, running)
        meanings = Figures.meanings()
        for figure, name in GAUGES.items():
            gauge = GaugeMetricFamily(name, meanings[figure], labels=["query"])
            for query, figures in running.items():
                value = getattr(figures, figure)
                if value is not None:
                    gauge.add_metric([query], value)
            yield gauge
        counts = {query: asdict(each.counters) for query, each in known.items() if each.counters}
        for event, meaning in Counters.meanings().items():
            counter = CounterMetricFamily(COUNTERS[event], meaning, labels=["query"])
            for query, by_event in counts.items():
                counter.add_metric([query], by_event[event])
            yield counter


def export(listener: AzQueueListener, registry: CollectorRegistry = REGISTRY) -> FiguresCollector:
    """Register the listener's figures with a registry (default: Prometheus's own).

    To undo it, pass the returned collector to `registry.unregister`.
    """
    collector = FiguresCollector(listener)
    registry.register(collector)
    return collector


def _by_queue(figure: str, name: str, running: dict[str, Figures]) -> Metric:
    gauge = GaugeMetricFamily(name, Figures.meanings()[figure], labels=["query", "queue"])
    for query, figures in running.items():
        for queue, count in (getattr(figures, figure) or {}).items():
            gauge.add_metric([query, queue], count)
    return gauge


def _progress(running: dict[str, Figures]) -> Metric:
    gauge = GaugeMetricFamily(
        PROGRESS,
        "When the newest trigger began, in seconds since 1970.",
        labels=["query"],
    )
    for query, figures in running.items():
        gauge.add_metric([query], figures.began)
    return gauge
