"""Checkpoints that do not fit the options, and queues that come and go."""

import pytest
from consuming import batch, leased, run_one_batch, texts

from spark_azqueue.errors import AzQueueError, CheckpointMismatch
from spark_azqueue.source.offsets import QueueOffset


def test_a_checkpoint_of_another_account_is_refused(spark, fake):
    stranger = QueueOffset("stranger", 3).to_json()
    consumer = spark.start()

    with pytest.raises(CheckpointMismatch, match="'stranger'"):
        consumer.latest(stranger, None)
    assert fake.requests["dequeue"] == 0


def test_a_queue_may_be_added(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a")
    fake.create_queue("others")
    fake.put("others", "b")

    assert batch(spark.start(queue="orders,others"), e1)[1] == ["b"]
    assert fake.count("orders") == 0


def test_a_queue_may_be_removed_when_its_last_batch_is_committed(spark, fake, caplog):
    """A checkpoint steers no delete in a queue that the options do not name."""
    fake.create_queue("others")
    fake.put("others", "b")
    _, e1 = run_one_batch(spark, fake, "a", queue="orders,others")

    assert spark.start(queue="others").latest(e1, None) == e1

    assert "messages of ['orders'], which option 'queue' does not name any more" in caplog.text
    assert (texts(fake), texts(fake, "others")) == (["a"], [])


def test_a_queue_may_be_removed_even_if_it_was_deleted(spark, fake):
    fake.create_queue("others")
    _, e1 = run_one_batch(spark, fake, "a", queue="orders,others")
    fake.delete_queue("orders")

    assert spark.start(queue="others").latest(e1, None) == e1


def test_a_queue_whose_batch_has_to_be_replayed_may_not_be_removed(spark, fake):
    fake.create_queue("others")
    e0, e1 = run_one_batch(spark, fake, "a", queue="orders,others")

    with pytest.raises(CheckpointMismatch, match=r"\['orders'\].*add it until"):
        spark.start(queue="others").plan(e0, e1)

    assert leased(fake) == ["a"]


def test_rows_of_a_committed_batch_cannot_be_asked_for_again(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.latest(e1, None)

    with pytest.raises(AzQueueError, match="again after committing"):
        consumer.plan(consumer.initial, e1)
