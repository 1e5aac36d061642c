"""The thread that renews: when it looks, and that nothing ends it but a stop."""

import threading

import pytest
from renewing import World

SOON = 10.0


class Pauses(threading.Event):
    """A stop that notes how long the thread pauses, and comes after so many pauses."""

    def __init__(self, count):
        super().__init__()
        self.left = count
        self.noted = []
        self.over = threading.Event()

    def wait(self, timeout=None):
        self.noted.append(timeout)
        self.left -= 1
        if not self.left:
            self.set()
            self.over.set()
        return self.is_set()


@pytest.mark.parametrize(("visibility_s", "pause"), [(1, 0.25), (2, 0.5), (4, 1.0), (60, 1.0)])
def test_the_thread_looks_at_once_and_then_four_times_in_the_shortest_term(visibility_s, pause):
    pauses = Pauses(3)
    world = World(visibility_s=visibility_s, stop=pauses)

    world.renewer.start()

    assert pauses.over.wait(SOON)
    assert pauses.noted == [0.0, pause, pause]


def test_the_thread_pauses_until_the_next_is_due_and_a_second_after_an_error():
    pauses = Pauses(4)
    world = World(stop=pauses)
    world.hold("a")
    world.clock.advance(29.5)
    looks = []

    def renew_due():
        looks.append(len(looks))
        if len(looks) == 2:
            raise OSError(24, "too many open files")

    world.renewer.renew_due = renew_due
    world.renewer.start()

    assert pauses.over.wait(SOON)
    assert pauses.noted == [0.0, 0.5, 1.0, 0.5]


def test_the_thread_has_a_name_and_ends_with_its_process(monkeypatch):
    world = World()
    made = []
    monkeypatch.setattr(threading, "Thread", lambda **given: made.append(given) or Started())

    world.renewer.start()

    (given,) = made
    assert given["name"] == "azqueue-renewal"
    assert given["daemon"] is True


class Started:
    def start(self):
        pass


def test_the_thread_goes_on_after_what_nobody_expected(monkeypatch, caplog):
    # Given a service whose first flight breaks, in real time
    monkeypatch.setattr("spark_azqueue.source.leases.renewer._LOOK_AT_LEAST_EVERY_S", 0.01)
    world = World()
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
    world.renewer.start()
    try:
        assert renewed.wait(10.0)
    finally:
        world.renewer.stop()

    assert "renewing leases failed, and will be tried again" in caplog.text


def test_a_thread_that_could_not_be_started_is_started_by_the_next_call(monkeypatch):
    world = World()
    starts = []

    class Thread(threading.Thread):
        def start(self):
            starts.append(self)
            if len(starts) == 1:
                raise RuntimeError("can't start new thread")
            super().start()

    monkeypatch.setattr(threading, "Thread", Thread)

    with pytest.raises(RuntimeError, match="can't start"):
        world.renewer.start()
    world.renewer.start()
    world.renewer.start()

    world.renewer.stop()
    assert len(starts) == 2
