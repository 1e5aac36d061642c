"""The listener without Spark: events in, metrics out."""

import gc
import json
import logging
import threading
from types import SimpleNamespace as Event

import pytest
from progress_events import ID, REPORT, RUN, ended, offset, progress, source, started, went_on

from spark_azqueue.metrics import listener as listening
from spark_azqueue.metrics.activity import ENDED_AT_MOST
from spark_azqueue.metrics.listener import SCHEMA, AzQueueListener, line
from spark_azqueue.metrics.observers import observers_of
from spark_azqueue.metrics.query_metrics import QueryMetrics
from spark_azqueue.metrics.report import MOST_QUEUES_REPORTED, Counters


def test_the_last_moments_of_a_query_are_kept():
    listener = AzQueueListener(keep=3)
    started(listener)
    assert listener.latest("orders") is None
    for batch in range(5):
        went_on(listener, batch)

    assert listener.latest("orders").batch_id == 4
    assert [each["batch_id"] for each in listener.metrics("orders")] == [2, 3, 4]
    assert listener.queries(active=True) == ["orders"]
    ended(listener)
    assert listener.queries(active=True) == []
    assert listener.latest("orders").batch_id == 4


def test_a_query_that_was_there_before_the_listener_runs_too():
    listener = AzQueueListener()
    went_on(listener)
    assert listener.queries(active=True) == ["orders"]

    ended(listener, RUN)
    assert listener.queries(active=True) == []


def test_a_query_is_found_by_name_by_id_and_by_itself():
    listener = AzQueueListener()
    went_on(listener)
    nameless = "cccccccc-0000-0000-0000-000000000003"
    went_on(listener, name=None, id=nameless)

    newest = listener.latest("orders")
    assert newest is not None
    assert listener.latest(ID) is newest
    assert listener.latest(Event(name="orders", id=ID)) is newest
    assert listener.latest(nameless).query == nameless
    assert listener.latest(Event(name=None, id=nameless)).query == nameless
    assert listener.latest("unheard-of") is None
    assert [each["query"] for each in listener.metrics()] == ["orders", nameless]


def test_idle_queries_are_asked_for_their_own_progress():
    listener = AzQueueListener()
    idle = progress(source(startOffset=offset(2, orders=1), endOffset=offset(2, orders=1)))
    queries = [Event(lastProgress=Event(json=json.dumps(idle)))]
    asked = []

    def get(query_id):
        asked.append(query_id)
        return queries[-1]

    listener.onQueryIdle(Event(id=ID))  # no session: nothing to ask
    assert listener.metrics() == []
    listener.spark = Event(streams=Event(get=get))
    for _ in range(3):
        listener.onQueryIdle(Event(id=ID))
    assert asked == [ID] * 3
    assert [each["messages"] for each in listener.metrics()] == [0], "the same moment is kept once"

    for gone in (None, Event(), Event(lastProgress=None)):
        queries.append(gone)
        listener.onQueryIdle(Event(id=ID))
    assert len(listener.metrics()) == 1


def test_idle_hours_push_no_batch_out():
    listener = AzQueueListener(keep=3)
    started(listener)
    went_on(listener, 1)
    for hour in range(10, 20):
        report = REPORT | {"requests": {"dequeue": 3_600 * hour}}  # it polls
        idle = source(
            startOffset=offset(1, orders=32),
            endOffset=offset(1, orders=32),
            latestOffset=report,
        )
        took = {"triggerExecution": 200 + hour}
        moment = f"2026-11-21T{hour}:00:00.000Z"
        went_on(listener, 2, sources=[idle], timestamp=moment, durationMs=took)

    batch, newest = listener.metrics("orders")
    assert (batch["messages"], newest["messages"]) == (32, 0)
    assert newest["timestamp"] == "2026-11-21T19:00:00.000Z"


def test_other_peoples_queries_are_left_alone(caplog):
    listener = AzQueueListener()
    rate = {"startOffset": 1, "endOffset": 5, "latestOffset": 5, "numInputRows": 4}
    listener.onQueryProgress(Event(progress=Event(json=json.dumps(progress(rate)))))

    assert listener.queries() == []
    assert caplog.records == []


@pytest.mark.parametrize("text", ["", "{}", '{"sources": 5}', '{"sources": [{"endOffset": 5}]}'])
def test_a_listener_never_raises(text, caplog):
    listener = AzQueueListener()
    listener.onQueryProgress(Event(progress=Event(json=text)))
    ended(listener, "unheard-of")

    assert listener.metrics() == []


def test_it_does_not_grow_for_ever(monkeypatch):
    monkeypatch.setattr(listening, "QUERIES_AT_MOST", 3)
    listener = AzQueueListener()
    for n in range(6):
        started(listener, f"q{n}", f"run-{n}")
        went_on(listener, name=f"q{n}", runId=f"run-{n}")
    assert len(listener.queries()) == 6, "those that run are all kept"
    for n in (4, 1, 2, 5):
        ended(listener, f"run-{n}")

    assert listener.queries() == ["q0", "q3", "q5"]


def test_a_batch_is_a_line_in_the_log(caplog):
    caplog.set_level(logging.INFO, "spark_azqueue.metrics.listener")
    listener = AzQueueListener()
    went_on(listener)
    report = REPORT | {"counters": {"leases_lost": 2, "poison_moved": 1}}
    went_on(listener, 2, sources=[source(latestOffset=report)])
    went_on(listener, 3, sources=[source(endOffset=offset(1, orders=32))])  # idle: not worth one

    assert [record.getMessage() for record in caplog.records] == [
        "query 'orders' batch 1: 32 messages in 0.5 s (64/s); the oldest 7 s old;"
        " backlog orders 120, refunds 3",
        "query 'orders' batch 2: 32 messages in 0.5 s (64/s); the oldest 7 s old;"
        " backlog orders 120, refunds 3; leases_lost 2; poison_moved 1",
    ]


def test_a_line_says_what_is_known():
    little = QueryMetrics("q", "i", "r", "t", 7, 5, 2.0, 2.5, None, None, None, None, None, None)

    assert line(little) == "query 'q' batch 7: 5 messages in 2.0 s (2/s)"


def test_a_batch_that_its_sink_skipped_is_an_error_in_the_log(caplog):
    listener = AzQueueListener()
    started(listener)
    went_on(listener, sources=[source(numInputRows=0)])

    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "query 'orders': batch 1 had 32 messages, and no row of them was" in record.getMessage()


def delivered(listener, run, *totals):
    """A run whose counter rises to these."""
    started(listener, run=run)
    for batch, total in enumerate(totals):
        report = REPORT | {
            "counters": {"delivered": total},
            "deliveredByQueue": {"orders": total},
            "requests": {"dequeue": 10 * total, run: 1},
        }
        went_on(listener, batch, runId=run, sources=[source(latestOffset=report)])
    ended(listener, run)


def test_counters_add_up_over_the_runs_of_a_query():
    listener = AzQueueListener(keep=1)
    assert listener.totals("orders") is None
    for run, totals in enumerate([(30, 50), (50,), (100,), (0, 50)]):
        delivered(listener, f"run-{run}", *totals)

    totals = listener.totals("orders")
    assert totals.counters.delivered == 250
    assert totals.delivered_by_queue == {"orders": 250}
    assert totals.requests == {"dequeue": 2_500} | {f"run-{run}": 1 for run in range(4)}
    assert listener.totals(ID) == totals
    assert listener.latest("orders").counters.delivered == 50, "metrics are those of a run"
    assert totals.backlog == listener.latest("orders").backlog


def test_totals_of_a_spark_that_does_not_ask_the_source_are_unknown():
    listener = AzQueueListener()
    for run in ("one", "two"):
        went_on(listener, runId=run, sources=[source(latestOffset=None)])

    totals = listener.totals("orders")
    assert (totals.counters, totals.delivered_by_queue, totals.requests) == (None, None, None)


def test_totals_of_many_queues_stay_bounded():
    listener = AzQueueListener()
    for run in range(3):
        queues = {f"q{run}-{n}": 1 for n in range(80)}
        report = REPORT | {"deliveredByQueue": queues}
        went_on(listener, runId=f"run-{run}", sources=[source(latestOffset=report)])

    by_queue = listener.totals("orders").delivered_by_queue
    assert (len(by_queue), sum(by_queue.values())) == (MOST_QUEUES_REPORTED + 1, 240)


def test_totals_of_queries_that_are_dropped_are_dropped(monkeypatch):
    monkeypatch.setattr(listening, "QUERIES_AT_MOST", 0)
    listener = AzQueueListener()
    started(listener, run="one")
    went_on(listener, runId="one")
    went_on(listener, runId="two")
    ended(listener, "two")
    ended(listener, "one")
    assert listener.totals("orders") is None

    went_on(listener, runId="three")
    assert listener.totals("orders").counters.delivered == 64


def test_the_end_of_a_run_can_be_waited_for():
    listener = AzQueueListener()
    started(listener)
    query = Event(runId=RUN)
    assert not listener.wait_for_end(query, 0)
    response = []
    waits = threading.Thread(target=lambda: response.append(listener.wait_for_end(query, 60)))
    waits.start()
    ended(listener, exception="it failed")
    waits.join()

    assert response == [True]
    assert listener.states()["orders"].failed
    assert listener.wait_for_end(query, 0), "also later"
    assert not listener.wait_for_end(Event(runId="another"), 0)


def test_a_listener_observes_the_runs_of_its_session():
    class Gone:
        @property
        def runId(self):
            raise RuntimeError("its session has gone")

    listener = AzQueueListener()
    query = Event(runId=RUN)
    assert not listener.observes(query)
    started(listener)
    assert listener.observes(query)
    ended(listener)
    assert listener.observes(query)
    assert not listener.observes(Event(runId="another"))
    assert not listener.observes(Gone())


def test_a_listener_that_is_gone_is_not_waited_for():
    listener = AzQueueListener()
    started(listener)
    query = Event(runId=RUN)
    assert observers_of(query) == [listener]
    del listener
    gc.collect()

    assert observers_of(query) == []


def test_the_ends_of_runs_are_remembered_for_a_while(monkeypatch):
    monkeypatch.setattr(listening, "_ENDED_AT_MOST", 2)
    listener = AzQueueListener()
    for run in ("one", "two", "three"):
        ended(listener, run)

    known = [listener.wait_for_end(Event(runId=run), 0) for run in ("one", "two", "three")]
    assert known == [False, True, True]


def test_the_columns_are_the_metrics_in_their_order():
    columns = [part.split()[0] for part in SCHEMA.replace("string, bigint", "").split(", ")]

    assert columns == [*QueryMetrics.meanings(), *Counters.meanings()]


def test_it_can_be_asked_from_any_thread():
    listener = AzQueueListener(keep=5)
    wrong = []

    def ask():
        for _ in range(100):
            try:
                listener.metrics()
                listener.queries(active=True)
                listener.latest("q1")
            except Exception as error:  # noqa: BLE001 (the test tells)
                wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(100):
        started(listener, f"q{n % 7}", f"run-{n}")
        went_on(listener, n, name=f"q{n % 7}", runId=f"run-{n}")
        ended(listener, f"run-{n}")
    for thread in threads:
        thread.join()
    assert wrong == []


def session(checkpoint):
    query = Event(_jsq=Event(streamingQuery=lambda: Event(resolvedCheckpointRoot=checkpoint)))
    return Event(streams=Event(get=lambda _: query))


@pytest.mark.parametrize(
    ("folder", "warnings"),
    [
        ("file:/tmp/temporary-a79eb81d-7a03", 1),
        ("file:/tmp/temporary-a79eb81d-7a03/", 1),
        ("abfss://lake@shop.dfs.core.windows.net/checkpoints/orders", 0),
        ("file:/tmp/temporary-checkpoints/orders", 0),
    ],
)
def test_a_query_with_a_temporary_checkpoint_is_warned_about_once(caplog, folder, warnings):
    listener = AzQueueListener()
    listener.spark = session(lambda: folder)
    started(listener)
    for batch in range(3):
        went_on(listener, batch)
    ended(listener)

    told = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(told) == warnings
    assert all("query 'orders' has a temporary checkpoint" in each.message for each in told)


def test_queries_that_read_no_queue_are_not_warned_about(caplog):
    listener = AzQueueListener()
    listener.spark = session(lambda: "file:/tmp/temporary-1")
    started(listener)
    listener.onQueryProgress(Event(progress=Event(json=json.dumps(progress() | {"sources": []}))))
    ended(listener)
    went_on(listener)  # an event that comes late finds nothing of the run

    assert not caplog.records


def test_a_checkpoint_that_cannot_be_known_is_no_reason_to_warn(caplog):
    listener = AzQueueListener()
    listener.spark = session(lambda: 1 / 0)
    started(listener)
    went_on(listener)

    assert not [each for each in caplog.records if each.levelno == logging.WARNING]


class Plan:
    """A query whose plan can be seen, as in a classic session."""

    def __init__(self, plan: str) -> None:
        self._jsq = Event(streamingQuery=lambda: self)
        self.analyzedPlan = lambda: Event(toString=lambda: plan)


@pytest.mark.parametrize(
    ("plan", "told"),
    [("StreamingRelationV2 azqueue, org.…", {"orders": True}), ("StreamingRelationV2 rate", {})],
)
def test_a_query_that_reads_no_queue_is_not_told(plan, told):
    listener = AzQueueListener()
    listener.spark = Event(streams=Event(get=lambda _: Plan(plan)))
    started(listener)
    assert listener.activity() == told

    ended(listener)
    assert listener.activity() == dict.fromkeys(told, False)


def test_a_query_of_unknown_plan_is_told_until_its_progress_shows_no_queue():
    listener = AzQueueListener()
    started(listener)
    assert listener.activity() == {"orders": True}

    went_on(listener, sources=[{"description": "rate", "startOffset": 1, "endOffset": 2}])
    assert listener.activity() == {}
    ended(listener)
    assert listener.activity() == {}


def test_failures_are_counted_over_the_runs_of_a_query_and_a_stop_is_none():
    listener = AzQueueListener()
    for run in ("first", "second"):
        started(listener, run=run)
        ended(listener, run, exception="[STREAM_FAILED] a batch failed")
        assert listener.states()["orders"].failed
    started(listener, run="third")
    went_on(listener, runId="third")
    assert listener.states()["orders"][:3] == (True, False, 2)

    ended(listener, "third")
    assert listener.states()["orders"][:3] == (False, False, 2)
    assert listener.activity() == {"orders": False}


def test_the_start_of_a_run_is_that_of_the_newest(monkeypatch):
    listener = AzQueueListener()
    for now in (1000.0, 2000.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        started(listener, run=f"run at {now}")
        assert listener.states()["orders"].started == now
        ended(listener, f"run at {now}", exception="failed")


def test_a_run_before_the_listener_has_no_start():
    listener = AzQueueListener()
    went_on(listener)

    assert listener.states() == {"orders": (True, False, 0, None)}


def test_queries_that_ended_early_are_remembered_up_to_a_bound():
    listener = AzQueueListener()
    for number in range(ENDED_AT_MOST + 5):
        started(listener, f"query {number}", run=f"run {number}")
        ended(listener, f"run {number}", exception="failed")

    assert {state.failures for state in listener.states().values()} == {1}
    started(listener, "query 0")
    assert listener.states()["query 0"].failures == 0  # it was forgotten
    ended(listener)

    activity = listener.activity()
    assert len(activity) == ENDED_AT_MOST
    assert not any(activity.values())
    assert "query 104" in activity
