"""QueryMetrics from progress, as Spark 4.0 to 4.3 write it."""

import json
import math

import pytest
from progress_events import REPORT, offset, progress, source

from spark_azqueue.metrics.query_metrics import QueryMetrics, metrics_of
from spark_azqueue.metrics.read import read_of
from spark_azqueue.metrics.report import Counters


def test_a_batch():
    assert metrics_of(progress()) == QueryMetrics(
        query="orders",
        query_id="aaaaaaaa-0000-0000-0000-000000000001",
        run_id="bbbbbbbb-0000-0000-0000-000000000002",
        timestamp="2026-11-21T10:00:07.250Z",
        batch_id=1,
        messages=32,
        batch_seconds=0.5,
        messages_per_second=64.0,
        oldest_seconds=7.25,
        backlog={"orders": 120, "refunds": 3},
        held=32,
        unconfirmed_deletes=1,
        visibility_timeout=300,
        counters=Counters(dequeued=64, delivered=64, deleted=32, renewals=5),
    )


def test_a_flat_dict_has_the_counters_among_the_metrics():
    flat = metrics_of(progress()).as_dict()

    assert list(flat) == [*QueryMetrics.meanings(), *Counters.meanings()]
    assert (flat["messages"], flat["deleted"], flat["backlog"]["orders"]) == (32, 32, 120)
    json.dumps(flat)


def test_offsets_may_come_as_text():
    as_text = {
        name: json.dumps(source()[name]) for name in ("startOffset", "endOffset", "latestOffset")
    }
    assert metrics_of(progress(source(**as_text))) == metrics_of(progress())


@pytest.mark.parametrize("latest", [None, "null", "None", "", {}, {"orders": 5}, {"backlog": 3}])
def test_without_a_report_as_on_4_0_the_batch_is_still_told(latest):
    metrics = metrics_of(progress(source(latestOffset=latest)))

    assert (metrics.messages, metrics.messages_per_second, metrics.oldest_seconds) == (32, 64, 7.25)
    assert metrics.backlog is metrics.held is metrics.counters is None
    assert set(metrics.as_dict()) == {*QueryMetrics.meanings(), *Counters.meanings()}
    assert metrics.as_dict()["deleted"] is None


@pytest.mark.parametrize(
    "changes",
    [
        {"endOffset": offset(1, orders=32)},  # idle: nothing new
        {"numInputRows": 0},  # a replay: these messages come again later
    ],
)
def test_no_message_is_counted_where_no_row_was_given(changes):
    metrics = metrics_of(progress(source(**changes)))

    assert (metrics.messages, metrics.messages_per_second, metrics.oldest_seconds) == (0, 0, None)
    assert metrics.backlog == {"orders": 120, "refunds": 3}


def test_messages_are_not_rows_which_a_second_action_doubles():
    assert metrics_of(progress(source(numInputRows=64))).messages == 32


@pytest.mark.parametrize(
    ("began", "age"),
    [
        ("2026-11-21T10:00:00.000Z", 0.0),
        ("2026-11-21T09:59:58.900Z", 0.0),  # the service's clock is ahead of the driver's
        ("2026-11-22T10:00:00.001Z", 86_400.001),
        ("2026-11-21T10:01:00Z", 60.0),
    ],
)
def test_the_age_of_the_oldest(began, age):
    assert metrics_of(progress(timestamp=began)).oldest_seconds == age


def test_a_query_without_a_name_goes_by_its_id():
    assert metrics_of(progress(name=None)).query == "aaaaaaaa-0000-0000-0000-000000000001"


def test_several_sources_are_added_and_others_left_out():
    other = source(startOffset=None, endOffset={"logOffset": 4}, latestOffset=None)
    older = source(endOffset=offset(9, "2026-11-21T09:00:07Z", orders=8, returns=2))
    older["latestOffset"] = REPORT | {"backlog": {"orders": 1, "returns": 2}, "held": 8}
    metrics = metrics_of(progress(other, source(), older))

    assert (metrics.messages, metrics.oldest_seconds) == (42, 3600.25)
    assert metrics.backlog == {"orders": 121, "refunds": 3, "returns": 2}
    assert (metrics.held, metrics.unconfirmed_deletes, metrics.visibility_timeout) == (40, 2, 300)
    assert metrics.counters.deleted == 64


@pytest.mark.parametrize(
    "sources",
    [
        [],
        [{"description": "RateStreamV2", "startOffset": 1, "endOffset": 5, "latestOffset": 5}],
        [{"startOffset": None, "endOffset": "7", "latestOffset": "x"}],
        [{"startOffset": None, "endOffset": '{"orders":{"0":5}}', "latestOffset": None}],
    ],
)
def test_a_query_that_reads_no_queue_has_no_metrics(sources):
    assert metrics_of(progress() | {"sources": sources}) is None


def test_no_time_no_rate():
    assert metrics_of(progress(durationMs={})).messages_per_second == 0.0


LOG = {
    "segments": 9,
    "bytes": 900,
    "uncommitted": 1,
    "seen": 32,
    "pending_deletes": 2,
    "put_seconds": 0.1,
}


def logged(batch, messages=32, **changes):
    """A position in a write-ahead log."""
    head = {"version": 2, "batch": batch, "account": "fakeaccount", "log": "3f", "segment": "9c"}
    return head | {"messages": messages, "oldest": "2026-11-21T10:00:00Z"} | changes


def with_log(start, end, **changes):
    report = REPORT | {"log": LOG}
    return metrics_of(
        progress(source(startOffset=start, endOffset=end, latestOffset=report, **changes))
    )


def test_a_batch_of_a_query_with_a_log():
    metrics = with_log(logged(6), logged(7, 30), numInputRows=60)  # a second action doubles rows

    assert (metrics.messages, metrics.oldest_seconds, metrics.held) == (30, 7.25, 32)
    assert (metrics.log_segments, metrics.log_bytes, metrics.log_uncommitted) == (9, 900, 1)
    assert (metrics.log_seen, metrics.log_pending_deletes, metrics.log_put_seconds) == (32, 2, 0.1)


@pytest.mark.parametrize("start", [None, {"version": 1, "batch": 6, "account": "a", "queues": {}}])
def test_the_first_batch_with_a_log_begins_at_no_position_in_it(start):
    assert with_log(start, logged(7)).messages == 32


def test_two_batches_of_the_log_in_one_of_sparks():
    assert with_log(logged(5), logged(7, 30), numInputRows=62).messages == 62


def test_an_idle_query_with_a_log_has_no_messages_and_all_metrics_of_its_log():
    metrics = with_log(logged(7), logged(7), numInputRows=0)

    assert (metrics.messages, metrics.oldest_seconds, metrics.log_segments) == (0, None, 9)


def test_without_a_log_its_metrics_are_not_known():
    flat = metrics_of(progress()).as_dict()

    assert {flat[name] for name in flat if name.startswith("log_")} == {None}


def test_the_logs_of_several_sources_are_added():
    one = source(latestOffset=REPORT | {"log": LOG})
    slower = source(latestOffset=REPORT | {"log": LOG | {"put_seconds": 0.3}})
    metrics = metrics_of(progress(one, source(), slower))

    assert (metrics.log_segments, metrics.log_pending_deletes, metrics.log_put_seconds) == (
        18,
        4,
        0.3,
    )


def test_the_next_expiry_is_told_of_a_batch_alone():
    report = REPORT | {"expires": 1_795_255_200, "poison": {"orders-poison": 2}}

    metrics = metrics_of(progress(source(latestOffset=report)))
    assert (metrics.expires_seconds, metrics.poison) == (-7.25, {"orders-poison": 2})
    idle = metrics_of(progress(source(latestOffset=report, endOffset=offset(1, orders=32))))
    assert (idle.expires_seconds, idle.poison) == (None, {"orders-poison": 2})


def test_of_two_sources_the_sooner_expiry_counts():
    first = source(latestOffset=REPORT | {"expires": 1_795_255_300, "poison": {"a": 1}})
    second = source(latestOffset=REPORT | {"expires": 1_795_255_250, "poison": {"a": 2, "b": 3}})

    metrics = metrics_of(progress(first, second))
    assert metrics.expires_seconds == 42.75
    assert metrics.poison == {"a": 3, "b": 3}


@pytest.mark.parametrize(
    ("sink", "rows"),
    [
        ({"description": "…PythonTable@1", "numOutputRows": 30}, 30),
        ({"description": "…PythonTable@1", "numOutputRows": 0}, 0),
        ({"description": "ForeachBatchSink", "numOutputRows": -1}, None),
        ({"description": "ForeachBatchSink"}, None),
        (None, None),
    ],
)
def test_rows_of_the_sink_as_spark_counts_them(sink, rows):
    assert metrics_of(progress(sink=sink)).sink_rows == rows


def test_a_plan_of_executors_has_as_many_messages_as_the_batch_has_rows():
    plan = {"version": 3, "account": "fakeaccount", "log": "a" * 32, "nonce": "b" * 32}
    slots = [{"queues": ["orders"], "messages": 4096, "bytes": 1}]
    before, after = ({**plan, "batch": number, "slots": slots} for number in (1, 2))

    metrics = metrics_of(progress(source(startOffset=before, endOffset=after, numInputRows=7)))

    assert metrics is not None
    assert metrics.messages == 7
    assert metrics.counters == Counters.from_json(REPORT["counters"])
    assert metrics.oldest_seconds is None


# ── the report in the offset, on Spark 4.0 and 4.1 ────────────────────────────────────────────────

FIRST = 1_795_255_200
"""2026-11-21T10:00:00Z"""


def carried(batch, at, **changes):
    report = REPORT | {"at": at} | changes
    return source(endOffset=offset(batch, orders=32) | {"report": report}, latestOffset=None)


def at(second):
    """A trigger that begins this many seconds behind the first."""
    return {"timestamp": f"2026-11-21T10:{second // 60:02}:{second % 60:02}.250Z"}


def idle(which):
    return which | {"startOffset": which["endOffset"], "numInputRows": 0}


def test_a_report_comes_with_the_offset_of_a_new_batch():
    metrics = metrics_of(progress(carried(2, FIRST), **at(0)), None, {})

    assert metrics.backlog == REPORT["backlog"]
    assert (metrics.held, metrics.counters.delivered) == (32, 64)


def test_it_is_shown_for_a_minute_and_what_it_has_counted_for_the_whole_run():
    known = {}
    first = carried(2, FIRST)
    metrics_of(progress(first, **at(0)), None, known)

    for second, backlog in ((10, REPORT["backlog"]), (60, REPORT["backlog"]), (61, None)):
        metrics = metrics_of(progress(idle(first), **at(second)), None, known)
        assert metrics.backlog == backlog
        assert metrics.held == (32 if backlog else None)
        assert metrics.counters.delivered == 64

    metrics = metrics_of(progress(carried(3, FIRST + 70), **at(70)), None, known)
    assert metrics.backlog == REPORT["backlog"]


def test_that_of_an_earlier_run_says_nothing():
    """A restart is idle at its offset, or repeats its batch."""
    known = {}
    for which in (idle(carried(2, FIRST)), carried(2, FIRST)):
        metrics = metrics_of(progress(which, **at(30)), None, known)
        assert metrics.backlog is metrics.counters is None
    assert known == {}


def test_of_two_sources_one_may_have_been_idle_for_long():
    known = {}
    one, other = carried(2, FIRST), carried(5, FIRST, backlog={"others": 7})
    metrics_of(progress(one, other, **at(0)), None, known)

    both = [carried(3, FIRST + 90), idle(other)]
    metrics = metrics_of(progress(*both, **at(90)), None, known)

    assert metrics.backlog == REPORT["backlog"]
    assert metrics.counters.delivered == 128


NO_REPORTS = [
    None,
    5,
    {},
    [1],
    *(
        REPORT | {"at": 2 * FIRST} | changes
        for changes in (
            {"backlog": 3},
            {"backlog": {"orders": math.inf}},
            {"backlog": {"orders": 10**400}},
            {"held": math.inf},
            {"held": math.nan},
            {"counters": None},
            {"counters": [1]},
            {"log": "x"},
            {"requests": [1]},
            {"expires": {}},
            {"expires": -math.inf},
            {"expires": 10**400},
            {"counters": {"deleted": 10**400}},
            {"at": 10**400},
            {"at": -1},
            {"at": "x"},
            {"at": math.inf},
            {"at": []},
        )
    ),
]


@pytest.mark.parametrize("report", NO_REPORTS, ids=str)
def test_a_damaged_report_in_an_offset_says_nothing(report):
    end = offset(2, orders=30, refunds=2) | {"report": report}
    metrics = metrics_of(progress(source(endOffset=end, latestOffset=end)), None, {})
    assert (metrics.messages, metrics.counters) == (32, None)
    assert read_of(progress(source(endOffset=end, latestOffset=end))).messages == 32


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": None, "queues": []},
        {"queues": 5},
        {"queues": {"orders": {"messages": math.inf}}},
        {"queues": {"orders": {"messages": 10**400}}},
        {"queues": {"orders": 3}},
        {"oldest": 5},
        {"oldest": "yesterday"},
        {"log": "x", "slots": 5},
        {"log": "x", "slots": [5], "queues": None},
    ],
    ids=str,
)
def test_a_damaged_offset_is_passed_over(changes):
    """The source refuses it; a listener and a supervisor go on."""
    end = offset(2, orders=32) | changes
    for report in (REPORT, end, DEEP):
        told = progress(source(endOffset=end, latestOffset=report))
        metrics_of(told)
        assert read_of(told) is None
    assert read_of({"sources": 5}) is read_of({"sources": [5]}) is None
    assert read_of(progress(source(endOffset=DEEP))) is None


PLAN = {"version": 3, "account": "fakeaccount", "log": "x", "issued": "2026-11-21T10:00:00Z"}


@pytest.mark.parametrize(
    ("end", "oldest"),
    [
        (offset(2, orders=3), FIRST),
        (offset(2, oldest=None, orders=3), None),
        (offset(2) | {"log": "x", "messages": 3}, FIRST),
        (offset(2, oldest=None) | {"log": "x", "messages": 3}, None),
        (PLAN | {"batch": 2, "slots": [{"queues": ["orders"]}]}, 77),
        (PLAN | {"batch": 2, "slots": [{"queues": [], "from": [1]}]}, None),
        (PLAN | {"batch": 2, "slots": [{"queues": ["orders"]}], "gaveUp": True}, None),
        (PLAN | {"batch": 2, "slots": [{"queues": ["orders"]}], "waiting": [[1]]}, None),
    ],
)
def test_how_old_the_messages_of_a_batch_are(end, oldest):
    """With plans it is that of the batch before; of what comes again nothing is known."""
    told = progress(source(endOffset=end, latestOffset=REPORT | {"oldest": 77}))

    assert read_of(told).oldest == (("fakeaccount", oldest),)


def test_the_queues_that_were_read():
    slots = [{"queues": ["orders"]}, {"queues": ["refunds"]}]
    both = source(), source(endOffset=PLAN | {"batch": 2, "slots": slots})
    assert read_of(progress(*both)).places == [("fakeaccount", {"orders", "refunds"})] * 2
