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

from spark_azqueue.metrics import opentelemetry, prometheus
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
    opentelemetry.export_to_opentelemetry(listener, provider.get_meter("test"))

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
            if hasattr(point, "value") and metric.name.startswith("azqueue_")
        }

    yield collect
    provider.shutdown()


def by_prometheus(listener):
    registry = CollectorRegistry()
    prometheus.export_to_prometheus(listener, registry)
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {
        (sample.name.removesuffix("_total"), tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if family.type != "histogram"
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
    opentelemetry.export_to_opentelemetry(
        listener
    )  # without a MeterProvider nothing is collected, and all is well


# ── the conventions for messaging ─────────────────────────────────────────────────────────────────

LATENCIES = {
    "delivery": [6_500, 2, 0, 1],
    "dequeue": [8, 2],
    "delete": [12, 3],
    "delete 503": [9_000, *[0] * 13, 1],
    "update": [5, 1],
}
COMMON = {"messaging.system": "azure_storage_queue", "query": "orders"}


@pytest.fixture
def points(listener):
    """Collect all data points: (name, attributes)."""
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    opentelemetry.export_to_opentelemetry(listener, provider.get_meter("test"))

    def collect(name):
        data = reader.get_metrics_data()
        return {
            tuple(sorted(point.attributes.items())): point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }

    yield collect
    provider.shutdown()


def attributes(**named):
    named = {f"messaging.{name.replace('_', '.')}": value for name, value in named.items()}
    return tuple(sorted((COMMON | named).items()))


def test_operations_have_the_names_of_the_conventions(listener, points):
    report = REPORT | {"latencies": LATENCIES, "deliveredByQueue": {"orders": 64}}
    for run in ("one", "two"):
        started(listener, run=run)
        for batch in (1, 2):
            at = f"2026-11-21T10:00:0{batch}.000Z"
            went_on(
                listener,
                batch,
                runId=run,
                timestamp=at,
                sources=[source(latestOffset=report)],
            )
    found = points("messaging.client.operation.duration")
    where = {"destination_name": "orders"}
    receive = found[attributes(operation_name="dequeue", operation_type="receive", **where)]
    settle = attributes(operation_name="delete", operation_type="settle", **where)
    failed = tuple(sorted((*settle, ("error.type", "503"))))

    assert found.keys() == {
        attributes(operation_name="dequeue", operation_type="receive", **where),
        attributes(operation_name="update", **where),
        settle,
        failed,
    }
    assert receive.count == 4, "two runs of two reports with the same counts"
    assert receive.sum == pytest.approx(0.016)
    assert found[settle].bucket_counts[0] == 6
    assert (found[failed].count, found[failed].bucket_counts[-2]) == (2, 2)
    assert found[failed].sum == pytest.approx(18)

    (ages,) = points("azqueue_delivery_age_seconds").values()
    assert (ages.count, ages.sum) == (6, pytest.approx(13))
    (process,) = points("messaging.process.duration").items()
    assert process[0] == attributes(operation_name="process", operation_type="process", **where)
    assert process[1].count == 4
    (consumed,) = points("messaging.client.consumed.messages").items()
    assert consumed[0] == attributes(operation_name="deliver", **where)
    assert consumed[1].value == 128


def test_patterns_are_a_template_in_place_of_many_names(listener, points):
    report = REPORT | {"deliveredByQueue": {"orders-1": 60, "orders-2": 4}, "template": "orders-*"}
    started(listener)
    went_on(listener, sources=[source(latestOffset=report | {"latencies": {"delete": [12, 3]}})])
    template = {"destination_template": "orders-*"}

    (consumed,) = points("messaging.client.consumed.messages").items()
    assert consumed[0] == attributes(operation_name="deliver", **template)
    assert consumed[1].value == 64
    assert points("messaging.client.operation.duration").keys() == {
        attributes(operation_name="delete", operation_type="settle", **template)
    }


def test_rows_of_a_sink_are_sent_messages_only_if_the_sink_is_a_queue(listener, points):
    class Jvm:
        def __init__(self, name):
            self.name = name

        def __getattr__(self, _):
            return lambda: self

        def toString(self):
            return "azqueue"

    for name, sink in (("orders", "azqueue"), ("files", "parquet")):
        query = type("Query", (), {"_jsq": Jvm(lambda sink=sink: sink)})()
        streams = type("Streams", (), {"get": lambda self, _, query=query: query})()
        listener.spark = type("Spark", (), {"streams": streams})()
        started(listener, name, run=name, query_id=name)
        for _ in range(2):  # the second is the same trigger
            went_on(listener, name=name, runId=name, id=name, sink={"numOutputRows": 7})

    ((attributes_, sent),) = points("messaging.client.sent.messages").items()
    assert attributes_ == attributes(operation_name="put", operation_type="send")
    assert sent.value == 7


def test_a_follower_that_fails_costs_nothing_else(listener, caplog):
    listener.follow(lambda _: 1 / 0)
    started(listener)
    went_on(listener)

    assert listener.latest("orders")
    assert "a follower of the metrics failed" in caplog.text
