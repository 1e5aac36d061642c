"""Exports a listener's metrics to Prometheus. Needs `pip install prometheus-client`.

    export_to_prometheus(AzQueueListener.attach(spark))
    prometheus_client.start_http_server(9464, addr="127.0.0.1")

Metrics are read from the listener at each scrape. This module stores no metrics.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import REGISTRY, Collector, CollectorRegistry

from .exported import HISTOGRAMS, METRICS, Snapshot

if TYPE_CHECKING:
    from .listener import AzQueueListener


class MetricsCollector(Collector):
    """The newest metrics of each query, as Prometheus metrics.

    Gauges are exported while the query runs or its queues are watched. Counters remain after the
    query has ended.
    """

    def __init__(self, now: Callable[[], Snapshot]) -> None:
        """now: called at each scrape; returns the current values."""
        self._now = now

    def describe(self) -> list[Metric]:
        """Return no metrics, because Prometheus would otherwise call `collect` when the collector
        is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        now = self._now()
        for metric in METRICS:
            kind = CounterMetricFamily if metric.is_counter else GaugeMetricFamily
            family = kind(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in metric.samples(now):
                family.add_metric(labels, value)
            yield family
        for each in HISTOGRAMS:
            histograms = HistogramMetricFamily(each.name, each.meaning, labels=each.labels)
            for labels, found in each.samples(now):
                histograms.add_metric(labels, found.cumulative, found.total)
            yield histograms


def served(
    now: Callable[[], Snapshot], address: str, port: int
) -> contextlib.AbstractContextManager[None]:
    """Serve these metrics until the context is left. Raises OSError if the port cannot be
    opened.
    """
    registry = CollectorRegistry()
    registry.register(MetricsCollector(now))
    server, thread = start_http_server(port, address, registry)
    server.RequestHandlerClass = _bounded(server.RequestHandlerClass)

    @contextlib.contextmanager
    def serving() -> Iterator[None]:
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    return serving()


_CONNECTIONS = 32
_IDLE_S = 5.0


def _bounded(handler: Any) -> Any:
    """Return a handler that closes idle connections, and all connections after the first 32. (Each
    connection has a thread.)
    """
    free = threading.BoundedSemaphore(_CONNECTIONS)

    class Bounded(handler):  # type: ignore[misc]
        timeout = _IDLE_S

        def handle(self) -> None:
            if not free.acquire(blocking=False):
                return
            try:
                with contextlib.suppress(OSError):
                    super().handle()
            finally:
                free.release()

    return Bounded


def export_to_prometheus(
    listener: AzQueueListener, registry: CollectorRegistry = REGISTRY
) -> MetricsCollector:
    """Register the listener's metrics with a registry. The default is Prometheus's own registry.

    To remove the metrics, pass the returned collector to `registry.unregister`.
    """
    collector = MetricsCollector(partial(Snapshot.of, listener))
    registry.register(collector)
    return collector
