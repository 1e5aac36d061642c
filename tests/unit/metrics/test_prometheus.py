"""QueryMetrics as Prometheus reads them."""

import pytest

pytest.importorskip("prometheus_client")

from progress_events import REPORT, ended, source, started, went_on
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from spark_azqueue.metrics.exported import METRICS
from spark_azqueue.metrics.listener import AzQueueListener
from spark_azqueue.metrics.prometheus import export_to_prometheus
from spark_azqueue.metrics.query_metrics import QueryMetrics
from spark_azqueue.metrics.report import Counters
from spark_azqueue.version import __version__


@pytest.fixture
def listener():
    return AzQueueListener()


@pytest.fixture
def registry(listener):
    made = CollectorRegistry()
    export_to_prometheus(listener, made)
    return made


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1_795_255_200.0)


def lines(registry):
    text = generate_latest(registry).decode()
    list(text_string_to_metric_families(text))  # well formed
    said = {line for line in text.splitlines() if not line.startswith("#")}
    others = ("azqueue_build_info{", "azqueue_batch_seconds_")
    return {line for line in said if not line.startswith(others)}


def test_nothing_is_said_before_anything_ran(registry):
    assert lines(registry) == set()


def test_the_versions(registry):
    (line,) = [
        line for line in generate_latest(registry).decode().splitlines() if "build_info{" in line
    ]
    assert f'version="{__version__}"' in line
    assert line.endswith(" 1.0")


def test_a_running_query(listener, registry):
    started(listener)
    went_on(listener)

    assert lines(registry) == {
        'azqueue_query_active{query="orders"} 1.0',
        'azqueue_query_started_timestamp_seconds{query="orders"} 1.7952552e+09',
        'azqueue_query_failures_total{query="orders"} 0.0',
        'azqueue_query_failed{query="orders"} 0.0',
        'azqueue_last_progress_timestamp_seconds{query="orders"} 1.79525520725e+09',
        'azqueue_backlog_messages{query="orders",queue="orders"} 120.0',
        'azqueue_backlog_messages{query="orders",queue="refunds"} 3.0',
        'azqueue_oldest_message_age_seconds{query="orders"} 7.25',
        'azqueue_batch_messages{query="orders"} 32.0',
        'azqueue_batch_duration_seconds{query="orders"} 0.5',
        'azqueue_messages_per_second{query="orders"} 64.0',
        'azqueue_held_messages{query="orders"} 32.0',
        'azqueue_unconfirmed_deletes{query="orders"} 1.0',
        'azqueue_visibility_timeout_seconds{query="orders"} 300.0',
        'azqueue_dequeued_total{query="orders"} 64.0',
        'azqueue_redelivered_total{query="orders"} 0.0',
        'azqueue_delivered_total{query="orders"} 64.0',
        'azqueue_delivered_bytes_total{query="orders"} 0.0',
        'azqueue_deleted_total{query="orders"} 32.0',
        'azqueue_deletes_refused_total{query="orders"} 0.0',
        'azqueue_deletes_given_up_total{query="orders"} 0.0',
        'azqueue_renewals_total{query="orders"} 5.0',
        'azqueue_leases_lost_total{query="orders"} 0.0',
        'azqueue_duplicates_suppressed_total{query="orders"} 0.0',
        'azqueue_poison_moved_total{query="orders"} 0.0',
        'azqueue_evicted_deletes_total{query="orders"} 0.0',
        'azqueue_skipped_near_expiry_total{query="orders"} 0.0',
        'azqueue_throttled_total{query="orders"} 0.0',
    }


def test_latencies_are_histograms(listener, registry):
    latencies = {
        "delivery": [7_500, 2, 0, 1],
        "delete": [30, 3],
        "delete 503": [9_000, *[0] * 13, 1],
    }
    started(listener)
    went_on(listener, sources=[source(latestOffset=REPORT | {"latencies": latencies})])
    ended(listener)
    said = {
        line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
        for line in generate_latest(registry).decode().splitlines()
        if line[0] != "#"
    }

    assert said['azqueue_delivery_age_seconds_bucket{le="1",query="orders"}'] == 2
    assert said['azqueue_delivery_age_seconds_bucket{le="5",query="orders"}'] == 3
    assert said['azqueue_delivery_age_seconds_bucket{le="+Inf",query="orders"}'] == 3
    assert said['azqueue_delivery_age_seconds_sum{query="orders"}'] == 7.5
    delete = 'error="",operation="delete",query="orders"'
    assert said[f"azqueue_request_seconds_count{{{delete}}}"] == 3
    busy = 'error="503",operation="delete",query="orders"'
    assert said[f"azqueue_request_seconds_sum{{{busy}}}"] == 9
    assert said['azqueue_batch_seconds_bucket{le="0.5",query="orders"}'] == 1
    assert not any("commit_age" in name for name in said)


def test_counters_go_on_in_the_next_run(listener, registry):
    for run in ("one", "two", "three"):
        started(listener, run=run)
        went_on(listener, runId=run)
        ended(listener, run)

    assert 'azqueue_delivered_total{query="orders"} 192.0' in lines(registry)


def test_it_follows_the_newest_metrics(listener, registry):
    started(listener)
    went_on(listener)
    newer = REPORT | {"backlog": {"orders": 7}, "counters": {"deleted": 64}}
    went_on(listener, 2, sources=[source(latestOffset=newer)])

    said = lines(registry)
    assert 'azqueue_backlog_messages{query="orders",queue="orders"} 7.0' in said
    assert 'azqueue_deleted_total{query="orders"} 64.0' in said
    assert not any('queue="refunds"' in line for line in said)


def test_of_an_ended_query_the_counters_stay(listener, registry):
    started(listener)
    went_on(listener)
    ended(listener)

    said = lines(registry)
    assert 'azqueue_query_active{query="orders"} 0.0' in said
    assert 'azqueue_deleted_total{query="orders"} 32.0' in said
    gauges = {metric.name for metric in METRICS if not metric.is_counter}
    gauges -= {"azqueue_query_active", "azqueue_query_failed", "azqueue_build_info"}
    assert "azqueue_backlog_messages" in gauges
    assert not any(line.startswith(tuple(gauges)) for line in said)


def test_without_a_report_as_on_4_0_there_is_no_backlog_and_no_counter(listener, registry):
    started(listener)
    went_on(listener, sources=[source(latestOffset=None)])

    assert {line.split("{")[0] for line in lines(registry)} == {
        "azqueue_query_active",
        "azqueue_query_started_timestamp_seconds",
        "azqueue_query_failures_total",
        "azqueue_query_failed",
        "azqueue_last_progress_timestamp_seconds",
        "azqueue_oldest_message_age_seconds",
        "azqueue_batch_messages",
        "azqueue_batch_duration_seconds",
        "azqueue_messages_per_second",
    }


def test_a_query_is_there_before_its_first_batch_and_after_it_failed_in_it(listener, registry):
    started(listener)
    began = {'azqueue_query_started_timestamp_seconds{query="orders"} 1.7952552e+09'}
    zeros = {f'azqueue_{name}_total{{query="orders"}} 0.0' for name in Counters.meanings()}
    assert lines(registry) == began | zeros | {
        'azqueue_query_active{query="orders"} 1.0',
        'azqueue_query_failures_total{query="orders"} 0.0',
        'azqueue_query_failed{query="orders"} 0.0',
    }

    ended(listener, exception="the first batch failed")
    failed = {'azqueue_query_failures_total{query="orders"} 1.0'} | zeros
    assert lines(registry) == failed | {
        'azqueue_query_active{query="orders"} 0.0',
        'azqueue_query_failed{query="orders"} 1.0',
    }

    started(listener, run="another run")
    assert lines(registry) == failed | began | {
        'azqueue_query_active{query="orders"} 1.0',
        'azqueue_query_failed{query="orders"} 0.0',
    }


def test_poison_queues_and_the_next_expiry(listener, registry):
    report = REPORT | {"poison": {"orders-poison": 4}, "expires": 1_795_255_300}
    started(listener)
    went_on(listener, sources=[source(latestOffset=report)])

    said = lines(registry)
    assert 'azqueue_poison_queue_messages{query="orders",queue="orders-poison"} 4.0' in said
    assert 'azqueue_message_expiry_seconds{query="orders"} 92.75' in said


def test_odd_names_are_escaped(listener, registry):
    started(listener, 'my "orders"\n')
    went_on(listener, name='my "orders"\n')

    assert 'azqueue_query_active{query="my \\"orders\\"\\n"} 1.0' in lines(registry)


def test_every_figure_and_every_counter_is_exported():
    by_hand = {"query", "query_id", "run_id", "timestamp", "batch_id"}
    exported = {metric.meaning for metric in METRICS}

    assert {
        text for name, text in QueryMetrics.meanings().items() if name not in by_hand
    } <= exported
    assert set(Counters.meanings().values()) <= exported
    assert (
        len(METRICS) == len(QueryMetrics.meanings()) - len(by_hand) + len(Counters.meanings()) + 10
    )
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_an_export_can_be_undone(listener):
    registry = CollectorRegistry()
    collector = export_to_prometheus(listener, registry)
    started(listener)
    went_on(listener)
    registry.unregister(collector)

    assert lines(registry) == set()


def test_the_log_of_a_query_that_has_one(listener, registry):
    log = {"segments": 9, "bytes": 900, "uncommitted": 1, "seen": 32, "pending_deletes": 2}
    started(listener)
    went_on(listener, sources=[source(latestOffset=REPORT | {"log": log})])

    assert {line for line in lines(registry) if line.startswith("azqueue_log")} == {
        'azqueue_log_segments{query="orders"} 9.0',
        'azqueue_log_bytes{query="orders"} 900.0',
        'azqueue_log_uncommitted_batches{query="orders"} 1.0',
        'azqueue_log_seen_messages{query="orders"} 32.0',
        'azqueue_log_pending_deletes{query="orders"} 2.0',
    }


def test_metrics_by_queue_and_requests_by_operation(listener, registry):
    report = REPORT | {
        "heads": {"orders": 90},
        "deliveredByQueue": {"orders": 12},
        "requests": {"dequeue": 3, "delete": 12},
    }
    started(listener)
    went_on(listener, sources=[source(latestOffset=report)])

    said = lines(registry)
    assert 'azqueue_queue_head_age_seconds{query="orders",queue="orders"} 90.0' in said
    assert 'azqueue_queue_delivered_total{query="orders",queue="orders"} 12.0' in said
    assert 'azqueue_requests_total{operation="delete",query="orders"} 12.0' in said
