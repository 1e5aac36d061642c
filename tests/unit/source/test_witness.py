"""One message of a batch that may outlast its leases keeps its receipt: its witness."""

import pytest
from consuming import SOON, batch, rows

from spark_azqueue.service.retry import RetryPolicy
from spark_azqueue.source.leases import worker as working
from spark_azqueue.source.leases.timing import LONGEST_S, LeaseLengths
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.testing import Fault

COUNT = 4
LEASE_S = 100


@pytest.fixture
def starts(spark, fake):
    """Starts consumers by the fake's clock; they renew when a test says so."""

    def start(**options):
        given = {"visibilityTimeout": str(LEASE_S), **options}
        return spark.start(clock=fake.clock.now, sleep=fake.clock.advance, renews=False, **given)

    return start


def test_it_is_leased_for_an_hour_and_the_others_as_the_option_says(starts, fake):
    consumer = starts()
    fake.put_many("orders", [f"m{number}" for number in range(COUNT)])
    end, _ = batch(consumer, consumer.initial)
    fake.clock.advance(LEASE_S + 1)
    assert [each.visible for each in fake.messages("orders")] == [True] * (COUNT - 1) + [False]
    fake.clock.advance(LONGEST_S)
    assert fake.messages("orders")[-1].visible
    assert len(QueueOffset.from_json(end, account="fakeaccount").texts) == COUNT


def test_its_row_has_its_newest_receipt(starts, fake):
    consumer = starts()
    fake.put("orders", "m0")
    end = consumer.latest(consumer.initial, None)
    (row,) = rows(consumer.plan(consumer.initial, end))
    (lease,) = QueueOffset.from_json(end, account="fakeaccount").leases

    assert row["pop_receipt"].endswith(lease.pop_receipt)
    assert lease.pop_receipt == fake.messages("orders")[0].receipt


@pytest.mark.parametrize("kind", ["not_found", "reply_lost", "busy_503", "forbidden"])
def test_without_one_the_batch_runs_as_well(starts, fake, kind, monkeypatch):
    monkeypatch.setattr(working, "RENEW", RetryPolicy(0.1))
    consumer = starts()
    consumer.latest(consumer.initial, None)  # the check at the start
    fake.put_many("orders", [f"m{number}" for number in range(COUNT)])
    fake.faults.add(Fault("update", kind, times=1))

    end, found = batch(consumer, consumer.initial)
    consumer.committed(end)
    consumer.engine.wait(SOON)

    assert sorted(found) == [f"m{number}" for number in range(COUNT)]
    fake.clock.advance(2 * LONGEST_S)
    consumer.latest(end, None)
    assert fake.count("orders") == 0


def test_with_delete_on_commit_false_there_is_none(starts, fake):
    consumer = starts(deleteOnCommit="false")
    fake.put_many("orders", [f"m{number}" for number in range(COUNT)])
    end, _ = batch(consumer, consumer.initial)

    assert QueueOffset.from_json(end, account="fakeaccount").texts == {}
    fake.clock.advance(LEASE_S + 1)
    assert all(each.visible for each in fake.messages("orders"))


def test_a_lease_is_long_enough_if_all_batches_took_less_than_half_of_it():
    lengths = LeaseLengths(LEASE_S)
    assert lengths.may_be_too_short(), "nothing is known yet"
    lengths.observed(50.0, too_late=False)
    assert not lengths.may_be_too_short()
    lengths.observed(50.1, too_late=False)
    assert lengths.may_be_too_short()
    for _ in range(50):
        lengths.observed(1.0, too_late=False)
    assert not lengths.may_be_too_short()
