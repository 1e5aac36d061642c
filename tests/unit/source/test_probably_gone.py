"""Deletes that were refused only after an attempt without an answer: they have probably worked."""

import pytest
from consuming import SOON, batch
from ledgers import TERM, lease, message

from spark_azqueue.errors import Outcome, ServiceError
from spark_azqueue.service.queues.calls import Delete
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import Fate, State
from spark_azqueue.testing import Fault


def ledger_with(*messages, blobs=None, **settings):
    """Committed, and each delete refused after an attempt without an answer."""
    ledger = Ledger(**settings)
    for each in messages:
        assert ledger.dequeued(*each, TERM) is Fate.ROW
    ledger.hand_out(messages, 1, blobs or {})
    for each in ledger.committed(1):
        assert ledger.settled(each, Outcome.PROBABLY) is None
    return ledger


@pytest.mark.parametrize("outcome", [Outcome.GONE, Outcome.LOST])
@pytest.mark.parametrize("unanswered", [False, True])
def test_a_refusal_says_less_after_an_attempt_without_an_answer(outcome, unanswered):
    error = ServiceError("refused", status=404, outcome=outcome)
    error.unanswered = unanswered

    result = Delete(lease("r1")).refused(error)

    assert result is (Outcome.PROBABLY if unanswered else outcome)
    assert result.refused is not unanswered


def test_it_counts_as_deleted_and_is_neither_held_nor_remembered():
    ledger = ledger_with(message("r1"))

    assert (ledger.counts.deleted, ledger.counts.deletes_refused) == (1, 0)
    assert (ledger.held, ledger.remembered) == (0, 0)
    assert ledger.state(lease("r1")) is State.PROBABLY_GONE


def test_the_oldest_are_forgotten_beyond_a_bound_of_their_own():
    messages = [message("r1", f"m{number}") for number in range(5)]
    ledger = ledger_with(*messages, doubt_at_most=3, remember_at_most=1)

    known = [ledger.state(lease("r1", f"m{number}")) is not None for number in range(5)]

    assert known == [False, False, True, True, True]
    assert len(ledger) == 3


def test_a_lost_answer_to_a_delete_is_no_lost_lease(spark, fake):
    """The visibility timeout does not grow, and nothing is remembered."""
    consumer = spark.start(clock=fake.clock.now, sleep=fake.clock.advance, renews=False)
    end = consumer.initial
    for number in range(8):
        fake.put("orders", str(number))
        fake.faults.add(Fault("delete", "reply_lost", times=1))
        end, bodies = batch(consumer, end)
        assert bodies == [str(number)]
        consumer.committed(end)
        consumer.engine.wait(SOON)
        fake.clock.advance(60)
    assert consumer.latest(end, None) == end

    report = consumer.report()
    assert report.visibility_timeout == 60
    assert (report.held, report.unconfirmed_deletes) == (0, 0)
    assert report.counters.deleted == 8
    assert report.counters.deletes_refused == 0
    assert fake.count("orders") == 0
