"""What a drain reads and deletes, when it ends, and what it says: with the real source."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from typing import Any

import pytest
from accounts import account_of
from queues import OneQueue
from refs import ORDERS
from scheduled import Run, Scheduled, numbered

import spark_azqueue
from spark_azqueue import errors
from spark_azqueue.running.draining import DrainBar, DrainResult, drain
from spark_azqueue.running.supervisor import run_until_done
from spark_azqueue.service.messages import Lease
from spark_azqueue.source.driver.left import QueuesLeft, SourceLeft
from spark_azqueue.testing import FakeQueueService, Fault

QUEUE = "orders"


@pytest.fixture(params=["old", "new"])
def old(request: pytest.FixtureRequest) -> bool:
    """As Spark 4.0 and 4.1 run a query, or as 4.2 does."""
    return bool(request.param == "old")


@pytest.fixture(params=[False, True], ids=["without a log", "with a log"])
def has_log(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def drained(query: Scheduled, service: FakeQueueService, **more: Any) -> DrainResult:
    """Drain by the clock of the service."""
    clock = service.clock
    options = more.pop("options", query.options)
    return drain(query.start, options, **({"clock": clock.now, "sleep": clock.advance} | more))


def ended(read: int, *, others: int = 0, restarts: int = 0) -> dict[str, Any]:
    """What a drain says that has finished."""
    return {
        "finished": True,
        "restarts": restarts,
        "read": read,
        "deleted": read,
        "left_visible": 0,
        "left_hidden": 0,
        "others": others,
    }


def said(result: DrainResult, *names: str) -> dict[str, Any]:
    return {name: getattr(result, name) for name in names or ended(0)}


def test_everything_is_read_and_deleted(
    service: FakeQueueService, *, old: bool, has_log: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    result = drained(query, service)

    assert result == DrainResult(True, 0, None, "", 50, 50, 0, 0, 0, 0)
    assert query.counts() == dict.fromkeys(numbered(50), 1)
    assert service.count(QUEUE) == 0
    assert len(query.runs) == (4 if old else 1), "on 4.0 and 4.1 the last run deletes"


def test_an_empty_queue_takes_one_run(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old)

    assert said(drained(query, service)) == ended(0)
    assert len(query.runs) == 1


@pytest.mark.parametrize("arrive", [5, 40])
def test_it_does_not_wait_for_what_a_busy_sender_puts(
    service: FakeQueueService, arrive: int, *, old: bool, has_log: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def send(run: int) -> None:
        assert run < 20, "it does not end"
        service.clock.advance(10)
        service.put_many(QUEUE, numbered(arrive, f"new-{run}-{len(query.rows)}-"))

    query.before_commit = send
    result = drained(query, service)

    assert said(result, "finished", "left_visible", "left_hidden") == {
        "finished": True,
        "left_visible": 0,
        "left_hidden": 0,
    }
    assert {body for body in query.counts() if body.startswith("m")} == set(numbered(50))
    left = {message.text for message in service.messages(QUEUE)}
    assert not left & set(numbered(50)), "all of them are deleted"
    assert max(query.counts().values()) == 1
    unread = left - query.counts().keys()
    assert result.others == len(unread)
    assert result.read == len(query.rows)


def test_a_query_that_fails_is_started_again(
    service: FakeQueueService, *, old: bool, has_log: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def fail(run: int) -> None:
        if run in (1, 2) if old else run < 2:
            raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service)

    assert said(result) == ended(50, restarts=2)
    assert query.counts() == dict.fromkeys(numbered(50), 1)


def test_it_gives_up_as_run_until_done_does(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(3))

    def fail(run: int) -> None:
        raise RuntimeError("the sink is down")

    query.before_commit = fail
    result = drained(query, service, restarts=2)

    assert (result.finished, result.restarts, result.read) == (False, 2, 0)
    assert (result.left_hidden or 0) + (result.left_visible or 0) == 3
    assert result.explanation
    assert result.explanation.sentence == "the sink is down"


def leave_a_batch_unfinished(query: Scheduled) -> None:
    """One run that is killed when it has read the rows of its batch."""

    def killed(run: int) -> None:
        raise SystemExit

    query.before_commit = killed
    with pytest.raises(SystemExit):
        query.start().awaitTermination()
    query.before_commit = lambda run: None


def test_a_batch_that_an_earlier_run_left_unfinished(
    service: FakeQueueService, *, old: bool, has_log: bool
) -> None:
    """A run that only replays, without rows if there is no log, is not the end."""
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    leave_a_batch_unfinished(query)

    assert said(drained(query, service)) == ended(50)
    assert query.counts() == dict.fromkeys(numbered(50), 1)


def killed_while_it_dequeues(query: Scheduled, run: int) -> None:
    """In this run the source's process is killed before Spark writes its offset."""
    work = query.work

    def dies(each: Run) -> None:
        if each.number != run:
            return work(each)
        source = query.source()
        source.latest(None, None)
        source.close = lambda: None  # type: ignore[method-assign]
        raise RuntimeError("java.io.EOFException")

    query.work = dies  # type: ignore[method-assign]


@pytest.mark.parametrize("run", [0, 1])
def test_what_a_killed_process_had_leased_is_waited_for(
    service: FakeQueueService, run: int, *, old: bool, has_log: bool
) -> None:
    """Nothing tells of it but the number that the service counts."""
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def fail(number: int) -> None:
        if number == 0 and run == 1:
            raise RuntimeError("once")

    query.before_commit = fail
    killed_while_it_dequeues(query, run)
    began = service.clock.now()

    result = drained(query, service)

    assert said(result, "finished", "read", "left_visible", "left_hidden") == {
        "finished": True,
        "read": 50,
        "left_visible": 0,
        "left_hidden": 0,
    }
    assert query.counts() == dict.fromkeys(numbered(50), 1)
    assert service.count(QUEUE) == 0
    waited = service.clock.now() - began
    assert waited <= 90, "one lease"
    assert waited >= 60 or has_log, "what is in the log already is delivered at once"


def test_leases_of_a_run_that_died_before_the_call_are_waited_for(
    service: FakeQueueService, *, old: bool
) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)
    service.put(QUEUE, "later", delay=600)
    service.put(QUEUE, "now")
    began = service.clock.now()

    result = drained(query, service)

    assert said(result) == ended(6, others=1)
    assert 60 <= service.clock.now() - began <= 130, "what is delayed may be leased by the last run"


@pytest.mark.parametrize("kind", ["reply_lost", "error_500"])
def test_what_a_dequeue_without_an_answer_leased_is_waited_for(
    service: FakeQueueService, kind: str
) -> None:
    """No batch of the run has a message of it, and it ends as if the queue were empty."""
    query = Scheduled(service, old=False)
    service.put_many(QUEUE, numbered(5))
    service.faults.add(Fault("dequeue", kind, times=1))

    assert said(drained(query, service)) == ended(5)
    assert service.count(QUEUE) == 0


def test_they_are_not_if_that_takes_too_long(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old, visibilityTimeout="2 hours")
    service.put_many(QUEUE, numbered(5))
    _lease(service, 7_200)
    began = service.clock.now()

    result = drained(query, service)

    assert said(result, "finished", "read", "left_visible", "left_hidden", "others") == {
        "finished": False,
        "read": 0,
        "left_visible": 0,
        "left_hidden": 5,
        "others": 0,
    }
    assert result.reason.startswith("5 messages may be hidden by leases of runs that failed")
    assert 590 <= service.clock.now() - began <= 600


def test_it_waits_for_none_if_told_so(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)
    began = service.clock.now()

    result = drained(query, service, hidden=0)

    assert (result.finished, result.left_hidden) == (False, 5)
    assert service.clock.now() == began


def _lease(service: FakeQueueService, seconds: int) -> None:
    """A run that dies leases all messages of the queue for so long."""
    other = Scheduled(service, old=True, visibilityTimeout=str(seconds))
    source = other.source()
    source.latest(None, None)
    source.consumer.close()  # as if a batch ran: what it returned stays leased


def _renew(service: FakeQueueService, seconds: int) -> None:
    """As the source's process does while a batch runs: the receipts in the checkpoint are dead."""
    leased = [each for each in service.messages(QUEUE) if not each.visible]
    queue = OneQueue(account_of(service.connection_string), ORDERS)
    for each in leased:
        queue.update(Lease(queue.ref, each.id, each.receipt), seconds)


@pytest.mark.parametrize("fails", [True, False])
def test_leases_that_a_slow_batch_renewed_are_waited_for(
    service: FakeQueueService, *, fails: bool
) -> None:
    """They last longer than those of a dequeue. (On 4.2 and newer the source waits for them.)"""
    query = Scheduled(service, old=True, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(20))

    def slow(run: int) -> None:
        if run == 0:
            service.clock.advance(30)
            _renew(service, 120)
            service.clock.advance(10)
            if fails:
                raise RuntimeError("the source's process was killed")

    query.before_commit = slow
    result = drained(query, service)

    assert (result.finished, result.left_visible, result.left_hidden) == (True, 0, 0)
    assert query.counts().keys() == set(numbered(20))
    assert service.count(QUEUE) == 0


def test_settings_of_the_queue_say_how_long_a_run_before_may_have_leased(
    service: FakeQueueService, *, old: bool
) -> None:
    service.set_metadata(QUEUE, {"defaulttimeout": "300"})
    query = Scheduled(service, old=old, settingsFromQueue="true")
    service.put_many(QUEUE, numbered(5))
    _lease(service, 300)

    assert said(drained(query, service)) == ended(5)


def test_a_queue_that_the_query_creates_is_empty(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, "new", old=old, createQueue="true")

    assert said(drained(query, service)) == ended(0)


def test_it_waits_for_all_hidden_messages_if_asked_to(
    service: FakeQueueService, *, old: bool
) -> None:
    service.put(QUEUE, "later", delay=80)
    query = Scheduled(service, old=old)
    began = service.clock.now()

    assert said(drained(query, service, hidden=90)) == ended(1)
    assert 80 <= service.clock.now() - began <= 90


def test_it_waits_no_longer_than_asked_to(service: FakeQueueService, *, old: bool) -> None:
    service.put(QUEUE, "later", delay=600)
    query = Scheduled(service, old=old)
    began = service.clock.now()

    assert said(drained(query, service, hidden=90)) == ended(0, others=1)
    assert service.clock.now() - began == pytest.approx(90, abs=1)


def test_several_queues_and_patterns(service: FakeQueueService, *, old: bool) -> None:
    for name in ("load-1", "load-2"):
        service.create_queue(name)
        service.put_many(name, numbered(30, name))
    service.put_many(QUEUE, numbered(5))
    query = Scheduled(service, "orders,load-*", old=old, maxMessagesPerTrigger="20")

    assert said(drained(query, service)) == ended(65)


def test_queues_beyond_the_first_hundred_are_not_passed_over(service: FakeQueueService) -> None:
    for number in range(101):
        service.create_queue(f"load-{number:03}")
    service.put_many("load-100", numbered(100))
    query = Scheduled(service, "load-*", old=True, maxMessagesPerTrigger="20")

    assert said(drained(query, service)) == ended(100)


def test_a_queue_that_strict_priority_does_not_reach_is_named(
    service: FakeQueueService, *, old: bool
) -> None:
    service.create_queue("later")
    service.put_many("later", numbered(20))
    query = Scheduled(
        service, "orders,later", old=old, queuePriority="strict", maxMessagesPerTrigger="20"
    )

    def send(run: int) -> None:
        assert run < 20, "it does not end"
        service.clock.advance(10)
        service.put_many(QUEUE, numbered(40, f"new-{run}-{len(query.rows)}-"))

    send(0)
    service.clock.advance(10)
    query.before_commit = send
    result = drained(query, service)

    assert result.finished is not old
    if old:
        assert (result.left_visible, result.others) == (20, 160)
        assert "read none of the messages in 'later' that were there at the call" in result.reason
        assert "with queuePriority=strict, 'orders' is read first" in result.reason
    else:
        assert set(numbered(20)) <= query.counts().keys()


def test_fewer_messages_than_minMessagesPerTrigger_are_read(
    service: FakeQueueService, *, old: bool, has_log: bool
) -> None:
    query = Scheduled(service, old=old, has_log=has_log, minMessagesPerTrigger="100")
    service.put_many(QUEUE, numbered(20))

    assert said(drained(query, service)) == ended(20)


def test_a_message_that_is_not_deleted_counts_when_it_was_delivered(
    service: FakeQueueService, *, old: bool
) -> None:
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20", deleteOnCommit="false")
    service.put_many(QUEUE, numbered(50))

    result = drained(query, service)

    assert query.counts() == dict.fromkeys(numbered(50), 1)
    assert said(result) == ended(50, others=50) | {"deleted": 0}


def test_a_message_that_settle_puts_off_again_and_again_does_not_hold_it_up(
    service: FakeQueueService, *, old: bool
) -> None:
    query = Scheduled(service, old=old, visibilityTimeout="1", deleteOnCommit="false")
    service.put_many(QUEUE, numbered(5))

    def put_off(run: int) -> None:
        assert run < 20, "it does not end"
        service.clock.advance(2)

    query.before_commit = put_off
    result = drained(query, service)

    assert (result.finished, result.left_visible, result.others) == (True, 0, 5)


def test_the_options_of_each_source_are_needed(service: FakeQueueService) -> None:
    query = Scheduled(service, old=True)
    service.put_many(QUEUE, numbered(5))
    work = query.work

    def with_two(run: Run) -> None:
        work(run)
        for progress in run.recentProgress:
            (first,) = progress["sources"]
            progress["sources"].append(first | {"startOffset": first["endOffset"]})

    query.work = with_two  # type: ignore[method-assign]

    result = drained(query, service)

    assert not result.finished
    assert (
        "the query has 2 sources that read queues, and drain has the options of 1" in result.reason
    )


@pytest.mark.parametrize(("count", "newer"), [(50, 0), (40, 0), (40, 40)])
def test_a_run_that_is_stopped_is_not_the_end(
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

    assert said(drained(query, service)) == ended(count + newer)
    assert query.counts() == dict.fromkeys(numbered(count) + numbered(newer, "new-"), 1)


def test_runs_that_report_no_progress_leave_it_unfinished(
    service: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark.sql.streaming.numRecentProgressUpdates=0"""
    query = Scheduled(service, old=True, maxMessagesPerTrigger="10")
    service.put_many(QUEUE, numbered(50))
    monkeypatch.setattr(Run, "tell", lambda *_, **__: None)

    result = drained(query, service)

    assert not result.finished
    assert "is spark.sql.streaming.numRecentProgressUpdates 0" in result.reason


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


def test_what_came_back_behind_newer_messages_is_read(service: FakeQueueService) -> None:
    query = Scheduled(service, old=True, maxMessagesPerTrigger="20", visibilityTimeout="30")
    service.put_many(QUEUE, numbered(20))
    killed_while_it_dequeues(query, 0)
    query.before_commit = lambda run: service.clock.advance(2)

    def sleep(seconds: float) -> None:
        service.clock.advance(seconds)
        service.put_many(QUEUE, numbered(20, f"new-{service.clock.now()}-"))

    result = drained(query, service, sleep=sleep)

    assert (result.finished, result.left_visible, result.left_hidden) == (True, 0, 0)
    assert set(numbered(20)) <= query.counts().keys()
    assert not set(numbered(20)) & {message.text for message in service.messages(QUEUE)}


def test_a_run_that_is_stopped_and_the_one_that_repeats_its_batch_are_not_two_in_vain(
    service: FakeQueueService, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Scheduled(service, old=True, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(60))
    work = query.work

    def stop(run: int) -> None:
        if run == 0:
            raise InterruptedError

    def stopped(run: Run) -> None:
        with contextlib.suppress(InterruptedError):
            work(run)

    query.before_commit = stop
    monkeypatch.setattr(query, "work", stopped)

    assert said(drained(query, service)) == ended(60)


def test_small_batches_reach_what_a_look_shows_behind_newer_messages(
    service: FakeQueueService,
) -> None:
    query = Scheduled(service, old=True, maxMessagesPerTrigger="5")
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)
    service.clock.advance(59)
    began = service.clock.now()

    def arrive(seconds: float) -> None:
        service.clock.advance(0.4)
        service.put_many(QUEUE, numbered(20, f"new-{service.clock.now()}-"))
        service.clock.advance(seconds)

    result = drained(query, service, sleep=arrive)

    assert service.clock.now() > began
    assert (result.finished, result.left_visible) == (True, 0)
    assert set(numbered(5)) <= query.counts().keys()


def test_what_may_be_of_the_call_is_not_called_others(service: FakeQueueService) -> None:
    query = Scheduled(service, old=True)
    service.put_many(QUEUE, numbered(50))
    query.work = lambda run: None  # type: ignore[method-assign]

    result = drained(query, service)

    assert (result.finished, result.left_visible, result.others) == (False, 32, None)


def test_time_is_over_while_it_waits(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(5))
    _lease(service, 60)

    result = drained(query, service, within=30)

    assert (result.finished, result.left_hidden) == (False, 5)
    assert result.reason.startswith("within=30 s is over")


class Endless:
    """A query that does not end by itself."""

    recentProgress: tuple[()] = ()  # noqa: N815 (as Spark has it)

    def __init__(self, clock: Any = None) -> None:
        self.now, self.stopped = 0.0, False

    def awaitTermination(self, timeout: float) -> bool:
        self.now += timeout
        return False

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def options(service: FakeQueueService) -> dict[str, str]:
    return {"secret.connectionString": service.connection_string, "queue": QUEUE}


def test_a_query_is_stopped_when_the_time_is_over(options: dict[str, str]) -> None:
    query = Endless()

    result = drain(lambda: query, options, within=5.5, clock=lambda: query.now)

    assert (result.finished, query.stopped, query.now) == (False, True, 5.5)


def test_a_query_that_does_not_stop_ends_the_time_all_the_same(options: dict[str, str]) -> None:
    class Stuck(Endless):
        def stop(self) -> None:
            raise TimeoutError("spark.sql.streaming.stopTimeout")

    query = Stuck()
    result = drain(lambda: query, options, within=5, clock=lambda: query.now)

    assert result.reason.startswith("within=5 s is over")
    assert result.error is None


def test_an_interrupt_stops_the_query(options: dict[str, str]) -> None:
    query = Endless()

    def interrupt(read: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drain(lambda: query, options, bar=interrupt)
    assert query.stopped


def test_a_query_that_goes_on_is_stopped_before_a_restart(
    service: FakeQueueService, options: dict[str, str]
) -> None:
    """One whose end could not be waited for."""
    lost = Endless()

    def no_answer(timeout: float) -> bool:
        raise ConnectionError("the session does not answer")

    lost.awaitTermination = no_answer  # type: ignore[method-assign]
    query = Scheduled(service, old=False)
    ends = iter([lost, query.start()])

    result = drain(lambda: next(ends), options, sleep=lambda seconds: None)

    assert (result.finished, result.restarts, lost.stopped) == (True, 1, True)


class Trigger:
    def __init__(self, text: str) -> None:
        self.text = text

    def streamingQuery(self) -> Trigger:
        return self

    def trigger(self) -> Trigger:
        return self

    def toString(self) -> str:
        return self.text


@pytest.mark.parametrize(
    "trigger", ["OneTimeTrigger", "ProcessingTimeTrigger(0)", "ContinuousTrigger(1000)", "New"]
)
def test_any_other_trigger_is_refused(options: dict[str, str], trigger: str) -> None:
    query = Endless()
    query._jsq = Trigger(trigger)  # type: ignore[attr-defined]

    with pytest.raises(ValueError, match=r"has the trigger .*: start it with \.trigger\(availab"):
        drain(lambda: query, options)
    assert query.stopped


def test_the_right_to_look_at_the_queue_is_needed_at_the_call(service: FakeQueueService) -> None:
    options = {"accountUrl": service.url, "queue": QUEUE, "sasToken": service.sas(letters="pu")}

    with pytest.raises(errors.AccessDenied, match="drain has to see what the queues hold"):
        drain(lambda: pytest.fail("it started"), options)


def test_a_queue_that_does_not_exist_is_said_at_the_call(options: dict[str, str]) -> None:
    with pytest.raises(errors.QueueNotFound, match="'missing'"):
        drain(lambda: pytest.fail("it started"), options | {"queue": "missing"})


def test_queues_that_do_not_answer_later_leave_it_unfinished(
    service: FakeQueueService, monkeypatch: pytest.MonkeyPatch, *, old: bool
) -> None:
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(5))
    look, looks = SourceLeft.look, iter([True])

    def once(source: SourceLeft) -> Any:
        if next(looks, False):
            return look(source)
        raise errors.ServiceUnavailable("no answer")

    monkeypatch.setattr(SourceLeft, "look", once)
    result = drained(query, service)

    assert (result.finished, result.read, result.left_visible) == (False, 5, None)
    assert result.reason.startswith("the queues do not show what is left: ")
    assert "no answer" in result.reason


def test_what_a_failed_run_gave_back_is_read_though_newer_messages_came_before_it(
    service: FakeQueueService,
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
    result = drained(query, service)

    assert (result.finished, result.restarts) == (True, 1)
    assert set(numbered(50)) <= query.counts().keys()


@pytest.mark.parametrize("supervise", ["drain", "run_until_done"])
def test_a_batch_that_its_sink_skipped_is_named_at_once(
    service: FakeQueueService,
    caplog: pytest.LogCaptureFixture,
    supervise: str,
    *,
    old: bool,
    has_log: bool,
) -> None:
    """A new checkpoint with an old output: nothing more is read, and nothing is called finished."""
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    query.skips = lambda batch: batch == 1

    result = drained(query, service) if supervise == "drain" else run_until_done(query.start)

    assert not result.finished
    assert "batch 0 had 20 messages, and no row of them was read: the sink" in result.reason
    assert caplog.text.count("no row of them was read") >= 1
    assert len(query.runs) == 1
    if has_log:
        assert "They are in the write-ahead log, batch 1: read them with readLog" in result.reason
    elif old:
        assert service.count(QUEUE) == 50, "not deleted before it is said"
        assert "Until then they are in the queue" in result.reason
    else:
        assert "Without a write-ahead log they are deleted" in result.reason


def test_a_batch_that_is_repeated_may_be_skipped(
    service: FakeQueueService, *, old: bool, has_log: bool
) -> None:
    """The sink had it before the driver was killed; without a log its messages come again."""
    query = Scheduled(service, old=old, has_log=has_log, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    leave_a_batch_unfinished(query)
    query.skips = lambda batch: batch == 1

    assert drained(query, service).finished


def test_what_is_in_the_log_alone_is_read(service: FakeQueueService) -> None:
    query = Scheduled(service, old=True, has_log=True, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(100))
    drained(query, service)
    query.roll_back()

    assert drained(query, service).finished
    assert query.counts() == dict.fromkeys(numbered(100), 1)


@pytest.mark.parametrize("times", [4, 1])
def test_a_failure_begins_the_count_of_runs_without_rows_anew(
    service: FakeQueueService, times: int
) -> None:
    """Without a log a failure is followed by a run without rows, that replays."""
    query = Scheduled(service, old=True)
    service.put_many(QUEUE, numbered(5))

    def fail(run: int) -> None:
        if run % 2 == 0 and run < 2 * times:
            raise RuntimeError("the sink is down")

    query.before_commit = fail

    assert said(drained(query, service)) == ended(5, restarts=times)
    assert query.counts() == dict.fromkeys(numbered(5), 1)


def test_a_batch_that_always_fails_is_given_up(service: FakeQueueService) -> None:
    """The runs between, which replay without rows, are no progress."""
    query = Scheduled(service, old=True)
    service.put_many(QUEUE, numbered(5))

    def fail(run: int) -> None:
        assert run < 50, "it does not end"
        if run % 2 == 0:
            raise RuntimeError("poison")

    query.before_commit = fail
    result = drained(query, service, restarts=5)

    assert (result.finished, result.restarts, str(result.error)) == (False, 5, "poison")


def test_options_of_another_queue_are_told(service: FakeQueueService, *, old: bool) -> None:
    service.create_queue("empty")
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    result = drained(query, service, options=query.options | {"queue": "empty"})

    assert not result.finished
    assert "the query, which reads queues of 'fakeaccount' that they do not name" in result.reason


def test_options_of_another_account_are_told(options: dict[str, str]) -> None:
    queues = QueuesLeft(options)

    assert queues.unknown([("fakeaccount", ["orders"])]) == ""
    assert queues.unknown([("shop", [])]) == "an account other than 'fakeaccount'"
    queues.close()


@pytest.mark.parametrize("supervise", [drain, run_until_done])
def test_a_start_that_returns_no_query_is_refused(
    supervise: Callable[..., Any], options: dict[str, str]
) -> None:
    arguments = [options] if supervise is drain else []
    with pytest.raises(TypeError, match="start returned NoneType: it must return the query"):
        supervise(lambda: None, *arguments)


def test_a_start_that_returns_the_same_run_is_refused(
    service: FakeQueueService, options: dict[str, str]
) -> None:
    query = Scheduled(service, old=True, maxMessagesPerTrigger="5")
    service.put_many(QUEUE, numbered(10))
    same = query.start()

    with pytest.raises(ValueError, match="start returned the run of an earlier call"):
        drain(lambda: same, options)


def test_what_a_run_read_before_it_failed_counts(service: FakeQueueService) -> None:
    query = Scheduled(service, old=False, maxMessagesPerTrigger="10")
    service.put_many(QUEUE, numbered(50))
    batches: list[int] = []

    def fail(run: int) -> None:
        batches.append(run)
        if len(batches) == 4:
            raise RuntimeError("the sink is down")

    query.before_commit = fail

    assert drained(query, service).read == 50


@pytest.mark.parametrize("options", ["orders", [["x"]], [None], 5, {5: "x"}, [], None], ids=str)
def test_what_cannot_be_options_is_refused(options: Any) -> None:
    with pytest.raises(TypeError, match=r"^expected (the|names of) options"):
        drain(lambda: pytest.fail("it started"), options)


def test_options_are_required() -> None:
    with pytest.raises(TypeError, match="options"):
        drain(lambda: pytest.fail("it started"))  # type: ignore[call-arg]


def test_it_shows_how_far_it_is(service: FakeQueueService, *, old: bool) -> None:
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))
    shown: list[tuple[int, int | None]] = []

    drained(query, service, bar=lambda *numbers: shown.append(numbers))

    assert shown[-1] == (50, 50)
    assert shown == sorted(shown)


def test_the_bar_ends_at_what_was_read(service: FakeQueueService, *, old: bool) -> None:
    """A delayed message was counted, too."""
    query = Scheduled(service, old=old)
    service.put_many(QUEUE, numbered(5))
    service.put(QUEUE, "later", delay=600)
    shown: list[tuple[int, int | None]] = []

    drained(query, service, bar=lambda *numbers: shown.append(numbers))

    assert (shown[0][1], shown[-1]) == (6, (5, 5))


def test_a_bar_that_fails_ends_nothing(
    service: FakeQueueService, caplog: pytest.LogCaptureFixture, *, old: bool
) -> None:
    query = Scheduled(service, old=old, maxMessagesPerTrigger="20")
    service.put_many(QUEUE, numbered(50))

    def closed(read: int, total: int | None) -> None:
        raise OSError("the terminal is gone")

    assert said(drained(query, service, bar=closed)) == ended(50)
    assert caplog.text.count("the progress is not shown any more: OSError: the terminal") == 1


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


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"hidden": -1.0}, "hidden=-1.0: expected 0 or more seconds"),
        ({"hidden": float("nan")}, "hidden=nan"),
        ({"within": 0.0}, "within=0.0: expected more than 0 seconds"),
        ({"within": float("nan")}, "within=nan"),
        ({"restarts": -1}, "none may be negative"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(
    options: dict[str, str], arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        drain(lambda: pytest.fail("it started"), options, **arguments)


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
