"""What is known of each message, from its dequeue to its commit or its return."""

from ledgers import TERM, lease, ledger_with_batch, message
from refs import ref

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import WAITING, Fate, State


def test_a_new_message_gives_a_row_and_waits():
    ledger = Ledger()

    assert ledger.dequeued(*message("r1"), TERM) is Fate.ROW
    assert ledger.state(lease("r1")) is State.HELD
    assert ledger.committed(1) == []
    assert ledger.release(WAITING) == [lease("r1")]


def test_a_committed_batch_is_deleted_with_its_receipts_in_the_order_given_out():
    messages = [message(f"r{n}", f"m{n}") for n in range(5)]
    ledger = ledger_with_batch(*messages)

    assert ledger.committed(1) == [lease(f"r{n}", f"m{n}") for n in range(5)]
    assert ledger.state(lease("r1", "m1")) is State.COMMITTED


def test_only_the_batch_in_question_is_committed():
    ledger = ledger_with_batch(message("r1", "x"))
    ledger.dequeued(*message("r2", "y"), TERM)
    ledger.hand_out([message("r2", "y")], 2)

    assert ledger.committed(2) == [lease("r2", "y")]
    assert ledger.state(lease("r1", "x")) is State.HELD


def test_the_same_id_in_two_queues_is_two_messages():
    ledger = Ledger()

    assert ledger.dequeued(*message("r1", queue=ref("a-queue")), TERM) is Fate.ROW
    assert ledger.dequeued(*message("r2", queue=ref("b-queue")), TERM) is Fate.ROW


def test_queues_of_one_name_in_two_accounts_are_two_queues():
    here, there = ref("orders", "here"), ref("orders", "there")
    ledger = ledger_with_batch(message("r1", queue=here), message("r2", queue=there))

    ledger.committed(1)
    ledger.settled(lease("r1", queue=here), Outcome.OK)

    assert ledger.state(lease("r1", queue=here)) is None
    assert ledger.state(lease("r2", queue=there)) is State.COMMITTED


def test_a_batch_is_committed_once():
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)

    assert ledger.committed(1) == []


def test_what_is_released_is_unknown_afterwards():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)

    assert ledger.release(WAITING) == [lease("r1")]
    assert ledger.release(WAITING) == []
    assert ledger.dequeued(*message("r2"), TERM) is Fate.ROW


def test_releasing_what_waits_leaves_a_batch_alone():
    ledger = ledger_with_batch(message("r1", "x"))
    ledger.dequeued(*message("r2", "y"), TERM)

    assert ledger.release(WAITING) == [lease("r2", "y")]
    assert ledger.committed(1) == [lease("r1", "x")]


def test_a_forgotten_batch_is_never_deleted_and_its_copies_are_new():
    ledger = ledger_with_batch(message("r1"))

    ledger.forget(1)

    assert ledger.committed(1) == []
    assert ledger.dequeued(*message("r2"), TERM) is Fate.ROW


def test_forgetting_tells_how_many_receipts_in_rows_are_dead():
    kept, renewed, again = message("r1", "x"), message("r2", "y"), message("r3", "z")
    ledger = ledger_with_batch(kept, renewed, again)
    ledger.due(TERM.renew_at)
    ledger.renewed(lease("r2", "y"), Outcome.OK, lease("r4", "y"), TERM, 0.0)
    ledger.dequeued(*message("r5", "z"), TERM)

    assert ledger.forget(1) == 2


def test_a_dropped_message_is_unknown():
    ledger = ledger_with_batch(message("r1"))
    ledger.committed(1)
    ledger.settled(lease("r1"), Outcome.GONE)

    ledger.drop(lease("r1"))
    ledger.drop(lease("r1"))

    assert len(ledger) == 0


def test_one_set_aside_is_deleted_at_once_and_in_no_batch():
    ledger = Ledger()
    ledger.dequeued(*message("r1"), TERM)

    assert ledger.set_aside(message("r1").message) == [lease("r1")]
    assert ledger.release(WAITING) == []
    assert ledger.dequeued(*message("r2"), TERM) is Fate.DELETE
