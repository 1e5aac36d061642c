"""The driver-side half, called as Spark calls it: what it leases, gives out and deletes.

Here and in the other tests of the consumer eN is the offset that ends micro-batch N;
`latest` is Spark's latestOffset, `plan` its partitions, `committed` its commit. A bare
`latest(None)` is how Spark 4.0 and 4.1 call it. A new object on the same queue is a restart.
"""

import pytest
from consuming import batch, leased, rows, wait_until


def test_asked_twice_from_one_start_nothing_more_is_leased(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    fake.put("orders", "b")

    assert consumer.latest(consumer.initial, None) == e1
    assert leased(fake) == ["a"]


@pytest.mark.parametrize(("most", "option", "sizes"), [(3, "100", [3, 3, 1]), (None, "4", [4, 3])])
def test_a_batch_has_at_most_so_many_messages(spark, fake, most, option, sizes):
    fake.put_many("orders", [str(n) for n in range(7)])
    consumer = spark.start(maxMessagesPerTrigger=option)
    start, found = consumer.initial, []
    for _ in sizes:
        end = consumer.latest(start, most)
        found.append(len(rows(consumer.plan(start, end))))
        start = end

    assert found == sizes


def test_a_consumer_that_is_closed_leaves_no_connection_open(spark, fake):
    fake.put_many("orders", [str(n) for n in range(200)])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.latest(e1, None)
    assert fake.connections

    consumer.close()

    wait_until(lambda: not fake.connections)  # the server hears of it some time later
    assert not fake.connections
