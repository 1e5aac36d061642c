"""An idle stream: how often it asks, and what it leaves in the queue."""


def test_an_idle_stream_asks_seldom(spark, fake):
    # Given a clock that only sleeping moves
    slept = []
    consumer = spark.start(
        clock=lambda: sum(slept), sleep=slept.append, maxPollInterval="10 seconds"
    )

    # When Spark asks every time it may, until ten minutes are over
    while sum(slept) < 600:
        consumer.latest(consumer.initial, None)

    # Then the queue was asked every 10 s after a minute, in which pauses grew; no call took long
    assert 80 <= fake.requests["dequeue"] <= 90
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

    assert fake.requests["properties"] == 2 + 2, "of the poison queue, too, which is not there"
    # Here no time passes but what is slept: a real look takes longer than its pause.
    assert sum(fake.requests.values()) <= 1.01 * 600
