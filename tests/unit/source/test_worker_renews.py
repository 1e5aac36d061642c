"""Renewals: each goes its own way, whatever becomes of the others."""

import threading

import pytest
from doubles import NeverRuns
from refs import ORDERS
from renewing import Renewals

from spark_azqueue.errors import AccessDenied, Outcome
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.calls import Delete, Release, Update
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.timing import Term

START = 1_000.0
HANGS = 1e9


def ids(prefix, count):
    return [f"{prefix}{number}" for number in range(count)]


def test_the_term_of_a_renewed_lease_counts_from_the_sending():
    # Given a renewal that is sent at half time, and answered 7 seconds later
    world = Renewals()
    world.hold("a")
    world.delays["a"] = [7.0]

    world.run_until(START + 38)

    # Then the new term began when it was sent
    assert world.sent == [(START + 30, "a")]
    assert world.ledger.term(world.lease("a", "r1")).ends_at == START + 30 + 60
    assert world.ledger.next_due() == START + 30 + 30


def test_while_one_renewal_hangs_those_that_become_due_are_renewed():
    # Given one message, and 32 more that were leased 5 seconds later
    world = Renewals(parallelism=4)
    world.hold("hung")
    world.delays["hung"] = [HANGS]
    world.clock.advance(5.0)
    others = ids("m", 32)
    world.hold(*others, batch=2)

    # When the renewal of the one hangs
    world.run_until(START + 60)

    # Then the others were renewed when they were due, and it was renewed before its end
    first = {message_id: when for when, message_id in reversed(world.sent)}
    assert [first[each] for each in others] == pytest.approx([START + 35] * 32, abs=0.1)
    tries = [when for when, each in world.sent if each == "hung"]
    assert tries == pytest.approx([START + 30, START + 45], abs=0.1)
    assert world.ledger.counts.leases_lost == 0
    assert world.ledger.counts.renewals == 33


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


def test_a_service_that_never_answers_costs_the_leases_and_is_left_in_peace_then(caplog):
    world = Renewals()
    world.hold("a")
    world.delays["a"] = [HANGS] * 1_000

    world.run_until(START + 600)

    assert world.ledger.counts.leases_lost == 1
    assert (
        "the lease of message a was not renewed: [AZQUEUE_SERVICE_UNAVAILABLE] no answer"
        in caplog.text
    )
    assert len(world.sent) < 20
    assert world.sent[-1][0] < START + 65


def test_no_more_are_under_way_than_the_bound(monkeypatch):
    monkeypatch.setattr("spark_azqueue.source.leases.worker._MOST_RENEWALS", 10)
    world = Renewals(parallelism=4)
    world.hold(*ids("m", 50))
    world.delays |= {each: [HANGS] for each in ids("m", 50)}
    most = 0
    flight = world.in_flight()
    begin = flight.begin

    def counted(*arguments):
        nonlocal most
        begin(*arguments)
        most = max(most, len(flight))

    flight.begin = counted
    world.in_flight = lambda: flight
    world.run_until(START + 50)

    assert most == 10


def most_under_way(world):
    """From now on, the one flight of this world notes how many calls are under way at most."""
    flight, most = world.in_flight(), [0]
    begin = flight.begin

    def counted(*arguments):
        begin(*arguments)
        most[0] = max(most[0], len(flight))

    flight.begin = counted
    world.in_flight = lambda: flight
    return most


def test_no_more_than_the_parallelism_are_under_way_while_answers_come_within_a_second():
    world = Renewals(parallelism=4)
    world.hold(*ids("m", 20))
    world.delays |= {each: [0.9] for each in ids("m", 20)}
    world.clock.advance(30.0)
    most = most_under_way(world)

    assert world.worker.renew_due() == 20

    assert most == [4]


def test_each_term_counts_from_its_own_sending():
    # Given two renewals that are begun together, the first of which takes 5 seconds to send
    world = Renewals()
    world.hold("a", "b")
    world.clock.advance(30.0)
    flight = world.in_flight()
    begin = flight.begin

    def slowly(*arguments):
        begin(*arguments)
        world.clock.advance(5.0)

    flight.begin = slowly
    world.in_flight = lambda: flight
    world.worker.renew_due()

    ends = {each: world.ledger.term(world.lease(each, "r1")).ends_at for _, each in world.sent}
    assert ends == {each: when + 60 for when, each in world.sent}
    assert len(set(ends.values())) == 2


def test_nothing_is_asked_of_the_service_while_nothing_is_due():
    world = Renewals()
    world.hold("a")
    world.clock.advance(29.5)  # soon, but not yet

    assert world.worker.renew_due() == 0

    assert world.flights == []


def test_the_most_urgent_is_renewed_first():
    world = Renewals(parallelism=1)
    world.hold("later")
    world.visibility_s = 40
    world.hold("sooner")
    world.clock.advance(35.0)

    world.worker.renew_due()

    assert [each for _, each in world.sent] == ["sooner", "later"]


def test_renewals_begin_before_deletes_and_releases():
    world = Renewals(workers=NeverRuns())
    world.hold("due")
    world.clock.advance(30.0)
    world.worker.delete([world.lease("a")])
    world.worker.release_later([world.lease("b")])
    flight, begun = world.in_flight(), []
    begin = flight.begin

    def noted(tag, call, *more):
        begun.append(type(call))
        begin(tag, call, *more)

    flight.begin = noted
    world.in_flight = lambda: flight
    world.worker.renew_due()

    assert begun == [Update, Delete, Release]


def test_nothing_is_begun_any_more_after_a_stop():
    world = Renewals()
    world.hold("a")
    world.clock.advance(40.0)
    world.worker.stop()

    assert world.worker.renew_due() == 0
    assert world.sent == []
    assert not world.ledger.puts_off(world.lease("a"))


# ── what waits for a renewal ──────────────────────────────────────────────────────────────────────


def test_a_delete_waits_for_the_renewal_of_its_message_and_for_no_other():
    # Given two renewals that are answered after 2 seconds, and never
    world = Renewals()
    world.hold("slow", batch=1)
    world.hold("hung", batch=2)
    world.delays |= {"slow": [2.0], "hung": [HANGS]}
    world.clock.advance(30.0)
    flight = world.in_flight()
    ended = flight.ended
    waiting = []

    def watched(timeout_s):
        if not waiting:  # both are under way: now the batch of the first is committed
            assert world.ledger.committed(1) == []
            waiting.append(threading.Thread(target=world.worker.wait, args=(100.0,)))
            waiting[0].start()
        if not world.deleted or len(flight) == 2:  # the renewal, or then the delete, is under way
            assert waiting[0].is_alive()
        else:
            # Then whoever waits for the first does not wait for the other
            waiting[0].join(10.0)
            assert not waiting[0].is_alive()
            assert world.deleted == [world.lease("slow", "r1")]
        return ended(timeout_s)

    flight.ended = watched
    world.in_flight = lambda: flight
    world.worker.renew_due()

    assert not waiting[0].is_alive()


def test_a_renewal_that_was_given_up_lets_its_delete_go_on_with_the_receipt_there_is():
    world = Renewals()
    world.hold("a")
    world.delays["a"] = [HANGS]
    world.clock.advance(30.0)
    world.before_each_wait(lambda: world.ledger.committed(1))
    world.worker.renew_due()

    assert world.deleted == [world.lease("a")]
    world.worker.wait(0.0)


def test_nobody_waits_for_a_renewal_that_holds_nothing_up():
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)

    def waits():
        waiting = threading.Thread(target=world.worker.wait, args=(100.0,), daemon=True)
        waiting.start()
        waiting.join(10.0)
        assert not waiting.is_alive()

    world.before_each_wait(waits)

    assert world.worker.renew_due() == 1


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


def test_a_renewal_that_no_retry_can_help_loses_the_lease_and_the_log_says_so(caplog):
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)
    flight = world.in_flight()
    denied = AccessDenied("the SAS has expired", outcome=Outcome.FATAL)
    flight.ended = lambda timeout_s: [(tag, denied) for _, tag, _ in [flight.calls.pop()]]
    world.in_flight = lambda: flight
    world.worker.renew_due()

    assert (
        "the lease of message a was not renewed: [AZQUEUE_ACCESS_DENIED] the SAS has expired"
        in caplog.text
    )
    assert caplog.text.count("the lease of message a in queue 'orders' was lost") == 1
    assert world.ledger.counts.leases_lost == 1


def test_a_lease_whose_renewals_get_no_answer_is_lost_when_it_ends_and_not_before(caplog):
    world = Renewals()
    world.hold("a")
    world.delays["a"] = [HANGS] * 1_000

    world.run_until(START + 58)
    assert "was not renewed" in caplog.text
    assert "was lost" not in caplog.text
    assert world.ledger.counts.leases_lost == 0

    world.run_until(START + 70)
    assert caplog.text.count("was lost") == world.ledger.counts.leases_lost == 1


def test_a_refusal_that_comes_after_a_newer_dequeue_loses_nothing(caplog):
    # Given a message that is dequeued again while its renewal is under way
    world = Renewals()
    world.hold("a")
    world.clock.advance(30.0)
    newer = Message(ORDERS, "a", "T", 0, 0, 2)
    flight = world.in_flight()

    def refused_late(timeout_s):
        world.ledger.dequeued(newer, world.lease("a", "r9"), Term.of(world.clock.now(), 60))
        return [(tag, (Outcome.GONE, None)) for _, tag, _ in [flight.calls.pop()]]

    flight.ended = refused_late
    world.in_flight = lambda: flight
    world.worker.renew_due()

    assert "was lost" not in caplog.text
    assert world.ledger.counts.leases_lost == 0


# ── a renewal that was given up, and took effect all the same ─────────────────────────────────────
