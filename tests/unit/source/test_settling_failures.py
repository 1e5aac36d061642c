"""Deletes and releases when something fails that should not: each ends, and somebody is told."""

import threading

import pytest
from doubles import OneByOne
from refs import ORDERS

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.workers import Workers
from spark_azqueue.source.leases.settler import Settler

SOON = 10.0
FILES = OSError(24, "too many open files")


class Queue:
    """Deletes and releases whatever it is told to."""

    def delete(self, lease):
        return Outcome.OK

    def update(self, lease, visibility_s):
        return Outcome.OK, None


class Service(OneByOne):
    """`breaks`: the parts of a flight that fail, so many times each."""

    def __init__(self, **breaks):
        super().__init__(lambda name: Queue())
        self.breaks = breaks

    def fail(self, part):
        if self.breaks.get(part, 0):
            self.breaks[part] -= 1
            raise FILES

    def in_flight(self):
        self.fail("in_flight")
        flight = super().in_flight()
        for part in ("begin", "ended", "close"):
            setattr(flight, part, self.failing(part, getattr(flight, part)))
        return flight

    def failing(self, part, works):
        def call(*arguments):
            self.fail(part)
            return works(*arguments)

        return call


class Bench:
    def __init__(self, service, report=None, workers=None):
        self.reported = {}
        self.workers = workers or Workers(1, "settle")
        self.settler = Settler(service, self.workers, 4, report or self.reported.__setitem__)


def leases(count):
    return [Lease(ORDERS, f"m{number}", "r") for number in range(count)]


@pytest.mark.parametrize("part", ["in_flight", "begin", "ended"])
def test_each_delete_of_a_flight_that_breaks_is_reported_and_the_next_wait_raises(part):
    bench, ends = Bench(Service(**{part: 1})), []

    bench.settler.begin(leases(10), ends.append)
    with pytest.raises(OSError, match="too many open files"):
        bench.settler.wait(SOON)

    assert bench.reported == dict.fromkeys(leases(10), Outcome.RETRY)
    assert ends == [False]
    # What comes next is done.
    bench.settler.begin(leases(10))
    bench.settler.wait(SOON)
    assert bench.reported == dict.fromkeys(leases(10), Outcome.OK)


@pytest.mark.parametrize("part", ["in_flight", "begin", "ended"])
def test_a_release_of_a_replay_does_not_hang_on_a_flight_that_breaks(part):
    bench = Bench(Service(**{part: 1}))

    # In a thread of its own: this test is to fail, not to hang.
    ended = threading.Event()
    errors = []

    def release():
        try:
            bench.settler.release(leases(10))
        except OSError as error:
            errors.append(error)
        ended.set()

    threading.Thread(target=release, daemon=True).start()

    assert ended.wait(SOON)
    assert errors == [FILES]
    assert bench.settler.release(leases(10)) == 10


def test_a_flight_that_cannot_be_closed_takes_nothing_back():
    bench = Bench(Service(close=1))

    assert bench.settler.release(leases(10)) == 10
    bench.workers.submit(int).result(SOON)  # the flight is closed after the last answer was told
    with pytest.raises(OSError, match="too many open files"):
        bench.settler.wait(SOON)

    assert bench.settler.release(leases(10)) == 10


def test_a_report_that_fails_stops_no_other_and_the_next_wait_raises():
    reported, ends = [], []

    def report(lease, outcome):
        reported.append(lease)
        if len(reported) == 3:
            raise ValueError("a bug")

    bench = Bench(Service(), report)

    bench.settler.begin(leases(10), ends.append)
    with pytest.raises(ValueError, match="a bug"):
        bench.settler.wait(SOON)

    assert len(reported) == 10
    assert ends == [False]
    bench.settler.wait(SOON)


def test_a_group_whose_end_cannot_be_told_ends_all_the_same():
    bench = Bench(Service())

    def done(refused):
        raise ValueError("a bug")

    bench.settler.begin(leases(3), done)
    with pytest.raises(ValueError, match="a bug"):
        bench.settler.wait(SOON)

    assert bench.reported == dict.fromkeys(leases(3), Outcome.OK)


class NoThreads:
    """Workers that cannot start a thread, so many times."""

    def __init__(self, times):
        self.times = times
        self.workers = Workers(1, "settle")

    def submit(self, call, *arguments):
        if self.times:
            self.times -= 1
            raise RuntimeError("can't start new thread")
        return self.workers.submit(call, *arguments)


def test_deletes_wait_for_a_thread_and_are_done_by_the_next_wait(caplog):
    bench = Bench(Service(), workers=NoThreads(2))

    bench.settler.begin(leases(3))
    assert "no thread can be started" in caplog.text
    with pytest.raises(RuntimeError, match="can't start new thread"):
        bench.settler.wait(SOON)
    bench.settler.wait(SOON)

    assert bench.reported == dict.fromkeys(leases(3), Outcome.OK)


def test_a_release_without_a_thread_is_raised_and_can_be_tried_again():
    bench = Bench(Service(), workers=NoThreads(1))

    with pytest.raises(RuntimeError, match="can't start new thread"):
        bench.settler.release(leases(3))

    bench.settler.wait(0.0)
    assert bench.settler.release(leases(3)) == 3
