"""The driver-side half, called as Spark calls it: what it leases, gives out and deletes.

Here and in the other tests of the consumer eN is the offset that ends micro-batch N;
`latest` is Spark's latestOffset, `plan` its partitions, `committed` its commit. A bare
`latest(None)` is how Spark 4.0 and 4.1 call it. A new object on the same queue is a restart.
"""

import pytest
from consuming import SOON, batch, leased, rows, wait_until

from spark_azqueue.testing import Fault


def test_nothing_is_sent_before_the_first_call(spark, fake):
    consumer = spark.start()
    consumer.close()

    assert sum(fake.requests.values()) == 0


def test_messages_are_leased_given_out_and_deleted_after_the_commit(spark, fake):
    fake.put_many("orders", ["a", "b", "c"])
    consumer = spark.start()

    e1, found = batch(consumer, consumer.initial)
    assert found == ["a", "b", "c"]
    assert leased(fake) == ["a", "b", "c"]
    assert fake.requests["delete"] == 0

    consumer.committed(e1)
    fake.wait_until(lambda: fake.count("orders") == 0, SOON)


def test_asked_twice_from_one_start_nothing_more_is_leased(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start()
    e1 = consumer.latest(consumer.initial, None)
    fake.put("orders", "b")

    assert consumer.latest(consumer.initial, None) == e1
    assert leased(fake) == ["a"]


def test_a_commit_may_come_late_twice_or_never(spark, fake):
    consumer = spark.start()
    start, ends = consumer.initial, []
    for number in range(4):
        fake.put("orders", str(number))
        start, _ = batch(consumer, start)
        ends.append(start)
    fake.wait_until(lambda: fake.count("orders") == 1, SOON)
    fake.reset_counters()

    for end in [ends[0], ends[0], ends[2], ends[1], ends[3], ends[3], consumer.initial]:
        consumer.committed(end)

    fake.wait_until(lambda: fake.count("orders") == 0, SOON)
    assert fake.requests["delete"] == 1  # the last batch's: the others' are done


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


def test_copies_within_one_batch_give_one_row_and_are_deleted(spark, fake):
    fake.put_many("orders", [str(n) for n in range(40)])
    fake.faults.add(Fault("dequeue", "delivered_twice", times=1))
    consumer = spark.start()

    e1, found = batch(consumer, consumer.initial)

    assert sorted(found) == sorted(map(str, range(40)))
    consumer.latest(e1, None)
    assert fake.count("orders") == 0


def test_a_consumer_that_is_closed_leaves_no_connection_open(spark, fake):
    fake.put_many("orders", [str(n) for n in range(200)])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    consumer.latest(e1, None)
    assert fake.connections

    consumer.close()

    wait_until(lambda: not fake.connections)  # the server hears of it some time later
    assert not fake.connections
