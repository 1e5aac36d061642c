"""Several queues in one stream: each gets its share of every batch, and of memory."""

from collections import Counter

import pytest
from consuming import bodies


def queues(fake, **counts):
    for name, count in counts.items():
        fake.create_queue(name)
        fake.put_many(name, [f"{name} {n}" for n in range(count)])
    return ",".join(counts)


def shares(consumer, batches):
    """How many messages of each queue came in each of so many batches."""
    start, found = consumer.initial, []
    for _ in range(batches):
        end = consumer.latest(start, None)
        texts = [text for part in [bodies(consumer.plan(start, end))] for text in part]
        found.append(Counter(text.split()[0] for text in texts))
        start = end
    return found


def test_a_queue_that_is_never_short_does_not_starve_another(spark, fake):
    names = queues(fake, busy=1_000, quiet=10)

    found = shares(spark.start(queue=names, maxMessagesPerTrigger="32"), 3)

    assert sum(found, Counter())["quiet"] == 10


def test_of_ten_full_queues_each_is_in_the_first_batches(spark, fake):
    names = queues(fake, **{f"q-{n}": 400 for n in range(10)})

    found = shares(spark.start(queue=names, maxMessagesPerTrigger="1000"), 2)

    assert sum(found[0].values()) == 1_000
    both = sum(found, Counter())
    assert len(both) == 10
    assert max(both.values()) - min(both.values()) <= 64


@pytest.mark.parametrize("most", ["7", "40"])
def test_batches_that_are_no_whole_pages_are_shared_alike(spark, fake, most):
    names = queues(fake, **{"a-queue": 600, "b-queue": 600})

    found = sum(shares(spark.start(queue=names, maxMessagesPerTrigger=most), 12), Counter())

    assert abs(found["a-queue"] - found["b-queue"]) <= 32
