"""A call that fails releases what it had leased."""

import pytest

from spark_azqueue.errors import AccessDenied
from spark_azqueue.testing import Fault


def test_a_call_that_fails_gives_back_what_it_had_leased(spark, fake):
    fake.put_many("orders", [str(n) for n in range(200)])
    fake.faults.add(Fault("dequeue", "forbidden", nth=4))
    consumer = spark.start()

    with pytest.raises(AccessDenied):
        consumer.latest(consumer.initial, None)

    assert fake.visible("orders") == 200
