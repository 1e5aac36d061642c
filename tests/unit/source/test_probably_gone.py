"""Deletes that were refused only after an attempt without an answer: they have probably worked."""

import pytest
from consuming import SOON, batch
from ledgers import TERM, lease, message
from refs import ORDERS

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


def test_if_it_comes_back_it_gives_no_row_and_is_counted_once():
    ledger = ledger_with(message("r1"))

    assert ledger.dequeued(*message("r2"), TERM) is Fate.DELETE
    ledger.settled(lease("r2"), Outcome.OK)

    assert len(ledger) == 0
    assert ledger.counts.deleted == 1
    assert ledger.dequeued(*message("r3"), TERM) is Fate.ROW


def test_if_somebody_updated_it_meanwhile_it_is_a_new_message():
    ledger = ledger_with(message("r1"))

    assert ledger.dequeued(*message("r2", text="updated"), TERM) is Fate.ROW
    assert ledger.held == 1


def test_if_it_comes_back_and_is_refused_it_is_remembered():
    ledger = ledger_with(message("r1"))
    ledger.dequeued(*message("r2"), TERM)

    ledger.settled(lease("r2"), Outcome.GONE)

    assert ledger.state(lease("r2")) is State.REMEMBERED
    assert (ledger.remembered, ledger.held) == (1, 0)
    assert ledger.counts.deletes_refused == 1


def test_one_that_is_remembered_is_so_no_more_when_it_is_probably_gone():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)
    ledger.hand_out([message("r1")], 1)
    ledger.committed(1)
    ledger.settled(lease("r1"), Outcome.GONE)
    ledger.dequeued(*message("r2"), TERM)

    ledger.settled(lease("r2"), Outcome.PROBABLY)

    assert ledger.remembered == 0
    assert ledger.counts.deleted == 1


def test_the_oldest_are_forgotten_beyond_a_bound_of_their_own():
    messages = [message("r1", f"m{number}") for number in range(5)]
    ledger = ledger_with(*messages, doubt_at_most=3, remember_at_most=1)

    known = [ledger.state(lease("r1", f"m{number}")) is not None for number in range(5)]

    assert known == [False, False, True, True, True]
    assert len(ledger) == 3


def test_its_blob_stays_until_the_service_says_that_the_message_is_deleted():
    ledger = ledger_with(message("r1"), blobs={(ORDERS, "x"): "blob"})

    ledger.dequeued(*message("r2"), TERM)

    assert ledger.settled(lease("r2"), Outcome.OK) == "blob"


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
