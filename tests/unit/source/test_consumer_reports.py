"""What a consumer reports of its backlog, its leases and its counters."""

from dataclasses import replace

import pytest
from consuming import batch

from spark_azqueue.metrics.report import Counters, Report


def test_a_report_tells_the_backlog_what_is_held_and_what_was_counted(spark, fake):
    fake.create_queue("others")
    fake.put_many("orders", ["a", "b", "c"])
    consumer = spark.start(queue="orders,others", visibilityTimeout="90")
    assert consumer.report().backlog == {}, "before it runs nothing is sent"
    assert sum(fake.requests.values()) == 0

    e1, _ = batch(consumer, consumer.initial)
    counted = Counters(dequeued=3, delivered=3, delivered_bytes=3)
    expires = consumer.report().expires
    assert expires == pytest.approx(fake.clock.now() + 7 * 86_400, abs=5)
    report = consumer.report()
    assert replace(report, requests={}, latencies={}) == Report(
        {"orders": 3, "others": 0},
        3,
        0,
        90,
        counted,
        expires=expires,
        delivered_by_queue={"orders": 3},
    )
    assert report.requests["dequeue"] == fake.requests["dequeue"]
    assert (report.requests["count"], report.requests["peek"]) == (2 + 2, 2)

    assert consumer.latest(e1, None) == e1
    done = consumer.report()
    assert (done.held, done.counters) == (0, replace(counted, deleted=3))


def test_patterns_are_in_the_report_as_they_are_written(spark, fake):
    consumer = spark.start(queue="orders,ord*")
    batch(consumer, consumer.initial)
    report = consumer.report()

    assert report.template == "orders,ord*"
    assert Report.from_json(report.to_json()) == report
    assert spark.start(queue="orders").report().template == ""
    with pytest.raises(ValueError, match="no option can have"):
        Report.from_json(report.to_json() | {"template": 'a"b'})


def test_poison_queues_are_counted_if_they_may_be_used(spark, fake):
    fake.create_queue("orders-poison")
    fake.put_many("orders-poison", ["bad", "worse"])
    fake.put("orders", "a")
    consumer = spark.start(maxDequeueCount="3")
    batch(consumer, consumer.initial)

    assert consumer.report().poison == {"orders-poison": 2}
    assert consumer.report().backlog == {"orders": 1}


def test_a_message_that_never_expires_is_no_next_expiry(spark, fake):
    fake.put("orders", "a", ttl=-1)
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)
    assert consumer.report().expires is None

    fake.put("orders", "b", ttl=60)
    batch(consumer, e1)
    assert consumer.report().expires == pytest.approx(fake.clock.now() + 60, abs=5)


def test_the_age_of_what_waits_behind_a_batch_is_reported(spark, fake):
    fake.put_many("orders", [str(number) for number in range(3)])
    fake.clock.advance(600)
    consumer = spark.start(maxMessagesPerTrigger="1", dequeueAhead="false")
    batch(consumer, consumer.initial)

    assert 600 <= consumer.report().heads["orders"] <= 610
