"""A restart after the last batch was committed: its messages are deleted from the checkpoint."""

from consuming import batch, bodies, run_one_batch

from spark_azqueue.metrics.report import Counters
from spark_azqueue.testing import Fault


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
