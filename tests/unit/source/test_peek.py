"""The peek, with queues that are handed in."""

import pytest
from refs import ref

from spark_azqueue.errors import Outcome, ServiceUnavailable
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.messages import Message
from spark_azqueue.service.queues.calls import Peeked
from spark_azqueue.source.peek import peeked
from spark_azqueue.source.rows import record_batches


class Queue:
    """A queue of these texts, which cannot be reached at the first attempt."""

    def __init__(self, ref, texts, expires=None, answered_at=None):
        self.ref = ref
        self.expires = expires or {}
        self.answered_at = answered_at
        self.texts = texts
        self.asked = []

    def peek(self, count):
        self.asked.append(count)
        if len(self.asked) == 1:
            raise ServiceUnavailable("busy", status=503, outcome=Outcome.RETRY)
        return Peeked(
            tuple(
                Message(self.ref, str(number), text, 0, self.expires.get(text, 0), 0)
                for number, text in enumerate(self.texts[:count])
            ),
            self.answered_at,
        )


class Queues:
    def __init__(self, *queues):
        self._queues = {queue.ref: queue for queue in queues}

    def now(self, call):
        return self._queues[call.queue].peek(call.count)


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


@pytest.mark.parametrize(
    ("level", "answered_at", "found"),
    [
        ("readCommitted", 100_000_000, ["own"]),
        ("readUncommitted", 100_000_000, ["abandoned", "own"]),
        ("readCommitted", None, ["abandoned", "own"]),
    ],
)
def test_what_a_transaction_may_have_abandoned_gives_no_row(level, answered_at, found, caplog):
    config = source_config(
        {
            "secret.connectionString": "AccountName=acc;AccountKey=a2V5",
            "queue": "orders",
            "isolationLevel": level,
        },
        {},
    )
    expires = {"abandoned": 102_000_000, "own": 103_000_000}
    orders = Queue(ref("orders", "acc"), list(expires), expires, answered_at)

    parts = peeked(config, (("body", "string"),), Queues(orders))

    rows = [row for part in parts for each in record_batches(part) for row in each.to_pylist()]
    assert [row["body"] for row in rows] == found
    warned = ["left to expire" in record.message for record in caplog.records]
    assert any(warned) == (len(found) == 1)
