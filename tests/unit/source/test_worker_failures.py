"""Deletes and releases when something fails that should not: each ends, and somebody is told."""

import threading

import pytest
from doubles import OneByOne
from refs import ORDERS
from settled import Recorded, worker_of

from spark_azqueue.errors import Outcome, QueueNotFound
from spark_azqueue.service.messages import Lease
from spark_azqueue.service.workers import Workers

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
    def __init__(self, service, ledger=None, workers=None):
        self.ledger = Recorded() if ledger is None else ledger
        self.workers = workers or Workers(1, "leases")
        self.worker = worker_of(service, self.ledger, workers=self.workers, parallelism=4)


def leases(count):
    return [Lease(ORDERS, f"m{number}", "r") for number in range(count)]


@pytest.mark.parametrize("part", ["in_flight", "begin", "ended"])
def test_each_delete_of_a_flight_that_breaks_is_reported_and_the_next_wait_raises(part, caplog):
    bench, ends = Bench(Service(**{part: 1})), []

    bench.worker.delete(leases(10), ends.append)
    with pytest.raises(OSError, match="too many open files"):
        bench.worker.wait(SOON)

    assert bench.ledger.outcomes == dict.fromkeys(leases(10), Outcome.RETRY)
    assert "renewals, deletes and releases were interrupted" in caplog.text
    assert ends == [False]
    # What comes next is done.
    bench.worker.delete(leases(10))
    bench.worker.wait(SOON)
    assert bench.ledger.outcomes == dict.fromkeys(leases(10), Outcome.OK)


@pytest.mark.parametrize("part", ["in_flight", "begin", "ended"])
def test_a_release_of_a_replay_does_not_hang_on_a_flight_that_breaks(part):
    bench = Bench(Service(**{part: 1}))

    # In a thread of its own: this test is to fail, not to hang.
    ended = threading.Event()
    errors = []

    def release():
        try:
            bench.worker.release(leases(10))
        except OSError as error:
            errors.append(error)
        ended.set()

    threading.Thread(target=release, daemon=True).start()

    assert ended.wait(SOON)
    assert errors == [FILES]
    assert bench.worker.release(leases(10)) == 10


def test_a_flight_that_cannot_be_closed_takes_nothing_back():
    bench = Bench(Service(close=1))

    assert bench.worker.release(leases(10)) == 10
    bench.workers.submit(int).result(SOON)  # the flight is closed after the last answer was told
    with pytest.raises(OSError, match="too many open files"):
        bench.worker.wait(SOON)

    assert bench.worker.release(leases(10)) == 10


def test_a_report_that_fails_stops_no_other_and_the_next_wait_raises(caplog):
    ends = []

    class Fails(Recorded):
        def settled(self, lease, outcome):
            super().settled(lease, outcome)
            if len(self.outcomes) == 3:
                raise ValueError("a bug")

    bench = Bench(Service(), Fails())

    bench.worker.delete(leases(10), ends.append)
    with pytest.raises(ValueError, match="a bug"):
        bench.worker.wait(SOON)

    assert len(bench.ledger.outcomes) == 10
    assert "the result of message m2 was not recorded" in caplog.text
    assert ends == [False]
    bench.worker.wait(SOON)


def test_a_group_whose_end_cannot_be_told_ends_all_the_same():
    bench = Bench(Service())

    def done(refused):
        raise ValueError("a bug")

    bench.worker.delete(leases(3), done)
    with pytest.raises(ValueError, match="a bug"):
        bench.worker.wait(SOON)

    assert bench.ledger.outcomes == dict.fromkeys(leases(3), Outcome.OK)


class NoThreads:
    """Workers that cannot start a thread, so many times."""

    def __init__(self, times):
        self.times = times
        self.workers = Workers(1, "leases")

    def submit(self, call, *arguments):
        if self.times:
            self.times -= 1
            raise RuntimeError("can't start new thread")
        return self.workers.submit(call, *arguments)


def test_deletes_wait_for_a_thread_and_are_done_by_the_next_wait(caplog):
    bench = Bench(Service(), workers=NoThreads(2))

    bench.worker.delete(leases(3))
    assert "no thread can be started" in caplog.text
    with pytest.raises(RuntimeError, match="can't start new thread"):
        bench.worker.wait(SOON)
    bench.worker.wait(SOON)

    assert bench.ledger.outcomes == dict.fromkeys(leases(3), Outcome.OK)


def test_a_release_without_a_thread_is_raised_and_can_be_tried_again():
    bench = Bench(Service(), workers=NoThreads(1))

    with pytest.raises(RuntimeError, match="can't start new thread"):
        bench.worker.release(leases(3))

    bench.worker.wait(0.0)
    assert bench.worker.release(leases(3)) == 3


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


def worker_for(queue, workers=None):
    return worker_of(OneByOne(lambda name: queue), workers=workers)


def test_a_release_without_a_thread_is_not_made_later_but_what_waits_is():
    queue = Noted()
    worker = worker_for(queue, NoThreads(2))
    worker.delete(leases(3))
    with pytest.raises(RuntimeError, match="can't start new thread"):
        worker.release(leases(5)[3:])

    worker.wait(SOON)

    assert queue.deleted == leases(3)
    assert queue.released == []


def test_a_release_whose_time_is_over_begins_no_more_but_what_waits_is_begun():
    # Given a thread that the first of three releases holds up
    first, *others = leases(6)
    queue = Noted(held=first)
    worker = worker_for(queue)
    worker.release_later([first])
    assert queue.begun.wait(SOON)
    worker.delete(others[2:])

    # When the time of two releases is over
    with pytest.raises(TimeoutError):
        worker.release(others[:2], timeout_s=0.01)
    queue.go.set()
    waiting = threading.Thread(target=worker.wait, args=(10 * SOON,), daemon=True)
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
    worker = worker_for(queue)

    with pytest.raises(OSError, match="too many open files"):
        worker.release(released)
    worker.delete(deleted)
    queue.go.set()
    worker.wait(SOON)

    # Then the last two are not made any more
    assert set(queue.released).isdisjoint(released[2:])
    assert queue.deleted == deleted


def test_a_wait_whose_time_is_over_gives_up_deletes_but_no_releases():
    first, *others = leases(5)
    queue = Noted(held=first)
    worker = worker_for(queue)
    worker.release_later([first])
    assert queue.begun.wait(SOON)
    worker.delete(others[:2])
    worker.release_later(others[2:])

    worker.wait(0.01)
    queue.go.set()
    worker.wait(SOON)

    assert queue.deleted == []
    assert queue.released == [first, *others[2:]]


class Counted:
    """Workers that count what they are given."""

    def __init__(self):
        self.submitted = 0
        self.workers = Workers(4, "leases")

    def submit(self, call, *arguments):
        self.submitted += 1
        return self.workers.submit(call, *arguments)


def test_one_thread_does_all_of_it_and_only_if_there_is_something_to_do():
    first, *others = leases(4)
    queue, workers = Noted(held=first), Counted()
    worker = worker_for(queue, workers)

    worker.wait(SOON)
    assert worker.release([]) == 0
    assert workers.submitted == 0

    worker.release_later([first])
    assert queue.begun.wait(SOON)
    worker.delete(others)
    worker.wait(0.0)
    queue.go.set()
    worker.wait(SOON)
    assert workers.submitted == 1


# ── what each kind of request makes of an error ───────────────────────────────────────────────────


class Failing(Noted):
    """Each release ends with this error."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def update(self, lease, visibility_s=0):
        raise self.error

    delete = update


def test_a_release_in_the_background_that_fails_is_logged_and_is_no_error(caplog):
    worker = worker_for(Failing(FILES))

    worker.release_later(leases(1))
    worker.wait(SOON)

    assert "a lease could not be released: [Errno 24] too many open files" in caplog.text


def test_only_to_a_restored_delete_a_missing_queue_is_no_error():
    worker = worker_for(Failing(QueueNotFound("no queue", status=404)))

    deleted: list[Lease] = []
    worker.delete_restored(leases(2), deleted)
    assert deleted == []
    with pytest.raises(QueueNotFound):
        worker.release(leases(1))
