"""Runs with availableNow: what they read, and what they leave."""

from consuming import bodies, texts


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


def test_a_run_reads_all_that_was_there_in_several_batches_and_settles_it(spark, fake):
    fake.put_many("orders", [str(n) for n in range(100)])
    consumer = spark.start(maxMessagesPerTrigger="30")

    _, found = run_what_is_there(consumer, consumer.initial)

    assert [len(part) for part in found] == [30, 30, 30, 10]
    assert sorted(flat(found)) == sorted(map(str, range(100)))
    assert fake.count("orders") == 0


def test_a_run_leaves_what_came_later(spark, fake):
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start(maxMessagesPerTrigger="1")

    def meanwhile():
        fake.clock.advance(2)
        fake.put_many("orders", ["later"] * 3)

    _, found = run_what_is_there(consumer, consumer.initial, meanwhile)

    assert sorted(flat(found)) == ["a", "b"]
    assert texts(fake) == ["later"] * 6
    assert fake.visible("orders") == 6


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


def test_what_a_run_only_looked_at_is_no_suspect_in_the_next(spark, fake):
    # Given a run that leaves what came later, as every run of a busy queue does
    fake.put_many("orders", ["old"] * 20)
    first = spark.start(maxDequeueCount="5")

    def meanwhile():
        fake.clock.advance(2)
        fake.put_many("orders", ["later"] * 300)

    end, found = run_what_is_there(first, first.initial, meanwhile)
    assert [len(part) for part in found] == [20]

    # When the next run reads it
    fake.clock.advance(2)
    _, found = run_what_is_there(spark.start(maxDequeueCount="5"), end)

    # Then it does so in one batch: nothing ever failed
    assert [len(part) for part in found] == [300]
