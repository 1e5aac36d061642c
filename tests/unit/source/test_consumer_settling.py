"""A restart after the last batch was committed: its messages are deleted from the checkpoint."""

import pytest
from consuming import batch, bodies, run_one_batch, texts

from spark_azqueue.errors import AccessDenied
from spark_azqueue.metrics.report import Counters
from spark_azqueue.testing import Fault


def test_a_committed_batch_is_settled_from_the_checkpoint(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", "b")

    again = spark.start()

    assert again.latest(e1, None) == e1
    assert fake.count("orders") == 0


def test_restored_deletes_are_over_before_anything_is_dequeued(spark, fake):
    # Given a committed batch whose deletes take long
    _, e1 = run_one_batch(spark, fake, *map(str, range(20)))
    fake.put("orders", "new")
    fake.reset_counters()
    fake.faults.add(Fault("delete", "slow", every=5, seconds=0.1))

    end, found = batch(spark.start(), e1)

    assert found == ["new"]
    operations = [entry.op for entry in fake.log if entry.op in ("delete", "dequeue")]
    assert operations.index("dequeue") == 20
    assert end["batch"] == 2


def test_restored_deletes_are_counted(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", "b", "c")
    fake.faults.add(Fault("delete", "not_found", times=1))
    consumer = spark.start()
    consumer.latest(e1, None)

    assert consumer.report().counters == Counters(deleted=2)


def test_without_the_restored_deletes_nothing_is_dequeued(spark, fake):
    _, e1 = run_one_batch(spark, fake, "a", "b")
    fake.faults.add(Fault("delete", "forbidden", nth=2))
    fake.reset_counters()

    with pytest.raises(AccessDenied):
        spark.start().latest(e1, None)

    assert fake.requests["dequeue"] == 0


def test_a_restored_receipt_that_is_dead_is_an_end(spark, fake):
    # Given a committed message that comes again before the restart, so its receipt is dead
    _, e1 = run_one_batch(spark, fake, "a")
    fake.clock.advance(3600)

    # When another consumer has it meanwhile
    other = spark.start()
    other.latest(other.initial, None)
    again = spark.start()

    # Then nothing of it is deleted with the old receipt, and its return is a row
    assert again.latest(e1, None) == e1
    assert texts(fake) == ["a"]
    fake.clock.advance(3600)
    assert batch(again, e1)[1] == ["a"]


def test_on_4_0_a_probe_alone_touches_nothing(spark, fake):
    # Given a batch that was logged; whether it was committed is not known yet
    _, e1 = run_one_batch(spark, fake, "a")
    again = spark.start()

    # When Spark probes with P(e1, e1)
    assert again.plan(e1, e1) == []

    # Then the messages of that batch are untouched
    assert texts(fake) == ["a"]
    assert fake.requests["delete"] == 0


def test_on_4_0_a_probe_after_a_bare_call_proves_nothing(spark, fake):
    # As Spark's wrapper for availableNow does it, of an uncommitted batch too.
    _, e1 = run_one_batch(spark, fake, "a")
    again = spark.start()
    assert again.latest(None, None) == again.initial

    assert again.plan(e1, e1) == []
    assert again.latest(None, None) == e1

    assert texts(fake) == ["a"]
    assert fake.requests["delete"] == 0


def test_on_4_0_a_committed_batch_is_settled_before_anything_is_dequeued(spark, fake):
    # A scheduled job: the leases of its last run have run out long since.
    _, e1 = run_one_batch(spark, fake, "a")
    fake.clock.advance(3600)
    again = spark.start()
    again.plan(e1, e1)
    fake.put("orders", "b")
    fake.reset_counters()

    e2 = again.latest(None, None)
    operations = [entry.op for entry in fake.log if entry.op in ("delete", "dequeue")]
    assert operations[:2] == ["delete", "dequeue"]
    again.committed(e1)
    assert bodies(again.plan(e1, e2)) == ["b"]

    assert texts(fake) == ["b"]
    assert again.latest(None, None) == e2
    assert fake.count("orders") == 0


def test_on_4_0_the_commit_that_was_lost_in_a_crash_is_made_up_for_by_planning(spark, fake):
    # Spark delivers no C(e1) after a crash between its log of batch 2 and that call.
    _, e1 = run_one_batch(spark, fake, "a")
    again = spark.start()
    again.plan(e1, e1)
    fake.put("orders", "b")

    e2 = again.latest(None, None)
    assert bodies(again.plan(e1, e2)) == ["b"]

    assert texts(fake) == ["b"]


def test_on_4_0_a_whole_run(spark, fake):
    consumer = spark.start()
    fake.put("orders", "a")

    e1 = consumer.latest(None, None)
    assert consumer.latest(None, None) == e1
    assert bodies(consumer.plan(consumer.initial, e1)) == ["a"]
    fake.put("orders", "b")
    e2 = consumer.latest(None, None)
    consumer.committed(e1)
    assert bodies(consumer.plan(e1, e2)) == ["b"]
    assert consumer.latest(None, None) == e2

    assert fake.count("orders") == 0
