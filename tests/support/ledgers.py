"""A ledger, the messages that it hears of, and their leases."""

from refs import ORDERS

from spark_azqueue.service.messages import Lease, Message, Received
from spark_azqueue.source.leases.ledger import Ledger
from spark_azqueue.source.leases.states import Fate
from spark_azqueue.source.leases.timing import Term

TERM = Term.of(0.0, 60.0)
LATER = Term.of(30.0, 60.0)


def message(receipt, message_id="x", text="T", queue=ORDERS, count=1, **more):
    """What a dequeue gave: the message, and its lease."""
    received = Message(
        queue,
        message_id,
        text,
        **{"insertion_time": 0, "expiration_time": 0, **more},
        dequeue_count=count,
    )
    return Received(received, Lease(queue, message_id, receipt))


def lease(receipt, message_id="x", queue=ORDERS):
    return Lease(queue, message_id, receipt)


def ledger_with_batch(*messages, batch=1, **settings):
    ledger = Ledger(**settings)
    for each in messages:
        assert ledger.dequeued(*each, TERM) is Fate.ROW
    ledger.hand_out(messages, batch)
    return ledger
