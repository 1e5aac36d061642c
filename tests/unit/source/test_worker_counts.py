"""Whatever goes wrong, every delete and release is counted out: nobody waits for one in vain."""

import threading
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from settled import Recorded
from test_worker_failures import Bench, Service, leases

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases import worker as working

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
    parts = {name: getattr(threading, name) for name in ("Lock", "Event", "get_ident")}
    monkeypatch.setattr(working, "threading", SimpleNamespace(Condition=NobodyWaits, **parts))


@pytest.mark.parametrize("part", ["in_flight", "begin", "ended", "close"])
def test_a_flight_that_breaks_leaves_nothing_counted(part):
    bench = Bench(Service(**{part: 1}), workers=AtOnce())

    bench.worker.delete(leases(10))
    with pytest.raises(OSError, match="too many open files"):
        bench.worker.wait(SOON)

    bench.worker.delete(leases(10))
    bench.worker.wait(SOON)
    assert bench.ledger.outcomes == dict.fromkeys(leases(10), Outcome.OK)


@pytest.mark.parametrize("failing", [1, 10])
def test_a_report_that_fails_leaves_nothing_counted(failing):
    class Fails(Recorded):
        def settled(self, lease, outcome):
            super().settled(lease, outcome)
            if len(self.outcomes) <= failing:
                raise ValueError("a bug")

    bench = Bench(Service(), Fails(), AtOnce())

    bench.worker.delete(leases(10))
    with pytest.raises(ValueError, match="a bug"):
        bench.worker.wait(SOON)

    bench.worker.wait(SOON)
    assert len(bench.ledger.outcomes) == 10
