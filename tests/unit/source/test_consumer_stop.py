"""A stop: what is deleted, what is released, and what is left alone."""

from consuming import batch


def test_a_stop_finishes_deletes_that_are_owed(spark, fake):
    fake.put_many("orders", [str(n) for n in range(50)])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.committed(e1)

    consumer.close()

    assert fake.count("orders") == 0


def test_a_stop_never_raises(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    fake.permissions = "ra"
    consumer.committed(e1)

    consumer.close()
