"""Metrics as OpenTelemetry collects them: the same series as for Prometheus."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("prometheus_client")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from progress_events import LOG, REPORT, ended, source, started, went_on
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_azqueue import opentelemetry, prometheus
from spark_azqueue.metrics.listener import AzQueueListener

FULL = REPORT | {"log": LOG, "poison": {"orders-poison": 1}, "expires": 1_795_255_300}


@pytest.fixture
def listener():
    return AzQueueListener()


@pytest.fixture
def collected(listener):
    """Collect from OpenTelemetry: (name, labels) -> value."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    opentelemetry.export(listener, provider.get_meter("test"))

    def collect():
        data = reader.get_metrics_data()
        metrics = [
            metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ]
        return {
            (metric.name, tuple(sorted(point.attributes.items()))): point.value
            for metric in metrics
            for point in metric.data.data_points
        }

    yield collect
    provider.shutdown()


def by_prometheus(listener):
    registry = CollectorRegistry()
    prometheus.export(listener, registry)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_series_are_those_of_prometheus(listener, collected):
    assert collected() == by_prometheus(listener)
    assert {name for name, _ in collected()} == {"azqueue_build_info"}
    started(listener)
    assert collected() == by_prometheus(listener)
    went_on(listener, sources=[source(latestOffset=FULL)])
    assert collected() == by_prometheus(listener)
    assert len(collected()) > 25
    ended(listener)
    assert collected() == by_prometheus(listener)


def test_the_global_meter_is_the_default(listener):
    opentelemetry.export(listener)  # without a MeterProvider nothing is collected, and all is well
