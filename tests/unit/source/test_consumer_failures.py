"""A call that fails releases what it had leased."""

import pytest

from spark_azqueue.errors import AccessDenied, UndecodableBody
from spark_azqueue.testing import Fault


def test_a_call_that_fails_gives_back_what_it_had_leased(spark, fake):
    fake.put_many("orders", [str(n) for n in range(200)])
    fake.faults.add(Fault("dequeue", "forbidden", nth=4))
    consumer = spark.start()

    with pytest.raises(AccessDenied):
        consumer.latest(consumer.initial, None)

    assert fake.visible("orders") == 200


def test_an_undecodable_body_stops_the_query_and_everything_is_back(spark, fake):
    fake.put_many("orders", ["YQ==", "no base64!", "Yg=="])
    consumer = spark.start(messageEncoding="base64", onUndecodable="fail")

    with pytest.raises(UndecodableBody) as caught:
        consumer.latest(consumer.initial, None)

    assert "messageEncoding=base64" in str(caught.value)
    assert "no base64!" not in str(caught.value)
    assert fake.visible("orders") == 3
    assert fake.requests["delete"] == 0
