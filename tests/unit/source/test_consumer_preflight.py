"""What is checked before anything is leased."""

import pytest

from spark_azqueue.errors import AccessDenied, QueueNotFound


def test_a_missing_queue_is_told_before_anything_is_leased(spark, fake):
    fake.put("orders", "a")
    consumer = spark.start(queue="orders,nowhere")

    with pytest.raises(QueueNotFound, match="'nowhere'"):
        consumer.latest(consumer.initial, None)

    assert fake.visible("orders") == 1
    assert fake.requests["dequeue"] == 0


def test_a_missing_queue_is_created_where_that_is_asked_for(spark, fake):
    consumer = spark.start(queue="orders,created", createQueue="true")

    assert consumer.latest(consumer.initial, None) == consumer.initial
    assert fake.count("created") == 0


def test_a_credential_that_may_not_update_is_refused_before_anything_is_leased(spark, fake):
    fake.put("orders", "a")
    fake.permissions = "rap"
    consumer = spark.start()

    with pytest.raises(AccessDenied, match="SAS letter 'u'"):
        consumer.latest(consumer.initial, None)

    assert fake.requests["dequeue"] == 0
