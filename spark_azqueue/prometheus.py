"""A listener's metrics for Prometheus. Needs `pip install "spark-azqueue[prometheus]"`.

    export(AzQueueListener.attach(spark))
    prometheus_client.start_http_server(9464, addr="127.0.0.1")

Metrics are read from the listener at each scrape; nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from .metrics.exported import METRICS, Snapshot
from .metrics.listener import AzQueueListener


class MetricsCollector(Collector):
    """The newest metrics of each query, as Prometheus metrics.

    Gauges exist while the query runs; counters stay after it has ended.
    """

    def __init__(self, listener: AzQueueListener) -> None:
        self._listener = listener

    def describe(self) -> list[Metric]:
        """Return nothing, so that registering the collector does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        now = Snapshot.of(self._listener)
        for metric in METRICS:
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in metric.samples(now):
                family.add_metric(labels, value)
            yield family


def export(listener: AzQueueListener, registry: CollectorRegistry = REGISTRY) -> MetricsCollector:
    """Register the listener's metrics with a registry (default: Prometheus's own).

    To undo it, pass the returned collector to `registry.unregister`.
    """
    collector = MetricsCollector(listener)
    registry.register(collector)
    return collector
