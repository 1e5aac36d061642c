"""A stop: what is deleted, what is released, and what is left alone."""

from consuming import batch, leased, run_one_batch


def test_a_stop_leaves_a_batch_alone_that_may_have_failed(spark, fake):
    # Given a batch that was given out, and a foreachBatch that failed, so Spark stops the source
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)

    consumer.close()

    # Then it is neither deleted nor released: nobody here knows whether it was committed
    assert leased(fake) == ["a", "b"]
    assert fake.requests["delete"] == 0

    # And the next run, which knows, makes it available
    again = spark.start()
    again.plan(again.initial, e1)
    assert fake.visible("orders") == 2


def test_a_stop_finishes_deletes_that_are_owed(spark, fake):
    fake.put_many("orders", [str(n) for n in range(50)])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.committed(e1)

    consumer.close()

    assert fake.count("orders") == 0


def test_a_stop_gives_back_what_is_held_for_a_later_batch(spark, fake):
    # Given two suspects of a batch that failed: one is given out alone, while the other waits
    e0, e1 = run_one_batch(spark, fake, "one", "two")
    consumer = spark.start(maxDequeueCount="1")
    consumer.plan(e0, e1)
    _, found = batch(consumer, e1)
    assert (len(found), sorted(leased(fake))) == (1, ["one", "two"])

    consumer.close()

    assert leased(fake) == found


def test_a_stop_never_raises(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    fake.permissions = "ra"
    consumer.committed(e1)

    consumer.close()
