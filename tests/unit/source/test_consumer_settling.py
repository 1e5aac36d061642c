"""A restart after the last batch was committed: its messages are deleted from the checkpoint."""

from consuming import bodies


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
