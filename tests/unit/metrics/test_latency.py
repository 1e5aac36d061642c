"""Histograms: what they count, what they add up to, and what comes back from a report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from progress_events import REPORT, source, started, went_on

from spark_azqueue.metrics.latency import (
    AGES,
    COMMIT,
    DELIVERY,
    REQUESTS,
    Histogram,
    Recorder,
    added,
    bounds_of,
    latencies_from_json,
    latencies_to_json,
)
from spark_azqueue.metrics.listener import AzQueueListener
from spark_azqueue.metrics.report import BYTES_IN_AN_OFFSET, Counters, Report

SECONDS = st.lists(st.floats(0, 1_000_000), max_size=30)


def histogram(name, seconds):
    recorder = Recorder()
    recorder.observe(name, seconds)
    return recorder.latencies()[name]


def test_a_value_is_in_the_first_bucket_that_is_not_below_it():
    found = histogram("delete", [0.005, 0.0051, 10, 10.1, -3])

    assert found.counts == (2, 1, *[0] * 11, 1, 1)
    assert found.count == 5
    assert found.total == pytest.approx(20.11)
    assert found.cumulative[0] == ("0.005", 2)
    assert found.cumulative[-2:] == [("10", 4), ("+Inf", 5)]


def test_a_quantile_is_that_of_prometheus():
    found = histogram(DELIVERY, [*[0.5] * 50, *[3] * 40, *[8] * 10])

    assert found.quantile(0.5) == 1
    assert found.quantile(0.9) == 5
    assert found.quantile(0.95) == 7.5
    assert histogram(DELIVERY, [10**9]).quantile(0.5) == AGES[-1]
    assert histogram(DELIVERY, []).quantile(0.5) is None


@given(SECONDS, SECONDS)
def test_sums_and_differences_are_those_of_the_values(one, other):
    first, both = histogram(COMMIT, one), histogram(COMMIT, [*one, *other])

    assert (first + histogram(COMMIT, other)).counts == both.counts
    assert both.since(first).counts == histogram(COMMIT, other).counts
    assert first.since(None) == first
    if other:
        assert first.since(both) == first, "counted anew"


@given(SECONDS)
def test_values_of_the_same_buckets_and_sum(seconds):
    found = histogram("dequeue", seconds)
    given = [value for value, times in found.values() for _ in range(times)]
    again = histogram("dequeue", given)

    assert again.counts == found.counts
    assert again.total == pytest.approx(found.total, rel=1e-6, abs=0.01)


@given(SECONDS)
def test_it_goes_to_json_and_back(seconds):
    found = {"delete 503": histogram("delete 503", seconds), COMMIT: histogram(COMMIT, seconds)}

    assert latencies_from_json(json.loads(json.dumps(latencies_to_json(found)))) == found


@pytest.mark.parametrize(
    "damaged",
    [
        {"delete": []},
        {"delete": [1, -1]},
        {"delete": [1, True]},
        {"delete": [1, 1.5]},
        {"delete": [1, 2**63]},
        {"delete": [1] * 20},
        {"delete": None},
        {"delete": "12"},
        {'dele"te': [1]},
        {f"put {n}": [1] for n in range(50)},
        [],
        7,
    ],
)
def test_what_no_source_wrote_is_no_report(damaged):
    listener = AzQueueListener()
    started(listener)
    went_on(listener, sources=[source(latestOffset=REPORT | {"latencies": damaged})])

    newest = listener.latest("orders")
    assert newest is not None
    assert (newest.latencies is None) or not damaged


def test_errors_are_bounded():
    recorder = Recorder()
    for number in range(100):
        recorder.observe(f"delete {number}", [1.0])
    found = recorder.latencies()

    assert len(found) <= 40
    assert found["delete _OTHER"].count >= 60
    assert latencies_from_json(latencies_to_json(found)) == found


def test_they_are_added_over_restarts_and_sources():
    listener = AzQueueListener()
    for run in ("one", "two"):
        report = REPORT | {"latencies": {DELIVERY: [6_000, 1, 0, 1]}}
        started(listener, run=run)
        went_on(listener, runId=run, sources=[source(latestOffset=report)] * 2)
    total = listener.totals("orders").latencies

    assert total[DELIVERY].counts[:3] == (4, 0, 4)
    assert total[DELIVERY].total == 24
    assert total["batch"].count == 2, "the listener measures batches"
    assert listener.latest("orders").latencies[DELIVERY].count == 4
    assert added({}, total) == total


def test_a_batch_that_is_reported_twice_counts_once():
    listener = AzQueueListener()
    for _ in range(3):
        went_on(listener)

    assert listener.totals("orders").latencies["batch"].count == 1


def test_a_report_in_an_offset_stays_small():
    busy = {name: histogram(name, [2**n for n in range(-10, 30)] * 10**5) for name in (DELIVERY,)}
    for name in ("commit", "dequeue", "delete", "update", "put"):
        busy[name] = Histogram(bounds_of(name), tuple([10**9] * (len(bounds_of(name)) + 1)), 10**15)
    report = Report({"orders": 120}, 24, 1, 300, Counters(), latencies=busy)
    assert len(json.dumps(report.for_an_offset(0.0))) <= BYTES_IN_AN_OFFSET
    assert "latencies" in report.for_an_offset(0.0)

    many = {f"put {n}": histogram("put", [*REQUESTS, 11] * 10_000) for n in range(39)}
    value = replace(report, latencies=many).for_an_offset(0.0)
    assert len(json.dumps(value)) <= BYTES_IN_AN_OFFSET
    assert "latencies" not in value
