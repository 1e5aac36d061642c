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
def test_each_delete_of_a_flight_that_breaks_is_reported_and_the_next_wait_raises(part, caplog):
    bench, ends = Bench(Service(**{part: 1})), []

    bench.settler.begin(leases(10), ends.append)
    with pytest.raises(OSError, match="too many open files"):
        bench.settler.wait(SOON)

    assert bench.reported == dict.fromkeys(leases(10), Outcome.RETRY)
    assert "deletes and releases were broken off" in caplog.text
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


def test_a_report_that_fails_stops_no_other_and_the_next_wait_raises(caplog):
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
    assert "what came of message m2 could not be noted" in caplog.text
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


# ── what an error or the end of the time leaves unbegun ───────────────────────────────────────────


class Noted(Queue):
    """Notes what is asked. The release of `held` waits for `go`; that of `fails` fails."""

    def __init__(self, held=None, fails=None):
        self.held, self.fails = held, fails
        self.begun, self.go = threading.Event(), threading.Event()
        self.released, self.deleted = [], []

    def delete(self, lease):
        self.deleted.append(lease)
        return super().delete(lease)

    def update(self, lease, visibility_s):
        self.released.append(lease)
        if lease == self.fails:
            raise FILES
        if lease == self.held:
            self.begun.set()
            self.go.wait(SOON)
        return super().update(lease, visibility_s)


def settler_of(queue, workers=None, parallelism=1):
    workers = workers or Workers(1, "settle")
    return Settler(OneByOne(lambda name: queue), workers, parallelism, lambda lease, outcome: None)


def test_a_release_without_a_thread_is_not_made_later_but_what_waits_is():
    queue = Noted()
    settler = settler_of(queue, NoThreads(2))
    settler.begin(leases(3))
    with pytest.raises(RuntimeError, match="can't start new thread"):
        settler.release(leases(5)[3:])

    settler.wait(SOON)

    assert queue.deleted == leases(3)
    assert queue.released == []


def test_a_release_whose_time_is_over_begins_no_more_but_what_waits_is_begun():
    # Given a thread that the first of three releases holds up
    first, *others = leases(6)
    queue = Noted(held=first)
    settler = settler_of(queue)
    settler.begin_release([first])
    assert queue.begun.wait(SOON)
    settler.begin(others[2:])

    # When the time of two releases is over
    with pytest.raises(TimeoutError):
        settler.release(others[:2], timeout_s=0.01)
    queue.go.set()
    waiting = threading.Thread(target=settler.wait, args=(10 * SOON,), daemon=True)
    waiting.start()
    waiting.join(SOON)

    # Then they are not made any more and not waited for, and the deletes are made
    assert not waiting.is_alive()
    assert queue.released == [first]
    assert queue.deleted == others[2:]


def test_after_an_error_no_more_of_the_group_is_begun_but_what_waits_is():
    # Given four releases: the first fails, the second is held up
    released, deleted = leases(6)[:4], leases(6)[4:]
    queue = Noted(fails=released[0], held=released[1])
    settler = settler_of(queue)

    with pytest.raises(OSError, match="too many open files"):
        settler.release(released)
    settler.begin(deleted)
    queue.go.set()
    settler.wait(SOON)

    # Then the last two are not made any more
    assert set(queue.released).isdisjoint(released[2:])
    assert queue.deleted == deleted


def test_a_wait_whose_time_is_over_gives_up_deletes_but_no_releases():
    first, *others = leases(5)
    queue = Noted(held=first)
    settler = settler_of(queue)
    settler.begin_release([first])
    assert queue.begun.wait(SOON)
    settler.begin(others[:2])
    settler.begin_release(others[2:])

    settler.wait(0.01)
    queue.go.set()
    settler.wait(SOON)

    assert queue.deleted == []
    assert queue.released == [first, *others[2:]]


class Counted:
    """Workers that count what they are given."""

    def __init__(self):
        self.submitted = 0
        self.workers = Workers(4, "settle")

    def submit(self, call, *arguments):
        self.submitted += 1
        return self.workers.submit(call, *arguments)


def test_one_thread_does_all_of_it_and_only_if_there_is_something_to_do():
    first, *others = leases(4)
    queue, workers = Noted(held=first), Counted()
    settler = settler_of(queue, workers)

    settler.wait(SOON)
    assert settler.release([]) == 0
    assert workers.submitted == 0

    settler.begin_release([first])
    assert queue.begun.wait(SOON)
    settler.begin(others)
    settler.wait(0.0)
    queue.go.set()
    settler.wait(SOON)
    assert workers.submitted == 1
