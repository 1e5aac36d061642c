"""The ledger against a model of it, through any order of events."""

import itertools
from collections import OrderedDict

from budget import EXAMPLES
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from refs import ORDERS

from spark_azqueue.errors import Outcome
from spark_azqueue.service.messages import Lease, Message, Received
from spark_azqueue.service.queues.calls import Delete, Release
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import WAITING, Fate, State
from spark_azqueue.source.leases.timing import Term

BOUND = 2
TERM = Term.of(0.0, 100.0)
IN_TIME, TOO_LATE = 10.0, 1000.0

ids = st.sampled_from(["x", "y", "z", "u"])
texts = st.sampled_from(["T", "updated"])
answers = st.sampled_from([Outcome.OK, Outcome.GONE, Outcome.LOST, Outcome.RETRY])
deleted = answers | st.just(Outcome.PROBABLY)


class Known:
    """What the model knows of one message."""

    def __init__(self, text, receipt):
        self.text = text
        self.receipt = receipt
        self.state = State.HELD
        self.batch = WAITING
        self.renewing = self.lost = False


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.ledger = Ledger(remember_at_most=BOUND, doubt_at_most=BOUND)
        self.model = {}
        self.remembered = OrderedDict()
        self.in_doubt = OrderedDict()
        self.handed_out = {}
        self.deletes = []
        self.renewals = []
        self.numbers = itertools.count(1)
        self.receipts = itertools.count(1)

    def lease(self, message_id):
        return Lease(ORDERS, message_id, self.model[message_id].receipt)

    def held_in(self, batch):
        return [
            message_id
            for message_id in self.handed_out.get(batch, self.model)
            if message_id in self.model
            and self.model[message_id].state is State.HELD
            and self.model[message_id].batch == batch
        ]

    def remember(self, message_id, state=State.REMEMBERED):
        for each in (self.remembered, self.in_doubt):
            each.pop(message_id, None)
        self.model[message_id].state = state
        kept = self.remembered if state is State.REMEMBERED else self.in_doubt
        kept[message_id] = None
        while len(kept) > BOUND:
            oldest, _ = kept.popitem(last=False)
            del self.model[oldest]

    def forget(self, message_id):
        del self.model[message_id]
        for each in (self.remembered, self.in_doubt):
            each.pop(message_id, None)

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    @rule(message_id=ids, text=texts)
    def dequeue(self, message_id, text):
        receipt = f"r{next(self.receipts)}"
        message, lease = (
            Message(ORDERS, message_id, text, 0, 0, 1),
            Lease(ORDERS, message_id, receipt),
        )
        known = self.model.get(message_id)

        fate = self.ledger.dequeued(message, lease, TERM)

        if known is None or known.text != text:
            # Only what is unknown, or was updated, gives a row.
            assert fate is Fate.ROW
            if known is not None:
                self.forget(message_id)
            self.model[message_id] = Known(text, receipt)
            return
        known.receipt, known.renewing, known.lost = receipt, False, False
        if known.state is State.LEAVING:
            assert fate is Fate.ROW
            known.state, known.batch = State.HELD, WAITING
        elif known.state is State.HELD:
            assert fate is Fate.HELD_ALREADY
        else:
            assert fate is Fate.DELETE
            self.deletes.append(self.lease(message_id))

    @rule(data=st.data())
    def hand_out(self, data):
        waiting = self.held_in(WAITING)
        chosen = data.draw(st.permutations(waiting))[: data.draw(st.integers(0, len(waiting)))]
        batch = next(self.numbers)
        received = [
            Received(Message(ORDERS, each, self.model[each].text, 0, 0, 1), self.lease(each))
            for each in chosen
        ]

        leases = self.ledger.hand_out(received, batch)

        assert leases == [self.lease(message_id) for message_id in chosen]
        self.handed_out[batch] = chosen
        for message_id in chosen:
            self.model[message_id].batch = batch

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def commit(self, data):
        batch = data.draw(st.sampled_from(sorted(self.handed_out)))
        held = self.held_in(batch)
        now = [self.lease(each) for each in held if not self.model[each].renewing]

        leases = self.ledger.committed(batch)

        # Just the messages of this batch, each with its newest receipt, but none that is renewing.
        assert leases == now
        self.deletes += now
        for message_id in held:
            self.model[message_id].state = State.COMMITTED
        del self.handed_out[batch]

    @precondition(lambda self: self.handed_out)
    @rule(data=st.data())
    def leave_to_the_user(self, data):
        batch = data.draw(st.sampled_from(sorted(self.handed_out)))
        held = self.held_in(batch)

        self.ledger.forget(batch)

        for message_id in held:
            self.forget(message_id)
        del self.handed_out[batch]

    @rule()
    def give_back_what_waits(self):
        held = self.held_in(WAITING)
        now = {self.lease(each) for each in held if not self.model[each].renewing}

        assert set(self.ledger.release(WAITING)) == now
        for message_id in held:
            if self.model[message_id].renewing:
                self.model[message_id].state = State.LEAVING
            else:
                self.forget(message_id)

    @rule(data=st.data())
    def set_aside(self, data):
        waiting = self.held_in(WAITING)
        if not waiting:
            return
        message_id = data.draw(st.sampled_from(waiting))
        known = self.model[message_id]
        now = [] if known.renewing else [self.lease(message_id)]

        message = Message(ORDERS, message_id, known.text, 0, 0, 1)
        assert self.ledger.set_aside(message) == now
        self.deletes += now
        known.state = State.COMMITTED

    @precondition(lambda self: self.deletes)
    @rule(data=st.data(), outcome=deleted)
    def answer_a_delete(self, data, outcome):
        lease = self.deletes.pop(data.draw(st.integers(0, len(self.deletes) - 1)))
        known = self.model.get(lease.message_id)

        self.ledger.settled(lease, outcome)

        if known is None or known.receipt != lease.pop_receipt or known.state is State.HELD:
            return
        if outcome is Outcome.OK:
            self.forget(lease.message_id)
        elif outcome is Outcome.PROBABLY:
            self.remember(lease.message_id, State.PROBABLY_GONE)
        else:
            self.remember(lease.message_id)

    @rule()
    def renew(self):
        due = [
            message_id
            for message_id, known in self.model.items()
            if known.state is State.HELD and not known.renewing and not known.lost
        ]

        leases = self.ledger.due(TOO_LATE)

        # Everything that is held, waiting or given out; nothing else, and nothing twice.
        assert sorted(leases, key=str) == sorted(map(self.lease, due), key=str)
        self.renewals += leases
        for message_id in due:
            self.model[message_id].renewing = True

    @precondition(lambda self: self.renewals)
    @rule(data=st.data(), outcome=answers, now=st.sampled_from([IN_TIME, TOO_LATE]))
    def answer_a_renewal(self, data, outcome, now):
        old = self.renewals.pop(data.draw(st.integers(0, len(self.renewals) - 1)))
        known = self.model.get(old.message_id)
        new = Lease(ORDERS, old.message_id, f"r{next(self.receipts)}")

        newest, waited, *_ = self.ledger.renewed(
            old, outcome, new if outcome is Outcome.OK else None, TERM, now
        )

        if known is None or known.receipt != old.pop_receipt or not known.renewing:
            assert waited is None
            return
        known.renewing = False
        if outcome is Outcome.OK:
            known.receipt = new.pop_receipt
        elif outcome.refused or now == TOO_LATE:
            known.lost = True
        assert newest == self.lease(old.message_id)
        if known.state is State.LEAVING:
            assert waited is (None if outcome.refused else Release)
            self.forget(old.message_id)
        elif known.state is State.COMMITTED and outcome.refused:
            assert waited is None
            self.remember(old.message_id)
        elif known.state is State.COMMITTED:
            assert waited is Delete
            self.deletes.append(newest)
        else:
            assert waited is None

    # ── what always holds ─────────────────────────────────────────────────────────────────────────

    @invariant()
    def everything_is_known_as_it_should_be(self):
        assert len(self.ledger) == len(self.model)
        for message_id, known in self.model.items():
            assert self.ledger.state(self.lease(message_id)) is known.state

    @invariant()
    def no_more_is_remembered_than_the_bound(self):
        for state in (State.REMEMBERED, State.PROBABLY_GONE):
            assert len([k for k in self.model.values() if k.state is state]) <= BOUND
        remembered = [k for k in self.model.values() if k.state is State.REMEMBERED]
        assert self.ledger.remembered == len(remembered)

    @invariant()
    def the_next_renewal_is_the_first_of_those_that_are_held(self):
        due = [
            known
            for known in self.model.values()
            if known.state is State.HELD and not known.renewing and not known.lost
        ]
        assert (self.ledger.next_due() is not None) is bool(due)


LedgerMachine.TestCase.settings = settings(
    max_examples=7 * EXAMPLES,
    stateful_step_count=40,
)
TestLedger = LedgerMachine.TestCase
