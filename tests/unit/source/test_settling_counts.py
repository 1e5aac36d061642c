"""Whatever goes wrong, every delete and release is counted out: nobody waits for one in vain."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from test_settling_failures import Bench, Service, leases

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases import settler as settling

SOON = 10.0


class AtOnce:
    """A worker that has ended when `submit` returns."""

    def submit(self, call, *arguments):
        future = Future()
        future.set_result(call(*arguments))
        return future


class NobodyWaits(threading.Condition):
    """Whoever waits finds what it waits for: otherwise it would wait until its time is up."""

    def wait_for(self, predicate, timeout=None):
        assert predicate(), "something is still counted that has ended"
        return True


@pytest.fixture(autouse=True)
def nobody_waits(monkeypatch):
    monkeypatch.setattr(settling, "threading", SimpleNamespace(Condition=NobodyWaits))


@pytest.mark.parametrize("part", ["in_flight", "begin", "ended", "close"])
def test_a_flight_that_breaks_leaves_nothing_counted(part):
    bench = Bench(Service(**{part: 1}), workers=AtOnce())

    bench.settler.begin(leases(10))
    with pytest.raises(OSError, match="too many open files"):
        bench.settler.wait(SOON)

    bench.settler.begin(leases(10))
    bench.settler.wait(SOON)
    assert bench.reported == dict.fromkeys(leases(10), Outcome.OK)


@pytest.mark.parametrize("failing", [1, 10])
def test_a_report_that_fails_leaves_nothing_counted(failing):
    reported = []

    def report(lease, outcome):
        reported.append(lease)
        if len(reported) <= failing:
            raise ValueError("a bug")

    bench = Bench(Service(), report, AtOnce())

    bench.settler.begin(leases(10))
    with pytest.raises(ValueError, match="a bug"):
        bench.settler.wait(SOON)

    bench.settler.wait(SOON)
    assert len(reported) == 10
