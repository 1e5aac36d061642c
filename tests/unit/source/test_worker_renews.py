"""Renewals: each goes its own way, whatever becomes of the others."""

import threading

import pytest
from renewing import Renewals

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.ledger import Ledger

START = 1_000.0
HANGS = 1e9


def ids(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


@pytest.mark.parametrize("parallelism", [1, 4, 64])
def test_as_many_that_hang_as_may_be_under_way_starve_nobody(parallelism):
    world = Renewals(parallelism)
    hung, others = ids("hung", parallelism), ids("m", 200)
    world.hold(*hung, *others)
    world.delays |= {each: [HANGS] for each in hung}

    world.run_until(START + 60)

    assert world.ledger.counts.leases_lost == 0
    assert world.ledger.counts.renewals == len(hung) + len(others)


@pytest.mark.parametrize("visibility_s", [3, 10, 60, 300])
def test_renewals_that_all_hang_once_are_all_sent_again_in_time(visibility_s):
    world = Renewals(parallelism=32, visibility_s=visibility_s)
    world.hold(*ids("m", 32))
    world.delays |= {each: [HANGS] for each in ids("m", 32)}

    world.run_until(START + visibility_s)

    assert world.ledger.counts.leases_lost == 0
    assert world.ledger.counts.renewals == 32


def test_nothing_is_begun_any_more_after_a_stop():
    world = Renewals()
    world.hold("a")
    world.clock.advance(40.0)
    world.worker.stop()

    assert world.worker.renew_due() == 0
    assert world.sent == []
    assert not world.ledger.puts_off(world.lease("a"))


# ── what waits for a renewal ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("answered", [True, False])
def test_a_release_that_was_put_off_is_made_with_the_newest_receipt(answered):
    # Given a batch that is to go back into the queue while its message is renewed
    world = Renewals()
    world.hold("a")
    world.delays["a"] = [0.0 if answered else HANGS]
    world.clock.advance(30.0)
    flight = world.in_flight()
    ended = flight.ended

    def leaves(timeout_s):
        world.ledger.release(1)
        return ended(timeout_s)

    flight.ended = leaves
    world.in_flight = lambda: flight
    world.worker.renew_due()

    assert world.released == [world.lease("a", "r1" if answered else "r0")]
    assert world.deleted == []


class Guarded(Ledger):
    """A ledger that is used under its lock only."""

    def __init__(self):
        super().__init__()
        self.worker = None
        self.used = set()

    def __getattribute__(self, name):
        if name in {"next_due", "due", "term", "renewed", "puts_off", "settled"}:
            entering = threading.Thread(target=self.enter, daemon=True)
            entering.start()
            entering.join(0.02)
            assert entering.is_alive(), f"{name} without the lock"
            self.used.add(name)
        return super().__getattribute__(name)

    def enter(self):
        with self.worker:
            pass


def test_the_ledger_is_used_under_its_lock():
    world = Renewals(ledger=Guarded())
    world.ledger.worker = world.worker
    world.hold("a")
    with world.worker:
        world.clock.advance(30.0)

    def commits():
        if not world.deleted:
            world.ledger.committed(1)
            world.worker.wait(0.0)

    world.before_each_wait(commits)

    assert world.worker.renew_due() == 1
    assert world.ledger.used == {"next_due", "due", "term", "renewed", "puts_off", "settled"}


def test_the_thread_that_renews_does_not_wait_for_itself():
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)

    def waits():
        world.ledger.committed(1)
        world.worker.wait(1e9)

    world.before_each_wait(waits)
    world.worker.renew_due()

    assert world.deleted == [world.lease("a", "r1")]


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("where", ["in_flight", "begin", "ended"])
def test_a_flight_that_breaks_leaves_no_lease_half_marked(where):
    # Given 20 leases that are due, and something that fails once
    world = Renewals(parallelism=10)
    world.hold(*ids("m", 20))
    world.clock.advance(30.0)
    flight = world.in_flight()

    def fails(*arguments):
        raise OSError(24, "too many open files")

    def once():
        if where == "in_flight":
            fails()
        return flight

    setattr(flight, where, fails)
    world.in_flight, whole = once, world.in_flight

    with pytest.raises(OSError, match="too many"):
        world.worker.renew_due()

    # Then all are renewed before their end
    world.in_flight = whole
    world.run_until(START + 60)
    assert world.ledger.counts.renewals == 20
    assert world.ledger.counts.leases_lost == 0


def test_a_delete_that_waited_for_a_renewal_in_a_broken_flight_is_sent():
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)
    flight = world.in_flight()

    def fails(timeout_s):
        assert world.ledger.committed(1) == []
        world.in_flight = whole
        raise OSError(24, "too many open files")

    flight.ended = fails
    whole, world.in_flight = world.in_flight, lambda: flight
    with pytest.raises(OSError, match="too many"):
        world.worker.renew_due()

    assert world.deleted == [world.lease("a")]
    assert flight.closed
    world.worker.wait(0.0)


def test_an_answer_that_cannot_be_recorded_stops_no_other(caplog):
    class Fails(Ledger):
        def renewed(self, old, *more):
            if old.message_id == "a":
                raise RuntimeError("a bug")
            return super().renewed(old, *more)

    world = Renewals(ledger=Fails())
    world.hold("a", "b")
    world.clock.advance(30.0)
    world.before_each_wait(lambda: world.ledger.committed(1))

    assert world.worker.renew_due() == 2

    assert world.deleted == [world.lease("b", "r1")]
    assert "the result of renewing message a was not recorded" in caplog.text


def test_an_error_of_the_credential_does_not_cost_the_lease():
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)
    flight = world.in_flight()
    flight.ended = lambda timeout_s: [
        (tag, RuntimeError("the vault is closed")) for _, tag, _ in [flight.calls.pop()]
    ]
    whole, world.in_flight = world.in_flight, lambda: flight
    world.worker.renew_due()
    world.in_flight = whole

    world.run_until(START + 60)

    assert world.ledger.counts.leases_lost == 0
    assert world.ledger.counts.renewals == 1


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.GONE, Outcome.LOST])
def test_a_lease_that_is_lost_is_told_and_no_other(outcome, caplog):
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)
    flight = world.in_flight()
    flight.ended = lambda timeout_s: [
        (tag, (outcome, world.lease("a", "r1") if outcome is Outcome.OK else None))
        for _, tag, _ in [flight.calls.pop()]
    ]
    world.in_flight = lambda: flight
    world.worker.renew_due()

    lost = "the lease of message a in queue 'orders' was lost: it may be delivered elsewhere too"
    assert (lost in caplog.text) == outcome.refused
    assert world.ledger.counts.leases_lost == outcome.refused


def test_of_many_leases_that_are_lost_ten_are_named(caplog):
    world = Renewals()
    for number in range(13):
        world.hold(f"m{number:02}")
    world.clock.advance(30.0)
    flight = world.in_flight()
    flight.ended = lambda timeout_s: [
        (tag, (Outcome.GONE, None)) for _, tag, _ in [flight.calls.pop()]
    ]
    world.in_flight = lambda: flight
    world.worker.renew_due()

    assert world.ledger.counts.leases_lost == 13
    assert caplog.text.count("was lost: it may be delivered elsewhere too") == 10
    assert "the leases of 3 further messages were lost at the same time" in caplog.text
