"""What the limits admit, and what they hear of the calls of a flight."""

import pytest
from clocks import Clock
from observed import ObservedLimits
from refs import ORDERS, ref

from spark_azqueue.errors import Outcome
from spark_azqueue.options.account import read_account
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.queues.calls import Delete, Dequeue, Put, Release
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.service.wire import transport
from spark_azqueue.service.wire.concurrency import (
    MOST_OF_A_QUEUE,
    Limits,
    QueueLimits,
    Response,
    Turn,
)
from spark_azqueue.service.wire.http import Session
from spark_azqueue.testing import Fault

SOON = 10.0
FIRST = 8


def admitted(limits, queue=ORDERS, turn=Turn.IN_TURN, now=0.0):
    """How many are admitted at once."""
    count = 0
    while not limits.admit(queue, turn, now):
        count += 1
        assert count <= MOST_OF_A_QUEUE
    return count


def refused_at(limits, now, requests_per_s=1_000.0):
    """Limits whose queue answered so many a second, and then 503."""
    for number in range(200):
        at = now + number / requests_per_s
        limits.admit(ORDERS, Turn.IN_TURN, at)
        limits.answered(ORDERS, Turn.IN_TURN, Response.DONE, at + 0.001, at)
        limits.ended(ORDERS, Turn.IN_TURN)
    end = now + 200 / requests_per_s
    admitted(limits, now=end)  # more is wanted than is allowed
    limits.answered(ORDERS, Turn.IN_TURN, Response.BUSY, end, end)
    return end


def test_it_begins_with_few_and_room_comes_back_with_each_that_ends():
    limits = ObservedLimits()

    assert admitted(limits) == FIRST
    limits.ended(ORDERS, Turn.IN_TURN)
    assert admitted(limits) == 1
    assert limits.allowed(ORDERS) == (FIRST, None)
    assert limits.allowed(ref("others")) is None


def test_another_queue_has_a_limit_of_its_own_within_that_of_the_process():
    limits = ObservedLimits()
    for number in range(100):  # the process has room for more than one queue has
        limits.admit(ORDERS, Turn.IN_TURN, number * 0.01)
        limits.answered(ORDERS, Turn.IN_TURN, Response.DONE, number * 0.01 + 0.01, number * 0.01)
        limits.ended(ORDERS, Turn.IN_TURN)
    assert admitted(limits) == FIRST

    assert admitted(limits, ref("others")) == 0, "8 for the process, too, as no more were wanted"


def test_dequeues_go_ahead_of_deletes_that_fill_the_limit():
    limits = ObservedLimits()
    admitted(limits)

    assert limits.admit(ORDERS, Turn.AHEAD, 0.0) == 0.0


def test_after_a_503_requests_wait_and_dequeues_are_first():
    limits = ObservedLimits()
    end = refused_at(limits, 0.0)

    per_s = limits.allowed(ORDERS).per_s
    assert 500 <= per_s <= 1_000
    wait_s = limits.admit(ORDERS, Turn.IN_TURN, end)
    wait_ahead_s = limits.admit(ORDERS, Turn.AHEAD, end)
    assert 0 < wait_ahead_s < wait_s < 0.1
    assert limits.admit(ORDERS, Turn.AHEAD, end + wait_ahead_s + 1e-6) == 0.0
    assert limits.admit(ORDERS, Turn.IN_TURN, end + wait_ahead_s + 1e-6) > 0.0


def test_the_bound_on_the_rate_vanishes_after_a_minute_without_503():
    limits = ObservedLimits()
    end = refused_at(limits, 0.0)

    limits.admit(ORDERS, Turn.AHEAD, end + 59.0)
    assert limits.allowed(ORDERS).per_s is not None
    limits.admit(ORDERS, Turn.AHEAD, end + 61.0)
    assert limits.allowed(ORDERS).per_s is None


def test_a_bucket_that_owes_tokens_is_forgotten_too():
    limits = ObservedLimits()
    end = refused_at(limits, 0.0)
    for _ in range(500):
        limits.sent_again(ORDERS)

    assert limits.admit(ORDERS, Turn.AHEAD, end + 61.0) == 0.0
    assert limits.allowed(ORDERS).per_s is None


@pytest.mark.parametrize("idle_s", [0.0, 300.0])
def test_if_the_first_answers_of_all_are_503_the_rate_begins_low_and_doubles_fast(idle_s):
    limits = ObservedLimits()
    if idle_s:  # something was answered, but long ago
        limits.admit(ORDERS, Turn.IN_TURN, 0.0)
        limits.answered(ORDERS, Turn.IN_TURN, Response.DONE, 0.01, 0.0)
        limits.ended(ORDERS, Turn.IN_TURN)
    admitted(limits, now=idle_s)

    for _ in range(FIRST):
        limits.answered(ORDERS, Turn.IN_TURN, Response.BUSY, idle_s + 0.01, idle_s)
        limits.ended(ORDERS, Turn.IN_TURN)

    assert limits.allowed(ORDERS).per_s == pytest.approx(70)
    for tick in range(1_000):  # more is wanted all the time
        limits.admit(ORDERS, Turn.IN_TURN, idle_s + 0.01 + tick * 0.001)
    assert limits.allowed(ORDERS).per_s > 500


def test_a_503_while_little_is_sent_bounds_nothing():
    limits = ObservedLimits()
    limits.admit(ORDERS, Turn.IN_TURN, 0.0)

    limits.answered(ORDERS, Turn.IN_TURN, Response.BUSY, 0.01, 0.0)

    assert limits.allowed(ORDERS).per_s is None


# ── a flight ──────────────────────────────────────────────────────────────────────────────────────


class SlotAssignment(ObservedLimits):
    """Limits that keep what they hear."""

    def __init__(self):
        super().__init__()
        self.response = []
        self.under_way = 0

    def admit(self, queue, turn, now):
        wait_s = super().admit(queue, turn, now)
        self.under_way += not wait_s
        return wait_s

    def answered(self, queue, turn, response, now, sent_at):
        self.response.append((queue.name, turn, response))
        assert 0 <= now - sent_at < SOON
        super().answered(queue, turn, response, now, sent_at)

    def ended(self, queue, turn):
        self.under_way -= 1
        super().ended(queue, turn)


@pytest.fixture
def told():
    return SlotAssignment()


@pytest.fixture
def flight(service, told):
    account = read_account({"secret.connectionString": service.connection_string}, {})
    client = QueueClient(account, Session(account, told))
    made = client.in_flight()
    yield made
    made.close()
    client.close()


def results_of(flight):
    results = {}
    while len(flight):
        results.update(flight.ended())
    return results


@pytest.mark.parametrize("busy", ["busy_503", "busy_429"])
def test_every_attempt_of_an_admitted_call_is_told_one_that_is_repeated_too(
    service, told, flight, busy
):
    service.faults.add(Fault("put", busy, nth=1))
    service.faults.add(Fault("put", "error_500", nth=2))

    assert flight.try_begin("put", Put(ORDERS, "text"), RetryPolicy(SOON))
    assert results_of(flight) == {"put": None}

    assert [response for _, _, response in told.response] == [
        Response.BUSY,
        Response.NOTHING,
        Response.DONE,
    ]
    assert told.under_way == 0


def test_a_refused_receipt_and_an_error_end_a_call_too(told, flight):
    flight.try_begin("gone", Delete(Lease(ORDERS, "nobody", "AAAA")))
    flight.try_begin("missing", Dequeue(ref("missing"), 1, 60))
    flight.try_begin("no request", Put(ref("."), "text"))

    results = results_of(flight)

    assert results["gone"] is Outcome.GONE
    assert isinstance(results["missing"], Exception)
    assert isinstance(results["no request"], Exception)
    assert told.under_way == 0
    assert ("missing", Turn.AHEAD, Response.DONE) in told.response


def test_deletes_that_fill_the_limit_hold_up_no_renewal_and_no_release(service, told, flight):
    service.faults.add(Fault("put", "slow", every=1, seconds=5.0))
    begun = 0
    while flight.try_begin(begun, Put(ORDERS, "slow")):
        begun += 1
    assert begun == FIRST

    flight.begin("release", Release(Lease(ORDERS, "nobody", "AAAA")))
    (found,) = flight.ended(SOON) or flight.ended(SOON)

    assert found[0] == "release"


def test_calls_that_are_broken_off_give_their_room_back(service, told, flight):
    service.faults.add(Fault("put", "slow", every=1, seconds=5.0))
    while flight.try_begin("slow", Put(ORDERS, "text")):
        pass
    assert told.under_way == FIRST

    flight.close()

    assert told.under_way == 0
    assert admitted(told) == FIRST


def test_after_a_refusal_the_wait_ends_when_another_try_makes_sense(told, flight, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(transport, "time", clock)
    clock.now = refused_at(told, clock.now)
    for _ in range(FIRST):
        told.ended(ORDERS, Turn.IN_TURN)

    assert not flight.try_begin("put", Put(ORDERS, "text"))
    assert flight.ended() == []
    (waited,) = clock.slept
    assert waited > 0
    assert flight.ended() == [], "nothing is under way, and nothing waits"
    assert clock.slept == [waited]
    assert flight.try_begin("put", Put(ORDERS, "text"))


def test_queues_that_come_and_go_are_forgotten_but_not_what_is_under_way(monkeypatch):
    monkeypatch.setattr("spark_azqueue.service.wire.concurrency._MOST_QUEUES", 10)
    made = []

    def of_queue(queue):
        made.append(queue)
        return QueueLimits()

    limits = Limits(of_queue)
    limits.admit(ORDERS, Turn.IN_TURN, 0.0)
    gone = [ref(f"gone-{number}") for number in range(9)]
    for queue in gone:
        limits.admit(queue, Turn.AHEAD, 0.0)

    limits.admit(ref("new"), Turn.IN_TURN, 0.0)
    limits.answered(gone[0], Turn.AHEAD, Response.DONE, 1.0, 0.0)  # an answer that comes late
    limits.sent_again(gone[0])
    limits.ended(gone[0], Turn.AHEAD)
    limits.admit(gone[0], Turn.AHEAD, 1.0)

    assert made == [ORDERS, *gone, ref("new"), gone[0]]
    assert admitted(limits) == FIRST - 2  # for the process


def wanting(limits, now):
    """Begin as many as may begin; returns after how long to ask again."""
    while not (wait_s := limits.admit(ORDERS, Turn.IN_TURN, now)):
        pass
    return wait_s


def after_a_503_and_nine_busy_seconds(limits, now):
    """Eight are under way all the time, so concurrency makes the others wait."""
    wanting(limits, now)
    limits.answered(ORDERS, Turn.IN_TURN, Response.BUSY, now + 0.01, now)
    for _ in range(900):
        sent, now = now, now + 0.01
        for _ in range(8):
            limits.answered(ORDERS, Turn.IN_TURN, Response.DONE, now, sent)
            limits.ended(ORDERS, Turn.IN_TURN)
        wanting(limits, now)
    return now


def test_a_rate_that_limits_nothing_stays_near_what_is_carried_out():
    limits = ObservedLimits()
    after_a_503_and_nine_busy_seconds(limits, 100.0)

    assert limits.allowed(ORDERS).per_s < 20 * 800
    assert limits.learned(ORDERS)[1] < 20 * 800


def test_refusals_in_a_burst_make_nothing_wait_long():
    limits = ObservedLimits()
    now = after_a_503_and_nine_busy_seconds(limits, 100.0)
    for _ in range(2):  # the second are the repeats of the first
        sent, now = now, now + 0.005
        for _ in range(8):
            limits.answered(ORDERS, Turn.IN_TURN, Response.BUSY, now, sent)
            limits.sent_again(ORDERS)
    for _ in range(500):
        limits.sent_again(ORDERS)

    assert limits.admit(ORDERS, Turn.IN_TURN, now) <= 1.0
    assert limits.admit(ORDERS, Turn.AHEAD, now + 3.0) == 0.0


def test_refusals_in_idle_moments_let_the_rate_grow_to_a_bound_only():
    limits, now = ObservedLimits(), 100.0
    wanting(limits, now)
    limits.answered(ORDERS, Turn.IN_TURN, Response.BUSY, now + 0.01, now)
    for _ in range(300):
        for _ in range(40):
            now += 0.05
            limits.admit(ORDERS, Turn.IN_TURN, now)
        now += 2.0
        limits.answered(ORDERS, Turn.AHEAD, Response.BUSY, now + 0.01, now)

    assert 0 < limits.learned(ORDERS)[1] <= 100_000


def test_what_is_learned_is_at_least_one_a_second():
    limits = ObservedLimits()
    limits.go_on(ORDERS, 4, 20, 0.0)
    for tick in range(300):
        limits.admit(ORDERS, Turn.IN_TURN, tick / 10)

    assert limits.learned(ORDERS)[1] >= 1
