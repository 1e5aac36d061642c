"""The worker's thread: when it looks, and that nothing ends it but a stop."""

import threading
from types import SimpleNamespace

import pytest
from renewing import Renewals

from spark_azqueue.service.workers import Workers
from spark_azqueue.source.leases import worker as working


class Pauses:
    """How long the thread pauses, each time. No time passes; after so many pauses it is stopped."""

    def __init__(self):
        self.noted = []
        self.at_most = 3
        self.worker = None

    def condition(self, lock):
        made = threading.Condition(lock)

        def wait(timeout=None):
            self.noted.append(timeout)
            if len(self.noted) == self.at_most:
                made.release()
                self.worker.stop()
                made.acquire()
            return True

        made.wait = wait
        return made


@pytest.fixture
def pauses(monkeypatch):
    made = Pauses()
    parts = {name: getattr(threading, name) for name in ("Lock", "Event", "get_ident")}
    monkeypatch.setattr(working, "threading", SimpleNamespace(Condition=made.condition, **parts))
    return made


@pytest.mark.parametrize(("visibility_s", "pause"), [(1, 0.25), (2, 0.5), (4, 1.0), (60, 1.0)])
def test_the_thread_looks_four_times_in_the_shortest_term(pauses, visibility_s, pause):
    world = Renewals(visibility_s=visibility_s)
    pauses.worker = world.worker

    world.worker.start()  # in this thread, until it is stopped

    assert pauses.noted == [pause] * 3


def test_the_thread_pauses_until_the_next_is_due_and_a_second_after_an_error(pauses, caplog):
    world = Renewals()
    pauses.worker = world.worker
    world.hold("a")
    world.clock.advance(29.5)
    whole, flights = world.in_flight, []

    def in_flight():
        flights.append(len(flights))
        if len(flights) == 2:
            raise OSError(24, "too many open files")
        return whole()

    world.in_flight = in_flight
    world.worker.start()

    assert pauses.noted == [0.5, 1.0, 0.5]
    assert "renewals, deletes and releases were interrupted" in caplog.text


def test_the_thread_goes_on_after_what_nobody_expected(monkeypatch, caplog):
    # Given a service whose first flight breaks, in real time
    monkeypatch.setattr("spark_azqueue.source.leases.worker._LOOK_AT_LEAST_EVERY_S", 0.01)
    world = Renewals(workers=Workers(1, "leases"))
    world.hold("a")
    world.clock.advance(30.0)
    renewed = threading.Event()
    whole, tries = world.in_flight, []

    def in_flight():
        tries.append(len(tries))
        if len(tries) == 1:
            raise OSError(24, "too many open files")
        renewed.set()
        return whole()

    world.in_flight = in_flight
    world.worker.start()
    try:
        assert renewed.wait(10.0)
    finally:
        world.worker.stop()

    assert "renewals, deletes and releases were interrupted" in caplog.text


def test_a_thread_that_could_not_be_started_is_started_by_the_next_call(monkeypatch):
    world = Renewals(workers=Workers(1, "leases"))
    starts = []

    class Thread(threading.Thread):
        def start(self):
            starts.append(self)
            if len(starts) == 1:
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(threading, "Thread", Thread)

    with pytest.raises(RuntimeError, match="can't start"):
        world.worker.start()
    world.worker.start()
    world.worker.start()

    world.worker.stop()
    assert len(starts) == 2
