"""What a call that failed, or a mode, leaves to be settled: tried again, released, or left."""

import time
from datetime import datetime, timezone

import pytest
from consuming import SOON, batch

from spark_azqueue.errors import AccessDenied
from spark_azqueue.source.intake.polling import ENOUGH_NEWER
from spark_azqueue.testing import Fault


def one_batch(spark, fake, *texts, **options):
    """A first run that gives out one batch, and is killed after it; returns that batch's end."""
    fake.put_many("orders", texts)
    consumer = spark.start(**options)
    end, _ = batch(consumer, consumer.initial)
    return end


def test_restored_deletes_that_failed_are_made_when_they_are_asked_for_again(spark, fake):
    # Given a restart that finds a committed batch, and may not delete
    end = one_batch(spark, fake, "a", "b")
    again = spark.start()
    again.engine.open()
    fake.faults.add(Fault("delete", "forbidden", nth=1))
    with pytest.raises(AccessDenied):
        again.committed(end)

    # When it may, and is asked once more
    again.committed(end)

    # Then nothing is left
    assert fake.count("orders") == 0


def test_a_commit_that_failed_is_not_forgotten(spark, fake):
    # Given a second batch, and a delete of the first that no retry helps
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    fake.faults.add(Fault("delete", "forbidden", nth=1))
    consumer.committed(e1)
    fake.put("orders", "b")
    e2, found = batch(consumer, e1)
    assert found == ["b"]
    with pytest.raises(AccessDenied):
        consumer.committed(e2)

    # When the second one's commit is told again
    consumer.committed(e2)

    # Then its message goes
    fake.wait_until(lambda: [m.text for m in fake.messages("orders")] == ["a"], SOON)


def test_a_restart_deletes_nothing_where_deleting_is_up_to_the_user(spark, fake):
    end = one_batch(spark, fake, "a", "b", deleteOnCommit="false")
    again = spark.start(deleteOnCommit="false")

    assert again.latest(end, None) == end
    again.close()

    assert fake.requests["delete"] == 0
    assert fake.count("orders") == 2


def test_what_a_run_only_looked_at_is_given_back_when_the_look_fails(spark, fake):
    # Given an availableNow run of one queue, and messages that came later
    fake.put("orders", "old")
    consumer = spark.start(receiveParallelism="1")
    consumer.freeze_cutoff()
    fake.clock.advance(2)
    fake.put_many("orders", ["later"] * 100)

    # When the look fails at its third page
    fake.faults.add(Fault("dequeue", "forbidden", nth=3))
    with pytest.raises(AccessDenied):
        consumer.latest(consumer.initial, None)

    # Then all that it had leased is back
    assert fake.requests["dequeue"] == 3
    assert fake.visible("orders") == 101


def test_a_replay_that_failed_is_done_when_it_is_asked_for_again(spark, fake):
    # Given a restart that may not release the messages of an unfinished batch
    end = one_batch(spark, fake, "a", "b")
    again = spark.start()
    again.engine.open()
    fake.faults.add(Fault("update", "forbidden", nth=1))
    with pytest.raises(AccessDenied):
        again.plan(again.initial, end)

    # When it may, and is asked once more
    assert again.plan(again.initial, end) == []

    # Then they are available
    assert fake.visible("orders") == 2


def test_a_run_reads_what_its_replay_released_behind_many_newer_messages(spark, fake):
    # Given an availableNow run that begins with an unfinished batch, and a busy queue
    end = one_batch(spark, fake, "old")
    again = spark.start(receiveParallelism="1")
    again.freeze_cutoff()
    fake.clock.advance(2)
    fake.put_many("orders", ["later"] * (ENOUGH_NEWER + 100))
    fake.clock.advance(2)

    # When its replay puts the old message behind all of the newer ones
    assert again.plan(again.initial, end) == []

    # Then the run reads it
    assert batch(again, end)[1] == ["old"]


def test_a_delete_that_a_renewal_holds_up_is_waited_for_too(spark, fake):
    # Given a batch whose renewal is under way, its answer being slow
    ahead = [0.0]
    fake.put("orders", "a")
    consumer = spark.start(visibilityTimeout="60", clock=lambda: time.monotonic() + ahead[0])
    end, _ = batch(consumer, consumer.initial)
    fake.faults.add(Fault("update", "slow", seconds=0.5))
    ahead[0] = 31.0
    fake.wait_until(lambda: fake.requests["update"] == 2, SOON)

    # When it is committed, and the stream is idle
    assert consumer.latest(end, None) == end

    # Then the queue is empty when the call returns
    assert fake.count("orders") == 0


def test_a_consumer_that_is_closed_renews_nothing_more(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    batch(consumer, consumer.initial)
    assert spark.begun["leases"]

    consumer.close()

    spark.wait_for("leases")


def test_an_offset_tells_the_age_of_its_oldest_message(spark, fake):
    fake.put("orders", "older")
    oldest = fake.clock.now()
    fake.clock.advance(3600)
    fake.put("orders", "newer")
    consumer = spark.start()

    end, found = batch(consumer, consumer.initial)

    assert sorted(found) == ["newer", "older"]
    told = datetime.strptime(end["oldest"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    assert told.timestamp() == pytest.approx(oldest, abs=5)
