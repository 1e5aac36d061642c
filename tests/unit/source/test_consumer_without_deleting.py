"""Batches with deleteOnCommit=false: messages come again, leases are kept all the same."""

import pytest
from consuming import batch, run_one_batch, texts, wait_until

from spark_azqueue.errors import CheckpointMismatch


def lease_left(fake, text):
    (view,) = [view for view in fake.messages("orders") if view.text == text]
    return view.next_visible - fake.clock.now()


def test_without_deleting_a_committed_message_comes_again(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start(deleteOnCommit="false")
    e1, _ = batch(consumer, consumer.initial)

    assert consumer.latest(e1, None) == e1
    assert texts(fake) == ["a"]
    fake.clock.advance(3600)

    assert batch(consumer, e1)[1] == ["a"]
    assert fake.requests["delete"] == 0


def test_without_deleting_leases_follow_the_work_all_the_same(spark, fake, caplog):
    """A batch later: no dequeue leases for longer than five minutes, or than an offset has said."""
    fake.put("orders", "a")
    consumer = spark.start(deleteOnCommit="false", clock=fake.clock.now)
    e1, _ = batch(consumer, consumer.initial)
    assert lease_left(fake, "a") == pytest.approx(300, abs=10)
    fake.clock.advance(100)
    fake.put("orders", "b")
    e2, found = batch(consumer, e1)

    assert found == ["b"]
    assert lease_left(fake, "b") == pytest.approx(300, abs=10)
    assert e2["leasedFor"] == pytest.approx(400, abs=20), "four times what a batch took"
    assert caplog.messages == []
    fake.clock.advance(151)
    wait_until(lambda: consumer.report().counters.renewals == 1)
    fake.put("orders", "c")
    e3, found = batch(consumer, e2)

    assert found == ["c"]
    assert lease_left(fake, "c") == pytest.approx(400, abs=20)
    assert e3["leasedFor"] == pytest.approx(2 * 4 * 151, abs=20), "the receipt was replaced"
    assert "the pop receipts of 1 messages were replaced while it ran" in caplog.text


@pytest.mark.parametrize("now", ["true", "false"])
def test_what_was_given_out_without_deleting_is_never_deleted_by_a_later_run(spark, fake, now):
    """Its rows may not be acknowledged yet: the option counts that it had then."""
    _, e1 = run_one_batch(spark, fake, "a", "b", deleteOnCommit="false")
    fake.put("orders", "c")

    e2, found = batch(spark.start(deleteOnCommit=now), e1)

    assert found == ["c"]
    assert sorted(texts(fake)) == ["a", "b", "c"]
    assert spark.start(deleteOnCommit=now).latest(e2, None) == e2
    assert sorted(texts(fake)) == (["a", "b"] if now == "true" else ["a", "b", "c"])


def test_the_last_batch_may_be_the_user_s_and_the_option_damaged(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", deleteOnCommit="false")
    assert e1["deleteOnCommit"] is False

    with pytest.raises(CheckpointMismatch, match="'deleteOnCommit' is not valid"):
        spark.start().latest({**e1, "deleteOnCommit": "no"}, None)
