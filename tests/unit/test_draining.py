"""What a drain reads and deletes, when it ends, and what it says: with the real source."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from scheduled import Run, Scheduled, numbered

import spark_azqueue
from spark_azqueue import errors
from spark_azqueue.draining import DrainBar, drain
from spark_azqueue.source.left import Left, QueuesLeft
from spark_azqueue.supervisor import RunResult, run_until_done
from spark_azqueue.testing import FakeQueueService

QUEUE = "orders"


@pytest.fixture(params=["old", "new"])
def old(request: pytest.FixtureRequest) -> bool:
    """As Spark 4.0 and 4.1 run a query, or as 4.2 does."""
    return bool(request.param == "old")


@pytest.fixture(params=[False, True], ids=["without a log", "with a log"])
def has_log(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[False, True], ids=["uncounted", "counted"])
def is_counted(request: pytest.FixtureRequest) -> bool:
    """With the options of the source, so that it asks the queues."""
    return bool(request.param)


def drained(
    query: Scheduled, service: FakeQueueService, *, counted: bool = True, **more: Any
) -> RunResult:
    """Drain by the clock of the service."""
    clock = service.clock
    times = {"clock": clock.now, "now": clock.now, "sleep": clock.advance}
    return drain(query.start, query.options if counted else (), **(times | more))


def test_everything_is_read_and_deleted(
    service: FakeQueueService, *, old: bool, has_log: bool, is_counted: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    result = drained(query, service, counted=is_counted)

    assert result == RunResult(True, 0, None, "", 50, 0 if is_counted else None)
    assert query.counts() == dict.fromkeys(numbered(50), 1)
    assert service.count(QUEUE) == 0
    assert len(query.runs) == (4 if old else 1), "on 4.0 and 4.1 the last run deletes"


def test_an_empty_queue_takes_one_run(
    service: FakeQueueService, *, old: bool, is_counted: bool
) -> None:
    query = Scheduled(service, old=old)

    result = drained(query, service, counted=is_counted)

    assert (result.finished, result.messages, len(query.runs)) == (True, 0, 1)


def test_it_does_not_wait_for_what_a_busy_sender_puts(
    service: FakeQueueService, *, old: bool, has_log: bool, is_counted: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def send(run: int) -> None:
        service.clock.advance(10)
        service.put_many(QUEUE, numbered(20, f"new-{run}-"))

    query.before_commit = send
    result = drained(query, service, counted=is_counted)

    assert result.finished
    assert len(query.runs) <= (7 if old else 1)
    assert {body for body in query.counts() if body.startswith("m")} == set(numbered(50))
    left = {message.text for message in service.messages(QUEUE)}
    assert not left & set(numbered(50)), "all of them are deleted"
    assert max(query.counts().values()) == 1
    if is_counted:
        assert result.left == service.count(QUEUE) > 0
        assert result.reason


def test_a_query_that_fails_is_started_again(
    service: FakeQueueService, *, old: bool, has_log: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    waits: list[float] = []

    def fail(run: int) -> None:
        if run in (1, 2) if old else run < 2:
            raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service, sleep=waits.append, hidden=0)

    assert (result.finished, result.restarts, result.left) == (True, 2, 0)
    assert waits == [1, 2]
    assert query.counts() == dict.fromkeys(numbered(50), 1)


def test_it_gives_up_as_run_until_done_does(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(3))

    def fail(run: int) -> None:
        raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service, restarts=2)

    assert (result.finished, result.restarts, result.messages) == (False, 2, 0)
    assert result.left == 3
    assert result.explanation
    assert result.explanation.sentence == "the sink is down"


def test_a_batch_that_an_earlier_run_left_unfinished(
    service: FakeQueueService, *, old: bool, has_log: bool, is_counted: bool
) -> None:
    """A run that only replays, without rows if there is no log, is not the end."""
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    query.before_commit = _killed
    with pytest.raises(SystemExit):
        query.start().awaitTermination()
    query.before_commit = lambda run: None

    result = drained(query, service, counted=is_counted)

    assert result.finished
    assert query.counts() == dict.fromkeys(numbered(50), 1)
    assert service.count(QUEUE) == 0


def _killed(run: int) -> None:
    raise SystemExit


def _lease(service: FakeQueueService, seconds: int) -> None:
    """Another consumer leases all messages of the queue for so long."""
    other = Scheduled(service, old=True, visibilityTimeout=str(seconds))
    source = other.source()
    source.latest(None, None)
    source.close()  # what it returned stays leased


def test_messages_that_are_hidden_are_told(
    service: FakeQueueService, caplog: pytest.LogCaptureFixture, *, old: bool
) -> None:
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)
    service.put(QUEUE, "later", delay=600)
    service.put(QUEUE, "now")
    query = Scheduled(service, old=old)

    result = drained(query, service)

    assert (result.finished, result.messages, result.left) == (True, 1, 6)
    assert result.reason == "6 messages are left, hidden or new"
    assert "6 messages are left and hidden: another consumer leases them" in caplog.text


def test_it_waits_for_hidden_messages_if_asked_to(service: FakeQueueService, *, old: bool) -> None:
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)
    query = Scheduled(service, old=old)
    began = service.clock.now()

    result = drained(query, service, hidden=90)

    assert (result.finished, result.messages, result.left) == (True, 5, 0)
    assert 60 <= service.clock.now() - began <= 70


def test_it_waits_no_longer_than_asked_to(service: FakeQueueService, *, old: bool) -> None:
    service.put(QUEUE, "later", delay=600)
    query = Scheduled(service, old=old)
    began = service.clock.now()

    result = drained(query, service, hidden=90)

    assert (result.finished, result.messages, result.left) == (True, 0, 1)
    assert service.clock.now() - began == pytest.approx(90, abs=1)


def test_several_queues_and_patterns(service: FakeQueueService, *, old: bool) -> None:
    for name in ("load-1", "load-2"):
        service.create_queue(name)
        service.put_many(name, numbered(30, name))
    service.put_many(QUEUE, numbered(5))
    query = Scheduled(service, "orders,load-*", old=old, maxMessagesPerTrigger="20")

    result = drained(query, service)

    assert (result.finished, result.messages, result.left) == (True, 65, 0)


def test_counts_of_one_of_two_sources_end_nothing(service: FakeQueueService) -> None:
    """The queues of the options are empty at once; the query has another source."""
    service.create_queue("empty")
    query = Scheduled(service, old=True, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    runs: list[Run] = []

    def start() -> Run:
        runs.append(query.start())
        return runs[-1]

    class Two(list[Any]):
        """Progress events, each with a second source that is idle."""

    work = query.work

    def with_two(run: Run) -> None:
        work(run)
        for progress in run.recentProgress:
            (first,) = progress["sources"]
            idle = first | {"startOffset": first["endOffset"], "numInputRows": 0}
            progress["sources"].append(idle)

    query.work = with_two  # type: ignore[method-assign]
    result = drain(start, query.options | {"queue": "empty"})

    assert result.finished
    assert service.count(QUEUE) == 0
    assert len(runs) == 4


@pytest.mark.parametrize(("count", "newer"), [(50, 0), (40, 0), (40, 40)])
def test_a_run_that_somebody_stops_is_not_the_end(
    service: FakeQueueService, monkeypatch: pytest.MonkeyPatch, count: int, newer: int
) -> None:
    """On Spark 4.2 `stop` ends a run as its last batch does, whose messages it has leased."""
    query = Scheduled(service, old=False, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(count))
    service.clock.advance(30)
    work = query.work

    def stop(run: int) -> None:
        if run == 0 and query.rows:
            raise InterruptedError
        if run == 0:
            service.clock.advance(20)
            service.put_many(QUEUE, numbered(newer, "new-"))

    def stopped(run: Run) -> None:
        with contextlib.suppress(InterruptedError):
            work(run)

    query.before_commit = stop
    monkeypatch.setattr(query, "work", stopped)
    result = drained(query, service)

    assert (result.finished, result.left, len(query.runs)) == (True, 0, 2)
    assert query.counts() == dict.fromkeys(numbered(count) + numbered(newer, "new-"), 1)


def test_runs_that_tell_nothing_end_when_the_queues_are_read(
    service: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark.sql.streaming.numRecentProgressUpdates=0"""
    query = Scheduled(service, old=True, maxMessagesPerTrigger="10")
    service.put_many(QUEUE, numbered(50))
    service.clock.advance(30)
    monkeypatch.setattr(Run, "tell", lambda *_, **__: None)
    result = drained(query, service)

    assert (result.finished, result.left) == (True, 0)
    assert query.counts() == dict.fromkeys(numbered(50), 1)


@pytest.mark.parametrize("old_spark", [True, False])
def test_time_is_over_between_two_starts(service: FakeQueueService, *, old_spark: bool) -> None:
    query = Scheduled(service, old=old_spark, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def fail(run: int) -> None:
        service.clock.advance(50)
        raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service, within=60, first_wait=30)

    assert (result.finished, result.restarts, len(query.runs)) == (False, 0, 1)
    assert result.reason == "within=60 s is over: the next call resumes"


class Endless:
    """A query that does not end by itself."""

    recentProgress: tuple[()] = ()  # noqa: N815 (as Spark has it)

    def __init__(self) -> None:
        self.now, self.stopped = 0.0, False

    def awaitTermination(self, timeout: float) -> bool:
        self.now += timeout
        return False

    def stop(self) -> None:
        self.stopped = True


def test_a_query_is_stopped_when_the_time_is_over() -> None:
    query = Endless()

    result = drain(lambda: query, within=5.5, clock=lambda: query.now)

    assert (result.finished, query.stopped, query.now) == (False, True, 5.5)


def test_an_interrupt_stops_the_query() -> None:
    query = Endless()

    def interrupt(read: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain(lambda: query, bar=interrupt)
    assert query.stopped


class Silent:
    """A run of a query that says nothing of what it read, or always the same."""

    def __init__(self, *sources: dict[str, Any]) -> None:
        self.recentProgress = [
            {"runId": "1", "batchId": 1, "numInputRows": 0, "sources": [each]} for each in sources
        ]

    def awaitTermination(self, timeout: float) -> bool:
        return True


def test_two_runs_that_read_nothing_are_the_end() -> None:
    end = {"version": 1, "batch": 7, "account": "shop", "queues": {}}
    started: list[Silent] = []

    def start() -> Silent:
        started.append(Silent({"startOffset": None, "endOffset": end, "latestOffset": end}))
        return started[-1]

    result = drain(start)

    assert len(started) == 2
    assert result.finished
    assert result.reason == "two runs in a row read no message"


def test_a_first_run_on_an_empty_queue_is_the_end() -> None:
    """Spark 4.0 and 4.1 run a batch 0 without data, from nothing to the initial offset."""
    initial = {"version": 1, "batch": 0, "account": "shop", "queues": {}}
    started: list[Silent] = []

    def start() -> Silent:
        progress = {"startOffset": None, "endOffset": initial, "latestOffset": initial}
        started.append(Silent(progress))
        return started[-1]

    assert drain(start) == RunResult(True, 0, None, "", 0, None)
    assert len(started) == 1


def test_what_a_failed_run_gave_back_is_read_though_newer_messages_came_before_it(
    service: FakeQueueService, *, is_counted: bool
) -> None:
    query = Scheduled(service, old=True, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def fail(run: int) -> None:
        if run == 1:
            service.clock.advance(30)
            service.put_many(QUEUE, numbered(100, "new-"))
            service.clock.advance(30)
            raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service, counted=is_counted)

    assert (result.finished, result.restarts) == (True, 1)
    assert set(numbered(50)) <= query.counts().keys()


class Unanswered:
    """Queues that cannot be counted."""

    sources = 1
    closed = False

    def now(self) -> Left | None:
        raise errors.ServiceUnavailable("no answer")

    def unknown(self, places: Iterable[tuple[str, Iterable[str]]]) -> str:
        return ""

    def close(self) -> None:
        self.closed = True


class Whole(Unanswered):
    """Answers with the ages of the first message, one after another, in whole seconds."""

    def __init__(self, *ages: int | None) -> None:
        self.ages = list(ages)

    def now(self) -> Left | None:
        return Left(1, self.ages.pop(0))


def test_an_age_in_whole_seconds_may_be_too_low() -> None:
    """A message of just before the call is 8 s old by the service's count, 9.5 s after the call."""
    queues = Whole(0, 8, None, None, None)
    ends = [{"version": 1, "batch": number, "account": "shop", "queues": {}} for number in range(9)]
    started: list[Silent] = []
    times = iter([0.0, *[9.5] * 90])

    def start() -> Silent:
        number = len(started)
        first = {"startOffset": ends[number], "endOffset": ends[number + 1], "numInputRows": 1}
        first["endOffset"] = ends[number + 1] | {"queues": {"orders": {"messages": 1}}}
        started.append(Silent(first | {"latestOffset": ends[number + 1]}))
        return started[-1]

    result = drain(start, queues=queues, clock=lambda: next(times))

    assert result.reason == "two runs in a row read only messages that came after the call"
    assert len(started) == 3, "after the first one there was an older message"


def test_it_shows_how_far_it_is(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    shown: list[tuple[int, int | None]] = []

    drained(query, service, bar=lambda *numbers: shown.append(numbers))

    assert shown[-1] == (50, 50)
    assert shown == sorted(shown)


def test_a_bar_that_fails_ends_nothing(
    service: FakeQueueService, caplog: pytest.LogCaptureFixture, *, old: bool
) -> None:
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def closed(read: int, total: int | None) -> None:
        raise OSError("the terminal is gone")

    result = drained(query, service, bar=closed)

    assert (result.finished, result.restarts, result.messages) == (True, 0, 50)
    assert caplog.text.count("the progress is not shown any more: OSError: the terminal") == 1


def test_what_is_in_the_log_alone_is_read(service: FakeQueueService, *, is_counted: bool) -> None:
    query = Scheduled(service, old=True, has_log=True, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(100))
    drained(query, service)
    query.roll_back()

    result = drained(query, service, counted=is_counted)

    assert result.finished
    assert query.counts() == dict.fromkeys(numbered(100), 1)


PLAN = {"version": 3, "account": "shop", "log": "f" * 32, "issued": "2000-01-01T00:00:00Z"}


class Scripted:
    """Runs of old Spark with these ends of batches and rows, and then idle ones."""

    def __init__(self, *ends: tuple[dict[str, Any], int]) -> None:
        self.ends = [({"version": 1, "batch": 0, "account": "shop", "queues": {}}, 0), *ends]
        self.runs = 0

    def start(self) -> Silent:
        if self.runs > 50:
            pytest.fail("it does not end")
        self.runs += 1
        last = len(self.ends) - 1
        (start, _), (end, rows) = (
            self.ends[min(each, last)] for each in (self.runs - 1, self.runs)
        )
        told = {"startOffset": start, "endOffset": end, "latestOffset": end}
        run = Silent(told | {"numInputRows": rows if self.runs <= last else 0})
        run.recentProgress[0]["runId"] = str(self.runs)
        return run


class Always(Whole):
    """The same answer each time, or one after another."""

    def __init__(self, *answers: Left | None) -> None:
        self.answers = list(answers)

    def now(self) -> Left | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_a_plan_that_was_given_up_comes_again_though_the_queue_is_empty() -> None:
    again = {"queues": [], "messages": 5, "bytes": 1, "from": [1, "f" * 32, 0, 0, 5]}
    plans = [PLAN | {"batch": number, "slots": [again], "waiting": []} for number in range(2, 7)]
    query = Scripted(
        (PLAN | {"batch": 1, "slots": [{"queues": ["orders"]}]}, 0), *[(plan, 5) for plan in plans]
    )

    result = drain(query.start, queues=Always(Left(0, None)))

    assert (result.finished, result.messages, query.runs) == (True, 25, 7)


@pytest.mark.parametrize(("issued", "runs"), [("2000", 9), ("2999", 2)])
def test_plans_of_before_the_call_come_from_the_log(issued: str, runs: int) -> None:
    """So the ages in the queues say nothing of what is left there."""
    plan = PLAN | {"slots": [{"queues": ["orders"]}], "issued": f"{issued}-01-01T00:00:00Z"}
    query = Scripted(*[(plan | {"batch": number}, 5) for number in range(1, 9)])

    result = drain(query.start, queues=Always(Left(9, None)))

    assert (result.finished, query.runs) == (True, runs)


def _batch(number: int, **more: Any) -> tuple[dict[str, Any], int]:
    queues = {"orders": {"messages": 1}}
    return {"version": 1, "batch": number, "account": "shop", "queues": queues} | more, 1


def test_first_messages_that_were_not_seen_prove_nothing() -> None:
    query = Scripted(*map(_batch, range(1, 9)))

    result = drain(query.start, queues=Always(Left(9, None, all_seen=False)))

    assert (result.finished, query.runs) == (True, 9)


def test_queues_beyond_the_first_hundred_are_not_passed_over(service: FakeQueueService) -> None:
    for number in range(101):
        service.create_queue(f"load-{number:03}")
    service.put_many("load-100", numbered(100))
    query = Scheduled(service, "load-*", old=True, maxMessagesPerTrigger="20")

    assert drained(query, service).finished
    assert len(query.counts()) == 100


def test_messages_that_no_run_reads_end_it_unfinished() -> None:
    """They can be seen, so two runs without rows are not the end; nor does it go on for ever."""
    query = Scripted(*[(_batch(number)[0], 0) for number in range(1, 40)])

    result = drain(query.start, queues=Always(Left(9, 100)))

    assert (result.finished, query.runs) == (False, 10)
    assert result.reason.startswith("10 runs in a row read no message")


def test_a_failure_begins_the_count_of_runs_without_rows_anew(
    service: FakeQueueService, *, is_counted: bool
) -> None:
    """Without a log a failure is followed by a run without rows, that replays."""
    query = Scheduled(service, old=True)
    service.put_many(QUEUE, numbered(5))

    def fail(run: int) -> None:
        if run % 2 == 0 and run < 8:
            raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service, counted=is_counted)

    assert (result.finished, result.restarts) == (True, 4)
    assert query.counts() == dict.fromkeys(numbered(5), 1)


@pytest.mark.parametrize("hidden", [0, 90])
def test_a_batch_that_always_fails_is_given_up(service: FakeQueueService, hidden: float) -> None:
    """The runs between, which replay without rows, are no progress."""
    query = Scheduled(service, old=True)
    service.put_many(QUEUE, numbered(5))

    def fail(run: int) -> None:
        assert run < 50, "it does not end"
        if run % 2 == 0:
            raise RuntimeError("poison")

    query.before_commit = fail
    result = drained(query, service, hidden=hidden, restarts=5)

    assert (result.finished, result.restarts, str(result.error)) == (False, 5, "poison")


@pytest.mark.parametrize("hidden", [0, 90])
def test_a_busy_queue_with_a_hidden_message_is_left(
    service: FakeQueueService, hidden: float
) -> None:
    query = Scheduled(service, old=True, maxMessagesPerTrigger="20")
    service.put(QUEUE, "later", delay=6_000)
    service.put_many(QUEUE, numbered(50))

    def send(run: int) -> None:
        assert run < 50, "it does not end"
        service.clock.advance(10)
        service.put_many(QUEUE, numbered(20, f"new-{run}-"))

    query.before_commit = send

    assert drained(query, service, hidden=hidden).finished
    assert set(numbered(50)) <= query.counts().keys()


def test_more_runs_than_enough_end_it_too() -> None:
    """It went on behind the second one, to wait for what is hidden."""
    query = Scripted(*map(_batch, range(1, 90)))
    queues = Always(*[Left(9, None)] * 3, Left(9, 10**6), *[Left(9, None)] * 3)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    result = drain(query.start, queues=queues, hidden=20, sleep=sleep, clock=lambda: now[0])

    assert result.finished
    assert query.runs < 10


def test_messages_that_are_not_deleted_are_not_read_for_ever(
    service: FakeQueueService, *, old: bool, is_counted: bool
) -> None:
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20", deleteOnCommit="false")
    service.put_many(QUEUE, numbered(50))

    result = drained(query, service, counted=is_counted)

    assert max(query.counts().values()) == 1
    assert (result.finished, len(query.runs)) == (not old, 1)
    assert result.reason.startswith("deleteOnCommit=false") is old or result.left


def test_a_count_that_fails_once_does_not_end_the_wait(
    service: FakeQueueService, *, old: bool
) -> None:
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)
    query = Scheduled(service, old=old)
    counts = QueuesLeft([query.options])

    class FailsOnce(Unanswered):
        asked = 0

        def now(self) -> Left | None:
            self.asked += 1
            return None if self.asked == 2 else counts.now()

    result = drained(query, service, hidden=90, queues=FailsOnce())
    counts.close()

    assert (result.finished, result.messages) == (True, 5)


def test_hidden_messages_that_cannot_be_counted_leave_it_unfinished(
    service: FakeQueueService, *, old: bool
) -> None:
    query = Scheduled(service, old=old)

    result = drained(query, service, hidden=9, queues=Unanswered())

    assert not result.finished
    assert result.reason == "the queues could not be counted: hidden messages may be left"


def test_options_of_another_queue_are_told(service: FakeQueueService, *, old: bool) -> None:
    service.create_queue("empty")
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    result = drain(query.start, query.options | {"queue": "empty"})

    assert not result.finished
    assert "the query, which reads queues of 'fakeaccount' that they do not name" in result.reason


def test_options_of_another_account_are_told(service: FakeQueueService) -> None:
    queues = QueuesLeft({"secret.connectionString": service.connection_string, "queue": QUEUE})

    assert queues.unknown([("fakeaccount", ["orders"])]) == ""
    assert queues.unknown([("shop", [])]) == "an account other than 'fakeaccount'"
    queues.close()


@pytest.mark.parametrize("supervise", [drain, run_until_done])
def test_a_start_that_returns_no_query_is_refused(supervise: Any) -> None:
    with pytest.raises(TypeError, match="start returned NoneType: it must return the query"):
        supervise(lambda: None)


def test_a_start_that_returns_the_same_run_is_refused() -> None:
    class Named(Silent):
        runId = "a run"  # noqa: N815

    end = _batch(1)[0]
    told = {"startOffset": None, "endOffset": end, "latestOffset": end, "numInputRows": 1}
    same = Silent(told)
    for start in (lambda: same, lambda: Named(told)):
        with pytest.raises(ValueError, match="start returned the run of an earlier call"):
            drain(start)


def test_what_a_run_read_before_it_failed_counts(service: FakeQueueService) -> None:
    query = Scheduled(service, old=False, maxMessagesPerTrigger="10")
    service.put_many(QUEUE, numbered(50))
    batches: list[int] = []

    def fail(run: int) -> None:
        batches.append(run)
        if len(batches) == 4:
            raise RuntimeError("the sink is down")

    query.before_commit = fail

    assert drained(query, service).messages == 50


@pytest.mark.parametrize("options", ["orders", [["x"]], [None], 5, {5: "x"}], ids=str)
def test_what_cannot_be_options_is_refused(options: Any) -> None:
    with pytest.raises(TypeError, match=r"^expected (the|names of) options"):
        drain(lambda: pytest.fail("it started"), options)


def test_a_query_that_goes_on_is_stopped_before_a_restart() -> None:
    """One whose end could not be waited for."""
    lost = Endless()
    lost.awaitTermination = _lost  # type: ignore[method-assign]
    ends = iter([lost, Silent(), Silent()])

    result = drain(lambda: next(ends), sleep=lambda seconds: None)

    assert (result.restarts, lost.stopped) == (1, True)


def _lost(timeout: float) -> bool:
    raise ConnectionError("the session does not answer")


def test_a_query_that_does_not_stop_ends_the_time_all_the_same() -> None:
    class Stuck(Endless):
        def stop(self) -> None:
            raise TimeoutError("spark.sql.streaming.stopTimeout")

    query = Stuck()
    result = drain(lambda: query, within=5, clock=lambda: query.now)

    assert result.reason.startswith("within=5 s is over")
    assert result.error is None


def test_damaged_progress_ends_nothing() -> None:
    query = Scripted(_batch(1, report={"at": "x"}), _batch(2, report=[1]), _batch(3, oldest=[]))

    result = drain(query.start)

    assert (result.finished, result.restarts) == (True, 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_of_a_terminal_is_one_line() -> None:
    stream = Terminal()
    bar = DrainBar(stream)
    for read in (0, 1_000, 2_000):
        bar(read, 2_000)
    bar.close()

    first, second, third = stream.getvalue().split("\r")[1:]
    assert first == f"[{' ' * 40}] 0 of 2,000"
    assert second == f"[{'#' * 20}{' ' * 20}] 1,000 of 2,000"
    assert third == f"[{'#' * 40}] 2,000 of 2,000\n"


def test_the_bar_of_a_job_is_a_line_for_each_tenth() -> None:
    stream = io.StringIO()
    bar = DrainBar(stream)
    for read in range(0, 1_001, 10):
        bar(read, 1_000)
    bar(3, None)

    assert len(stream.getvalue().splitlines()) == 12
    assert stream.getvalue().endswith("3 messages read\n")


def test_without_a_stream_there_is_no_bar_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with pythonw: the error of the start is the one to see."""
    monkeypatch.setattr(sys, "stderr", None)
    bar = DrainBar()
    bar(7, 5)
    bar.close()


def test_the_bar_of_more_messages_than_were_counted() -> None:
    stream = io.StringIO()
    DrainBar(stream)(7, 5)
    assert stream.getvalue().endswith("] 7 of 7\n")


def test_queues_that_do_not_answer_cost_the_count_alone(
    service: FakeQueueService, caplog: pytest.LogCaptureFixture, *, old: bool
) -> None:
    query, queues = Scheduled(service, old=old), Unanswered()
    service.put_many(QUEUE, numbered(5))

    result = drain(query.start, queues=queues)

    assert result == RunResult(True, 0, None, "", 5, None)
    assert (
        "what the queues hold is not known: [AZQUEUE_SERVICE_UNAVAILABLE] no answer" in caplog.text
    )
    assert queues.closed


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hidden": -1.0}, "hidden=-1.0: expected 0 or more seconds"),
        ({"hidden": float("nan")}, "hidden=nan"),
        ({"hidden": 5.0}, "'hidden' needs the options of the source"),
        ({"within": 0.0}, "within=0.0: expected more than 0 seconds"),
        ({"within": float("nan")}, "within=nan"),
        ({"restarts": -1}, "none may be negative"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        drain(lambda: pytest.fail("it started"), **options)


def test_bad_options_are_refused_before_anything_runs() -> None:
    with pytest.raises(errors.InvalidOption, match="queue"):
        drain(lambda: pytest.fail("it started"), {"secret.connectionString": "x", "quue": "a"})


def test_a_supervisor_says_that_an_old_spark_leaves_messages(
    service: FakeQueueService, caplog: pytest.LogCaptureFixture, *, old: bool
) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(5))

    result = run_until_done(query.start)

    assert result.finished
    said = "the 5 messages of the last batch stay in the queue, leased"
    assert result.reason.startswith(said) is old
    assert (said in caplog.text) is old
    assert run_until_done(query.start).reason == "", "an idle run deletes them"
    assert service.count(QUEUE) == 0


@pytest.mark.parametrize(("version", "says"), [("4.1.4", True), ("4.2.1", False)])
def test_a_run_that_only_repeats_a_batch_leaves_messages_on_an_old_spark(
    service: FakeQueueService, monkeypatch: pytest.MonkeyPatch, version: str, *, says: bool
) -> None:
    def fails_once(run: int) -> None:
        if run == 0:
            raise RuntimeError("the sink failed")

    monkeypatch.setattr("pyspark.__version__", version)
    query = Scheduled(service, old=True, maxMessagesPerTrigger="5")
    query.before_commit = fails_once
    service.put_many(QUEUE, numbered(8))

    result = run_until_done(query.start, sleep=lambda _: None)

    assert (result.finished, result.restarts) == (True, 1)
    assert service.count(QUEUE) > 0
    assert ("there may be more" in result.reason) is says


def test_it_is_public() -> None:
    assert spark_azqueue.drain is drain
