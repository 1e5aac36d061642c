"""Messages that somebody updates, while they are in a batch or wait for one."""

from azure.storage.queue import QueueClient
from consuming import SOON, batch, bodies, rows, run_one_batch, texts
from doubles import AtOnce

from spark_azqueue.source import suspects


def user_updates(fake, row, content=None):
    """A program with the receipt of a row updates the message; it is visible at once."""
    with QueueClient.from_connection_string(
        fake.connection_string, "orders", api_version="2021-12-02", retry_total=0
    ) as client:
        client.update_message(
            row["message_id"],
            row["pop_receipt"].removeprefix("deleteOnCommit=true "),
            content=content,
            visibility_timeout=0,
        )


def test_a_message_that_the_users_own_batch_updated_is_a_new_one(spark, fake):
    # Given a batch in which the user writes a new text into the message
    fake.put("orders", "draft")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    (row,) = rows(consumer.plan(consumer.initial, e1))
    user_updates(fake, row, "final")

    # When that batch is committed
    e2, found = batch(consumer, e1)

    # Then the new text is a row of its own, and deleted after its own batch
    assert found == ["final"]
    assert texts(fake) == ["final"]
    consumer.latest(e2, None)
    assert fake.count("orders") == 0


def test_a_message_that_was_only_made_visible_gives_no_second_row(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    (row,) = rows(consumer.plan(consumer.initial, e1))
    user_updates(fake, row)

    assert batch(consumer, e1) == (e1, [])
    fake.wait_until(lambda: fake.count("orders") == 0, SOON)


def test_a_message_that_is_updated_while_it_waits_for_its_batch(spark, fake, monkeypatch):
    # Given a batch that failed: one of its messages is delivered alone, while the other waits
    monkeypatch.setattr(suspects, "REPEATS", 1)
    e0, e1 = run_one_batch(spark, fake, "a", "b")
    options = {"maxDequeueCount": "1"}
    consumer = spark.start(**options, make_workers=AtOnce, renews=False)
    assert consumer.plan(e0, e1) == []
    start, found = batch(consumer, e1)
    (draft,) = {"a", "b"}.difference(found)

    # When its lease runs out, and another consumer writes a new text into it
    fake.clock.advance(3600)
    other = spark.start()
    end = other.latest(other.initial, None)
    for row in rows(other.plan(other.initial, end)):
        if row["body"] == draft:
            user_updates(fake, row, "final")

    # Then the new text is given out before it is deleted, and nothing fails
    given_out = []
    for _ in range(4):
        before = texts(fake)
        end = consumer.latest(start, None)
        found = bodies(consumer.plan(start, end))
        given_out += found
        if "final" not in given_out:
            assert "final" in before
        start = end
    assert given_out.count("final") == 1
    assert "final" not in texts(fake)
