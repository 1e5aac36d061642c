"""Calls a Consumer as Spark does; a new object on the same queue is a restart."""

import time
from collections import defaultdict
from concurrent.futures import wait

from door import Door

from spark_azqueue.options.parse import source_config
from spark_azqueue.service.workers import Workers
from spark_azqueue.source.columns import source_columns
from spark_azqueue.source.consumer import consumer_for
from spark_azqueue.source.rows import record_batches
from spark_azqueue.source.runtime import Runtime

SOON = 10.0
"""What happens in the background is done after so many seconds at most."""


class Watched:
    """Workers that note what is submitted to them."""

    def __init__(self, workers, begun):
        self._workers = workers
        self._begun = begun

    def submit(self, call, *arguments):
        future = self._workers.submit(call, *arguments)
        self._begun.append(future)
        return future


class Consumers:
    """Starts consumers on the fake.

    begun: the futures of what the consumers do in the background, by the name of the pool:
    "prefetch" leases the next batch, "leases" renews, deletes and releases.
    """

    def __init__(self, fake):
        self.fake = fake
        self.running = []
        self.begun = defaultdict(list)

    def start(
        self, queue="orders", make_workers=Workers, clock=None, sleep=None, renews=True, **options
    ):
        config = source_config(
            {"secret.connectionString": self.fake.connection_string, "queue": queue, **options}, {}
        )
        columns = source_columns(config.body_type, permissive=False)
        more = {"clock": clock, "sleep": sleep}
        given = {name: value for name, value in more.items() if value}

        def watched(count, pool):
            return Watched(make_workers(count, pool), self.begun[pool])

        runtime = Runtime(make_workers=watched, renews=renews, **given)
        made = Door(consumer_for(config, columns, runtime))
        self.running.append(made)
        return made

    def wait_for(self, pool):
        """Until everything that was submitted to this pool has ended."""
        _, unfinished = wait(self.begun[pool], SOON)
        assert not unfinished

    def stop(self):
        for consumer in self.running:
            consumer.close()


def wait_until(predicate):
    """For what no request tells: `FakeQueueService.wait_until` asks only when one came."""
    deadline = time.monotonic() + SOON
    while not predicate():
        assert time.monotonic() < deadline, f"not so within {SOON} s"
        time.sleep(0.01)


def rows(parts):
    return [row for part in parts for batch in record_batches(part) for row in batch.to_pylist()]


def bodies(parts):
    return [row["body"] for row in rows(parts)]


def batch(consumer, start):
    """One micro-batch from this start; returns its end and its bodies."""
    end = consumer.latest(start, 10_000)
    return end, bodies(consumer.plan(start, end))


def run_one_batch(spark, fake, *texts_, **options):
    """A first run that gives out one batch, and is killed after it."""
    fake.put_many("orders", texts_)
    consumer = spark.start(**options)
    end, _ = batch(consumer, consumer.initial)
    return consumer.initial, end


def texts(fake, queue="orders"):
    """Every message that is in the queue, leased or not."""
    return [message.text for message in fake.messages(queue)]


def leased(fake, queue="orders"):
    return [message.text for message in fake.messages(queue) if not message.visible]
