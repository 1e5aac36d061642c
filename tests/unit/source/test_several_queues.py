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


@pytest.mark.parametrize("parallelism", ["1", "16"])
def test_of_ten_full_queues_each_is_in_the_first_batches(spark, fake, parallelism):
    names = queues(fake, **{f"q-{n}": 400 for n in range(10)})
    asked = {"maxMessagesPerTrigger": "1000", "parallelism": parallelism}

    found = shares(spark.start(queue=names, **asked), 2)

    assert sum(found[0].values()) == 1_000
    both = sum(found, Counter())
    assert len(both) == 10
    # Equal shares are 200. A queue whose answers come late has less: the others do not wait for it.
    assert min(both.values()) >= 100
    if parallelism == "1":  # then no answer is late
        assert max(both.values()) - min(both.values()) <= 64


@pytest.mark.parametrize("most", ["7", "40"])
def test_batches_that_are_no_whole_pages_are_shared_alike(spark, fake, most):
    names = queues(fake, **{"a-queue": 600, "b-queue": 600})
    asked = {"maxMessagesPerTrigger": most, "parallelism": "1"}

    found = sum(shares(spark.start(queue=names, **asked), 12), Counter())

    assert abs(found["a-queue"] - found["b-queue"]) <= 32


THREE = {"urgent": 100, "usual": 100, "whenever": 100}


def test_with_strict_priority_a_later_queue_waits_until_the_earlier_ones_are_empty(spark, fake):
    names = queues(fake, **THREE)
    consumer = spark.start(queue=names, maxMessagesPerTrigger="64", queuePriority="strict")

    found = shares(consumer, 5)

    assert found == [
        {"urgent": 64},
        {"urgent": 36, "usual": 28},
        {"usual": 64},
        {"usual": 8, "whenever": 56},
        {"whenever": 44},
    ]


def test_with_strict_priority_new_messages_of_the_first_queue_come_next(spark, fake):
    names = queues(fake, urgent=0, usual=200)
    consumer = spark.start(
        queue=names, maxMessagesPerTrigger="64", queuePriority="strict", dequeueAhead="false"
    )
    start = consumer.latest(consumer.initial, None)
    assert Counter(t.split()[0] for t in bodies(consumer.plan(consumer.initial, start))) == {
        "usual": 64
    }

    fake.put_many("urgent", [f"urgent {n}" for n in range(10)])  # the queue rests, and is asked
    end = consumer.latest(start, None)

    came = Counter(text.split()[0] for text in bodies(consumer.plan(start, end)))
    assert came == {"urgent": 10, "usual": 54}


@pytest.mark.parametrize("most", ["7", "64", "1000"])
def test_an_available_now_run_with_strict_priority_reads_every_queue(spark, fake, most):
    names = queues(fake, **THREE)
    consumer = spark.start(queue=names, maxMessagesPerTrigger=most, queuePriority="strict")
    consumer.freeze_cutoff()

    start, found = consumer.initial, []
    while (end := consumer.latest(start, None)) != start:
        found += [text.split()[0] for text in bodies(consumer.plan(start, end))]
        start = end

    assert Counter(found) == THREE
    assert found == sorted(found, key=list(THREE).index)
