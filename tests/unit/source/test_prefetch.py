"""Dequeuing ahead while Spark works: how much, when, and what becomes of it after a failure."""

import threading
import time

import pytest
from consuming import SOON, batch, bodies, rows, wait_until

from spark_azqueue.errors import AccessDenied
from spark_azqueue.source.batches import batch as making
from spark_azqueue.testing import Fault


def hidden(fake):
    """How many messages are leased."""
    return fake.count("orders") - fake.visible("orders")


def fill(fake, count):
    fake.put_many("orders", [str(n) for n in range(count)])


def test_what_was_leased_ahead_makes_the_next_batch(spark, fake):
    fill(fake, 40)
    consumer = spark.start(maxMessagesPerTrigger="20")
    e1, first = batch(consumer, consumer.initial)
    fake.wait_until(lambda: hidden(fake) == 40, SOON)
    fake.reset_counters()

    e2 = consumer.latest(e1, 10_000)

    assert fake.requests["dequeue"] == 0  # it was there already
    second = bodies(consumer.plan(e1, e2))
    assert sorted(first + second, key=int) == [str(n) for n in range(40)]
    consumer.latest(e2, 10_000)
    assert fake.count("orders") == 0


def test_it_can_be_switched_off(spark, fake):
    fill(fake, 100)
    consumer = spark.start(maxMessagesPerTrigger="20", dequeueAhead="false")

    batch(consumer, consumer.initial)
    spark.wait_for("prefetch")

    assert hidden(fake) == 20


def test_stopping_does_not_wait_for_a_look_ahead_that_hangs(spark, fake, monkeypatch):
    fill(fake, 100)
    consumer = spark.start(maxMessagesPerTrigger="20")
    monkeypatch.setattr("spark_azqueue.source.batches.builder._LAST_PAGES_S", 0.1)
    e1 = consumer.latest(consumer.initial, 10_000)
    fake.faults.add(Fault("dequeue", "slow", seconds=5.0))
    consumer.plan(consumer.initial, e1)

    consumer.close()

    (ahead,) = spark.begun["prefetch"]
    assert not ahead.done()


def test_an_error_met_ahead_comes_at_the_next_call_and_nothing_stays_leased(spark, fake):
    fill(fake, 100)
    consumer = spark.start(maxMessagesPerTrigger="40")
    e1 = consumer.latest(consumer.initial, 10_000)
    fake.faults.add(Fault("dequeue", "forbidden", nth=2))
    consumer.plan(consumer.initial, e1)

    with pytest.raises(AccessDenied):
        consumer.latest(e1, 10_000)

    # The first batch was proven committed and is deleted, the rest is back in the queue.
    fake.wait_until(lambda: fake.count("orders") == 60 and hidden(fake) == 0, SOON)


def test_bytes_bound_what_is_leased_ahead(spark, fake):
    fake.put_many("orders", ["x" * 60_000 for _ in range(96)])
    consumer = spark.start(maxBytesPerTrigger="300k", parallelism="1")

    _, first = batch(consumer, consumer.initial)
    spark.wait_for("prefetch")

    assert len(first) == 32
    assert hidden(fake) == 64


def test_with_a_log_a_batch_has_no_more_bytes_than_it_may(spark, fake, tmp_path):
    fake.put_many("orders", ["x" * 60_000 for _ in range(12)])
    consumer = spark.start(maxBytesPerTrigger="300k", writeAheadLog=f"file:{tmp_path}")

    e1, first = batch(consumer, consumer.initial)
    _, second = batch(consumer, e1)

    assert (len(first), len(second)) == (5, 5)


def test_a_row_whose_receipt_is_the_users_to_work_with_has_the_newest(spark, fake):
    # Given messages leased ahead, and renewed while they waited
    ahead = [0.0]
    fill(fake, 40)
    consumer = spark.start(
        maxMessagesPerTrigger="20",
        deleteOnCommit="false",
        visibilityTimeout="60",
        clock=lambda: time.monotonic() + ahead[0],  # a lease counts from the real time
    )
    e1, _ = batch(consumer, consumer.initial)
    spark.wait_for("prefetch")
    ahead[0] = 31.0
    wait_until(lambda: consumer.report().counters.renewals == 40)
    assert fake.requests["update"] == 1 + 40

    # When they make a batch
    e2 = consumer.latest(e1, 10_000)
    shown = {row["message_id"]: row["pop_receipt"] for row in rows(consumer.plan(e1, e2))}

    # Then their rows show receipts that are good
    assert len(shown) == 20
    assert shown.items() <= {m.id: m.receipt for m in fake.messages("orders")}.items()


@pytest.fixture
def made_in(monkeypatch):
    """The names of the threads that made rows, one for each batch."""
    threads = []
    streams = making.streams

    def noted(parts, columns, **more):
        threads.append(threading.current_thread().name)
        return streams(parts, columns, **more)

    monkeypatch.setattr(making, "streams", noted)
    return threads


def test_the_rows_of_a_full_batch_are_made_while_spark_works(spark, fake, made_in):
    fill(fake, 50)
    consumer = spark.start(maxMessagesPerTrigger="20")
    e1, first = batch(consumer, consumer.initial)
    spark.wait_for("prefetch")
    assert made_in[1:] == ["azqueue-prefetch-1"]

    e2, second = batch(consumer, e1)
    spark.wait_for("prefetch")
    assert made_in[1:] == ["azqueue-prefetch-1"], "the third batch is not full: more may come"

    e3, third = batch(consumer, e2)
    assert sorted(first + second + third, key=int) == [str(n) for n in range(50)]
    consumer.latest(e3, 10_000)
    assert fake.count("orders") == 0


def test_a_smaller_limit_applies_to_what_was_made_ahead(spark, fake):
    fill(fake, 40)
    consumer = spark.start(maxMessagesPerTrigger="20")
    offset, given = batch(consumer, consumer.initial)
    spark.wait_for("prefetch")

    while True:
        end = consumer.latest(offset, 8)
        if end == offset:
            break
        found = bodies(consumer.plan(offset, end))
        assert len(found) <= 8
        given += found
        offset = end

    assert sorted(given, key=int) == [str(n) for n in range(40)]
    assert fake.count("orders") == 0
