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

    # Then the queue was asked about every 10 s, and no call took long
    assert 60 <= fake.requests["dequeue"] <= 75
    assert max(slept) <= 0.25
