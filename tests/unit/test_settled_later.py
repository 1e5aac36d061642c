"""What a call that failed, or a mode, leaves to be settled: tried again, given back, or left."""

import pytest
from consuming import batch

from spark_azqueue.errors import AccessDenied
from spark_azqueue.testing import Fault

SOON = 10.0


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
    again.open()
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
    consumer.only_what_is_there()
    fake.clock.advance(2)
    fake.put_many("orders", ["later"] * 100)

    # When the look fails at its third page
    fake.faults.add(Fault("dequeue", "forbidden", nth=3))
    with pytest.raises(AccessDenied):
        consumer.latest(consumer.initial, None)

    # Then all that it had leased is back
    assert fake.requests["dequeue"] == 3
    assert fake.visible("orders") == 101
