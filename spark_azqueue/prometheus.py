"""A listener's figures for Prometheus. Needs `pip install "spark-azqueue[prometheus]"`.

    export(AzQueueListener.attach(spark))
    prometheus_client.start_http_server(9464)

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
from .metrics.report import Counters

GAUGES = {
    "oldest_seconds": "azqueue_oldest_message_age_seconds",
    "messages": "azqueue_batch_messages",
    "batch_seconds": "azqueue_batch_duration_seconds",
    "messages_per_second": "azqueue_messages_per_second",
    "held": "azqueue_held_messages",
    "remembered": "azqueue_remembered_messages",
    "visibility_timeout": "azqueue_visibility_timeout_seconds",
    "log_segments": "azqueue_log_segments",
    "log_bytes": "azqueue_log_bytes",
    "log_uncommitted": "azqueue_log_uncommitted_batches",
    "log_known": "azqueue_log_known_messages",
    "log_owed": "azqueue_log_owed_messages",
    "log_put_seconds": "azqueue_log_put_duration_seconds",
    "sink_rows": "azqueue_batch_sink_rows",
}
"""Figures exported as gauges with the label `query`: field -> metric name."""

COUNTERS = {name: f"azqueue_{name}" for name in Counters.meanings()}
"""Counters with the label `query`: field -> metric name, to which the client adds `_total`.

They start from zero in each run of a query.
"""


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
    """Register the listener's figures with a registry (default: Prometheus's own).

    To undo it, pass the returned collector to `registry.unregister`.
    """
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
