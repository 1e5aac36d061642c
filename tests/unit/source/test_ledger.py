"""What is known of each message, from its dequeue to its commit or its return."""

from ledgers import TERM, lease, ledger_with_batch, message
from refs import ref

from spark_azqueue.errors import Outcome
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import Fate, State


def test_the_same_id_in_two_queues_is_two_messages():
    ledger = Ledger()

    assert ledger.handed_out == 0, "none is tracked but in an availableNow run"
    assert ledger.dequeued(*message("r1", queue=ref("a-queue")), TERM) is Fate.ROW
    assert ledger.dequeued(*message("r2", queue=ref("b-queue")), TERM) is Fate.ROW


def test_queues_of_one_name_in_two_accounts_are_two_queues():
    here, there = ref("orders", "here"), ref("orders", "there")
    ledger = ledger_with_batch(message("r1", queue=here), message("r2", queue=there))

    ledger.committed(1)
    ledger.settled(lease("r1", queue=here), Outcome.OK)

    assert ledger.state(lease("r1", queue=here)) is None
    assert ledger.state(lease("r2", queue=there)) is State.COMMITTED


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
