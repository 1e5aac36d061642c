"""A lease worker in a world of its own: time moves when somebody waits, answers are scripted."""

from __future__ import annotations

from doubles import AtOnce
from refs import ORDERS

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.service.messages import Lease, Message, Received
from spark_azqueue.service.queues.calls import Delete, Update
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.timing import LeaseLengths, Term
from spark_azqueue.source.leases.worker import LeaseWorker
from spark_azqueue.testing import FakeClock

NEVER = 40.0
"""Without a limit of its own a request that hangs ends after so long."""


class Renewals:
    """delays: message id -> seconds until the answer, for one renewal after the other (then 0).

    deleted, released: the leases of those requests, which are answered at once.
    """

    def __init__(self, parallelism=4, visibility_s=60, ledger=None, workers=None):
        """workers: what runs the worker's thread; at once in the caller's, by default."""
        self.clock = FakeClock(1_000.0, frozen=True)
        self.ledger = Ledger() if ledger is None else ledger
        self.delays = {}
        self.sent = []  # (when, id)
        self.deleted, self.released = [], []
        self.flights = []
        self.visibility_s = visibility_s
        self.worker = LeaseWorker(
            self.ledger,
            self,
            workers or AtOnce(1, "leases"),
            LeaseLengths(visibility_s),
            self.clock.now,
            parallelism=parallelism,
        )

    def hold(self, *ids, batch=1):
        messages = (Message(ORDERS, each, "T", 0, 0, 1) for each in ids)
        received = [Received(each, self.lease(each.message_id)) for each in messages]
        for each in received:
            self.ledger.dequeued(*each, Term.of(self.clock.now(), self.visibility_s))
        self.ledger.hand_out(received, batch)

    def lease(self, message_id, receipt="r0"):
        return Lease(ORDERS, message_id, receipt)

    def in_flight(self):
        self.flights.append(Flight(self))
        return self.flights[-1]

    def before_each_wait(self, happens):
        """From now on there is one flight, and this happens before each wait for its answers."""
        flight = self.in_flight()
        ended = flight.ended

        def watched(timeout_s):
            happens()
            return ended(timeout_s)

        flight.ended = watched
        self.in_flight = lambda: flight

    def run_until(self, when):
        """What the thread does until then."""
        while self.clock.now() < when:
            if not self.worker.renew_due():
                due = self.ledger.next_due() or when
                self.clock.advance(max(0.0, min(due, when) - self.clock.now()))


class Flight:
    """Calls under way. Waiting moves the clock to the next answer, or as long as is waited."""

    def __init__(self, world):
        self.world = world
        self.calls = []  # (when it ends, tag, result)
        self.closed = False

    def __len__(self):
        return len(self.calls)

    def begin(self, tag, call, retry=None, within_s=NEVER):
        world, lease = self.world, call.lease
        now = world.clock.now()
        if not isinstance(call, Update):
            (world.deleted if isinstance(call, Delete) else world.released).append(lease)
            self.calls.append((now, tag, Outcome.OK))
            return
        world.sent.append((now, lease.message_id))
        delays = world.delays.get(lease.message_id)
        delay = delays.pop(0) if delays else 0.0
        limit = min(within_s, NEVER)
        if delay > limit:
            error = ServiceUnavailable("no answer", outcome=Outcome.RETRY)
            self.calls.append((now + limit, tag, error))
        else:
            renewed = world.lease(lease.message_id, f"r{int(lease.pop_receipt[1:]) + 1}")
            self.calls.append((now + delay, tag, (Outcome.OK, renewed)))

    def ended(self, timeout_s=None):
        clock = self.world.clock
        if not self.calls:
            return []
        soonest = min(when for when, _, _ in self.calls)
        until = soonest if timeout_s is None else min(soonest, clock.now() + timeout_s)
        clock.advance(max(0.0, until - clock.now()))
        ended = [call for call in self.calls if call[0] <= clock.now()]
        self.calls = [call for call in self.calls if call[0] > clock.now()]
        return [(tag, result) for _, tag, result in ended]

    def close(self):
        self.closed = True
        self.calls.clear()
