"""The peek, with queues that are handed in."""

import pytest
from refs import ref

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.messages import Message
from spark_azqueue.source.peek import peeked
from spark_azqueue.source.rows import record_batches


class Queue:
    """A queue of these texts, which cannot be reached at the first attempt."""

    def __init__(self, ref, texts):
        self.ref = ref
        self.texts = texts
        self.asked = []

    def peek(self, count):
        self.asked.append(count)
        if len(self.asked) == 1:
            raise ServiceUnavailable("busy", status=503, outcome=Outcome.RETRY)
        return tuple(
            Message(self.ref, str(number), text, 0, 0, 0)
            for number, text in enumerate(self.texts[:count])
        )


class Queues:
    def __init__(self, *queues):
        self.queue = {queue.ref: queue for queue in queues}.__getitem__


@pytest.mark.parametrize("texts", [["a", "b", "c"], ["a"], []])
def test_each_queue_is_peeked_at_with_retries(texts):
    config = source_config(
        {
            "secret.connectionString": "AccountName=acc;AccountKey=a2V5",
            "queue": "orders,refunds",
            "peekMessages": "2",
        },
        {},
    )
    orders, refunds = Queue(ref("orders", "acc"), texts), Queue(ref("refunds", "acc"), ["x"])

    parts = peeked(config, (("queue", "string"), ("body", "string")), Queues(orders, refunds))

    found = [row for part in parts for each in record_batches(part) for row in each.to_pylist()]
    assert [(row["queue"], row["body"]) for row in found] == [
        *(("orders", text) for text in texts[:2]),
        ("refunds", "x"),
    ]
    assert orders.asked == refunds.asked == [2, 2]
