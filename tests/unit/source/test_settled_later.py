"""What a call that failed, or a mode, leaves to be settled: tried again, released, or left."""

from datetime import datetime, timezone

import pytest
from consuming import batch


def one_batch(spark, fake, *texts, **options):
    """A first run that gives out one batch, and is killed after it; returns that batch's end."""
    fake.put_many("orders", texts)
    consumer = spark.start(**options)
    end, _ = batch(consumer, consumer.initial)
    return end


def test_a_restart_deletes_nothing_where_deleting_is_up_to_the_user(spark, fake):
    end = one_batch(spark, fake, "a", "b", deleteOnCommit="false")
    again = spark.start(deleteOnCommit="false")

    assert again.latest(end, None) == end
    again.close()

    assert fake.requests["delete"] == 0
    assert fake.count("orders") == 2


def test_an_offset_tells_the_age_of_its_oldest_message(spark, fake):
    fake.put("orders", "older")
    oldest = fake.clock.now()
    fake.clock.advance(3600)
    fake.put("orders", "newer")
    consumer = spark.start()

    end, found = batch(consumer, consumer.initial)

    assert sorted(found) == ["newer", "older"]
    told = datetime.strptime(end["oldest"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    assert told.timestamp() == pytest.approx(oldest, abs=5)
