"""A listener's figures for Prometheus; takes `pip install "spark-azqueue[prometheus]"`.

    export(AzQueueListener.attach(spark))
    prometheus_client.start_http_server(9464)

Read from the listener whenever Prometheus asks, so nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from .metrics.figures import Figures
from .metrics.listener import AzQueueListener
from .metrics.report import Counters

GAUGES = {
    "oldest_seconds": "azqueue_oldest_message_age_seconds",
    "messages": "azqueue_batch_messages",
    "batch_seconds": "azqueue_batch_duration_seconds",
    "messages_per_second": "azqueue_messages_per_second",
    "held": "azqueue_held_messages",
    "remembered": "azqueue_remembered_messages",
    "visibility_timeout": "azqueue_visibility_timeout_seconds",
}
"""Figures that are gauges, labelled with the query, and what they are called."""

COUNTERS = {name: f"azqueue_{name}" for name in Counters.meanings()}
"""Counters, labelled with the query; `_total` is added. They start anew with a query's run."""


class FiguresCollector(Collector):
    """Newest figures of each query, as Prometheus's metrics.

    Gauges are there while the query runs; counters stay when it has ended.
    """

    def __init__(self, listener: AzQueueListener) -> None:
        self._listener = listener

    def describe(self) -> list[Metric]:
        """Nothing yet: spares a look at the figures when the collector is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of now."""
        active = self._listener.queries(active=True)
        newest = {query: self._listener.latest(query) for query in self._listener.queries()}
        known = {query: figures for query, figures in newest.items() if figures}
        running = {query: figures for query, figures in known.items() if query in active}

        up = GaugeMetricFamily("azqueue_query_active", "1 while the query runs.", labels=["query"])
        for query in known:
            up.add_metric([query], float(query in running))
        yield up
        yield _backlog(running)
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
    """Register the listener's figures. Undo it with `registry.unregister` of what is returned."""
    collector = FiguresCollector(listener)
    registry.register(collector)
    return collector


def _backlog(running: dict[str, Figures]) -> Metric:
    gauge = GaugeMetricFamily(
        "azqueue_backlog_messages", Figures.meanings()["backlog"], labels=["query", "queue"]
    )
    for query, figures in running.items():
        for queue, count in (figures.backlog or {}).items():
            gauge.add_metric([query, queue], count)
    return gauge
