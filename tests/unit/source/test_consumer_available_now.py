"""Runs with availableNow: what they read, and what they leave."""

from consuming import bodies


def flat(parts):
    return [body for part in parts for body in part]


def run_what_is_there(consumer, start, meanwhile=lambda: None):
    """An availableNow run; returns the last offset and the rows' bodies of each batch."""
    consumer.freeze_cutoff()
    found = []
    while True:
        end = consumer.latest(start, None)
        if end == start:
            return end, found
        found.append(bodies(consumer.plan(start, end)))
        start = end
        meanwhile()


def test_a_run_gives_out_each_message_once_even_if_it_is_not_deleted(spark, fake):
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start(deleteOnCommit="false", maxMessagesPerTrigger="1")

    end, found = run_what_is_there(
        consumer, consumer.initial, meanwhile=lambda: fake.clock.advance(3600)
    )

    assert sorted(flat(found)) == ["a", "b"]
    # What it looked at once more is released, every time.
    assert fake.visible("orders") == 2
    consumer.latest(end, None)
    assert fake.visible("orders") == 2
