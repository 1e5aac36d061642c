"""The stream source on pages that are damaged: each message is a row, released, or told of."""

import re

import pytest
from consuming import batch

from spark_azqueue.errors import UndecodableBody
from spark_azqueue.testing import documents


@pytest.fixture
def spoil(monkeypatch):
    """Makes every page of the fake pass through a change of its second message."""
    whole = documents.dequeue_reply

    def spoil(pattern, by):
        def reply(messages, **more):
            pieces = whole(messages, **more).split(b"<QueueMessage>")
            if len(pieces) > 2:
                pieces[2] = re.sub(pattern, by, pieces[2])
            return b"<QueueMessage>".join(pieces)

        monkeypatch.setattr(documents, "dequeue_reply", reply)

    return spoil


@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (rb"<DequeueCount>1<", "<DequeueCount>²<".encode()),
        (rb"<InsertionTime>[^<]*<", b"<InsertionTime>yesterday<"),
        (rb"</MessageText>", b"</MessageText><MessageText>b</MessageText>"),
        (rb"<MessageText>.*</MessageText>", b""),
        (rb"</?TimeNextVisible>", b"<"),
    ],
)
def test_a_damaged_message_stops_a_query_that_wants_that_and_all_192_are_given_back(
    fake, spark, spoil, pattern, by
):
    fake.put_many("orders", [f"body {n}" for n in range(192)])
    spoil(pattern, by)
    consumer = spark.start(maxMessagesPerTrigger="192", parallelism="6")

    with pytest.raises(UndecodableBody, match="damaged within this message"):
        consumer.latest(consumer.initial, None)

    assert fake.visible("orders") == 192


def test_a_damaged_message_is_a_row_without_a_body_if_the_query_wants_that(fake, spark, spoil):
    fake.put_many("orders", [f"body {n}" for n in range(96)])
    spoil(rb"<InsertionTime>[^<]*<", b"<InsertionTime>yesterday<")
    consumer = spark.start(onUndecodable="permissive", maxMessagesPerTrigger="96")

    end, bodies = batch(consumer, consumer.initial)
    _, more = batch(consumer, end)

    assert sorted(body for body in bodies if body) == sorted(
        {f"body {n}" for n in range(96)} - {"body 1", "body 33", "body 65"}
    )
    assert bodies.count(None) == 3
    assert more == []
    assert fake.count("orders") == 0


def test_a_message_without_a_receipt_is_left_to_its_visibility_timeout(fake, spark, spoil, caplog):
    fake.put_many("orders", [f"body {n}" for n in range(32)])
    spoil(rb"<PopReceipt>[^<]*<", b"<PopReceipt><")
    consumer = spark.start(maxMessagesPerTrigger="32")

    end, bodies = batch(consumer, consumer.initial)
    batch(consumer, end)

    assert sorted(bodies) == sorted({f"body {n}" for n in range(32)} - {"body 1"})
    assert [message.text for message in fake.messages("orders")] == ["body 1"]
    assert "1 of its messages have no readable id or pop receipt" in caplog.text
