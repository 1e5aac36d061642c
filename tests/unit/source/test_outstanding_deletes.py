"""At most one batch's deletes are outstanding: a commit waits for those of the batch before."""

import pytest
from consuming import batch
from doubles import NeverRuns

from spark_azqueue.service.workers import Workers
from spark_azqueue.source.driver import engine as engine_module


def two_batches(spark, fake, settle):
    """A consumer whose first batch is committed, and whose second is with Spark."""

    def make_workers(count, name):
        return settle if name == "leases" else Workers(count, name)

    fake.put_many("orders", ["a", "b"])
    consumer = spark.start(make_workers=make_workers)
    e1, first = batch(consumer, consumer.initial)
    consumer.committed(e1)
    fake.put_many("orders", ["c", "d", "e"])
    e2, second = batch(consumer, e1)
    assert (len(first), len(second)) == (2, 3)
    return consumer, e2


def test_deletes_that_take_too_long_are_given_up_before_more_are_begun(spark, fake, monkeypatch):
    for bound in ("_DELETES_AT_MOST_S", "LAST_WORDS_S"):
        monkeypatch.setattr(engine_module, bound, 0.01)
    consumer, e2 = two_batches(spark, fake, NeverRuns())
    assert consumer.report().counters.deletes_given_up == 0

    consumer.committed(e2)

    # The first batch's are remembered; the second one's are outstanding.
    report = consumer.report()
    assert (report.counters.deletes_given_up, report.unconfirmed_deletes, report.held) == (2, 2, 3)
    consumer.close()


@pytest.mark.parametrize("batches", [1, 3])
def test_an_idle_stream_waits_for_all_of_them(spark, fake, batches):
    consumer = spark.start()
    start = consumer.initial
    for number in range(batches):
        fake.put("orders", str(number))
        start, _ = batch(consumer, start)

    assert consumer.latest(start, None) == start

    assert fake.count("orders") == 0
