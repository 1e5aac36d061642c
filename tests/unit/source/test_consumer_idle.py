"""An idle stream: how often it asks, and what it leaves in the queue."""

from consuming import batch


def test_an_idle_stream_leaves_an_empty_queue(spark, fake):
    # Given a batch that Spark committed, and no new data: it never calls commit then
    fake.put_many("orders", ["a", "b"])
    consumer = spark.start()
    e1, _ = batch(consumer, consumer.initial)

    # When it asks for the next one, once
    assert consumer.latest(e1, None) == e1

    # Then everything is settled when the call returns
    assert fake.count("orders") == 0


def test_an_idle_stream_asks_seldom(spark, fake):
    # Given a clock that only sleeping moves
    slept = []
    consumer = spark.start(
        clock=lambda: sum(slept), sleep=slept.append, maxPollInterval="10 seconds"
    )

    # When Spark asks every time it may, until ten minutes are over
    while sum(slept) < 600:
        consumer.latest(consumer.initial, None)

    # Then the queue was asked about every 10 s, and no call took long
    assert 60 <= fake.requests["dequeue"] <= 75
    assert max(slept) <= 0.25


def test_an_idle_stream_that_reports_its_backlog_stays_at_one_request_a_second(spark, fake):
    slept = []
    consumer = spark.start(clock=lambda: sum(slept), sleep=slept.append, maxPollInterval="1 second")
    while sum(slept) < 60:  # until the pause has grown
        consumer.latest(consumer.initial, None)
        consumer.report()
    fake.reset_counters()
    while sum(slept) < 660:
        consumer.latest(consumer.initial, None)
        consumer.report()

    assert fake.requests["properties"] == 2
    # Here no time passes but what is slept: a real look takes longer than its pause.
    assert sum(fake.requests.values()) <= 1.01 * 600
