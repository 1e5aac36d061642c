"""What the driver-side process tells of itself, as JSON and back."""

import json
from dataclasses import fields, replace

import pytest

from spark_azqueue.metrics.report import (
    AT,
    BYTES_IN_AN_OFFSET,
    MOST_QUEUES_REPORTED,
    OTHERS,
    Counters,
    CountsByQueue,
    LogReport,
    Report,
)

COUNTERS = Counters(dequeued=40, delivered=32, deleted=8, renewals=3, leases_lost=1)
REPORT = Report({"orders": 120, "refunds": 0}, 24, 1, 300, COUNTERS)


def test_a_report_goes_to_json_and_back():
    assert Report.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT


def test_the_json_is_what_users_read():
    assert REPORT.to_json() == {
        "version": 1,
        "backlog": {"orders": 120, "refunds": 0},
        "held": 24,
        "unconfirmedDeletes": 1,
        "visibilityTimeout": 300,
        "counters": {
            "dequeued": 40,
            "redelivered": 0,
            "delivered": 32,
            "delivered_bytes": 0,
            "deleted": 8,
            "deletes_refused": 0,
            "deletes_given_up": 0,
            "renewals": 3,
            "leases_lost": 1,
            "duplicates_suppressed": 0,
            "poison_moved": 0,
            "evicted_deletes": 0,
            "skipped_near_expiry": 0,
            "throttled": 0,
        },
    }


def test_a_report_of_another_release_is_read_as_far_as_it_goes():
    other = REPORT.to_json() | {"version": 2, "counters": {"deleted": 5, "invented_later": 7}}

    assert Report.from_json(other).counters == Counters(deleted=5)


@pytest.mark.parametrize(
    "gone", ["backlog", "held", "unconfirmedDeletes", "visibilityTimeout", "counters"]
)
def test_what_is_no_report_is_refused(gone):
    rest = {name: value for name, value in REPORT.to_json().items() if name != gone}

    with pytest.raises(LookupError):
        Report.from_json(rest)


def test_counters_add_up_one_by_one():
    ones = Counters(*range(len(fields(Counters))))

    assert ones + ones == Counters(*(2 * n for n in range(len(fields(Counters)))))


LOG = LogReport(
    segments=103, bytes=98_000_000, uncommitted=2, seen=8_192, pending_deletes=3, put_seconds=0.04
)


def test_a_report_of_a_log_goes_to_json_and_back():
    report = replace(REPORT, log=LOG)
    told = json.loads(json.dumps(report.to_json()))

    assert Report.from_json(told) == report
    assert told["log"] == {
        "segments": 103,
        "bytes": 98_000_000,
        "uncommitted": 2,
        "seen": 8_192,
        "pending_deletes": 3,
        "put_seconds": 0.04,
    }


def test_logs_add_up_and_the_slowest_put_counts():
    fresh = LogReport(1, 2, 3, 4, 5)

    assert fresh + fresh == LogReport(2, 4, 6, 8, 10)
    assert (fresh + LOG).put_seconds == (LOG + fresh).put_seconds == 0.04
    assert (fresh + LOG).segments == 104


def test_metrics_by_queue_and_operation_go_to_json_and_back_and_add_up():
    one = replace(REPORT, heads={"a": 5}, delivered_by_queue={"a": 2}, requests={"dequeue": 3})
    two = replace(
        REPORT, heads={"a": 9, "b": 1}, delivered_by_queue={"b": 1}, requests={"dequeue": 1}
    )

    assert Report.from_json(json.loads(json.dumps(one.to_json()))) == one
    both = one + two
    assert both.heads == {"a": 9, "b": 1}
    assert both.delivered_by_queue == {"a": 2, "b": 1}
    assert both.requests == {"dequeue": 4}


def test_queues_beyond_the_hundredth_are_counted_together():
    counts = CountsByQueue()
    for _ in range(2):
        counts.add(f"queue-{number}" for number in range(MOST_QUEUES_REPORTED + 3))

    told = counts.as_dict()
    assert len(told) == MOST_QUEUES_REPORTED + 1
    assert (told["queue-0"], told[OTHERS]) == (2, 6)


# ── in an offset ──────────────────────────────────────────────────────────────────────────────────


def test_in_an_offset_it_has_its_time_and_is_read_as_before():
    told = REPORT.for_an_offset(1_700_000_000.9)

    assert told.pop(AT) == 1_700_000_000
    assert told == REPORT.to_json()


@pytest.mark.parametrize(("queues", "length", "kept"), [(21, 5, 20), (500, 8, 20), (500, 63, 10)])
def test_in_an_offset_it_is_small(queues, length, kept):
    counts = {f"q{number:0{length - 1}}": number for number in range(queues)}
    long = replace(REPORT, backlog=counts, poison=counts, heads=counts, delivered_by_queue=counts)

    told = long.for_an_offset(1.7e9)

    assert len(json.dumps(told)) <= BYTES_IN_AN_OFFSET
    found = Report.from_json(told)
    assert list(found.backlog) == [*sorted(counts, reverse=True)[:kept], OTHERS]
    assert sum(found.backlog.values()) == sum(counts.values())
    assert found.heads[OTHERS] == queues - kept - 1, "of others the oldest"
    assert found.counters == COUNTERS


def test_what_it_has_counted_is_left_of_an_old_one():
    whole = replace(
        REPORT, delivered_by_queue={"orders": 3}, requests={"put": 1}, heads={"orders": 9}
    )

    found = whole.counted()

    assert (found.counters, found.delivered_by_queue, found.requests) == (
        COUNTERS,
        {"orders": 3},
        {"put": 1},
    )
    assert found.backlog == found.heads == {}


# ── forged ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "backlog",
    [
        *({name: 1} for name in ("q" * 201, "", 'a"} 1\nup{a="', "a\x1b[2J", "Ä")),
        {f"q{number}": 1 for number in range(10_001)},
    ],
)
def test_names_without_bound_or_of_no_queue_make_no_report(backlog):
    """They become labels, and are in lines of logs."""
    with pytest.raises(ValueError, match="too many names, or one that no queue"):
        Report.from_json(REPORT.to_json() | {"backlog": backlog})


@pytest.mark.parametrize("took", [float("nan"), float("inf"), "-inf"])
def test_a_time_that_is_no_number_makes_no_report(took):
    told = replace(REPORT, log=LOG).to_json()

    with pytest.raises(ValueError, match="not finite"):
        Report.from_json(told | {"log": told["log"] | {"put_seconds": took}})


def test_no_sum_is_more_than_a_long_of_spark_holds():
    most = 2**63 - 1
    counters = Counters(*[most] * len(fields(Counters)))
    one = Report({"a": most}, most, most, most, counters, LogReport(*[most] * 5))
    by_queue = CountsByQueue()
    for _ in range(2):
        by_queue.add_counts({"a": most})

    assert one + one == one
    assert by_queue.as_dict() == {"a": most}
