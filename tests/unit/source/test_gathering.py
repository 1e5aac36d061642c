"""minMessagesPerTrigger: a batch waits for enough messages, and none of them waits for too long."""

import pytest
from consuming import bodies
from refs import ORDERS

from spark_azqueue.errors import InvalidOption
from spark_azqueue.options.parse import source_config
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.testing import Fault


class Time:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def time_():
    return Time()


@pytest.fixture
def start(spark, time_):
    def started(queue="orders", **options):
        return spark.start(queue, clock=time_, sleep=time_.sleep, **options)

    return started


def asked_until(consumer, offset, time_, until):
    """Ask as Spark does, until there is a batch or it is so late. Returns the newest offset."""
    while time_.now < until:
        found = consumer.latest(offset, 10_000)
        if found != offset:
            return found
        time_.sleep(0.01)  # a call takes some time
    return offset


def size_of(offset):
    return len(QueueOffset.from_json(offset, account=ORDERS.account).leases)


def test_a_batch_waits_for_enough_messages_and_leases_nothing_meanwhile(start, fake, time_):
    fake.put_many("orders", ["a"] * 9)
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="1 hour")

    assert asked_until(consumer, consumer.initial, time_, 60) == consumer.initial
    assert fake.requests["dequeue"] == 0
    assert fake.visible("orders") == 9

    fake.put_many("orders", ["b"])
    first = asked_until(consumer, consumer.initial, time_, 120)
    assert size_of(first) == 10


def test_a_message_waits_for_others_for_so_long_at_most(start, fake, time_):
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="5 minutes")
    assert asked_until(consumer, consumer.initial, time_, 1000) == consumer.initial

    fake.put_many("orders", ["a"])  # the time before is not counted
    began = time_.now
    assert asked_until(consumer, consumer.initial, time_, began + 298) == consumer.initial
    first = asked_until(consumer, consumer.initial, time_, began + 305)

    assert size_of(first) == 1


def test_what_a_batch_left_waits_anew(start, fake, time_):
    fake.put_many("orders", ["a"] * 12)
    consumer = start(
        minMessagesPerTrigger="5", maxMessagesPerTrigger="10", maxTriggerDelay="1 minute"
    )
    first = asked_until(consumer, consumer.initial, time_, 10)
    assert size_of(first) == 10
    consumer.plan(consumer.initial, first)
    began = time_.now

    # those of the first batch are counted by the service until they are deleted: not by us
    assert consumer.latest(first, 10_000) == first
    fake.wait_until(lambda: fake.count("orders") == 2, 10)  # deletes take real time
    consumer.engine.wait(10)  # and so do their answers
    assert asked_until(consumer, first, time_, began + 50) == first
    second = asked_until(consumer, first, time_, began + 70)
    assert size_of(second) == 2


@pytest.mark.parametrize(("messages", "ahead"), [(25, True), (14, False)])
def test_it_leases_ahead_only_if_enough_are_left(start, fake, spark, time_, messages, ahead):
    fake.put_many("orders", ["a"] * messages)
    consumer = start(minMessagesPerTrigger="10", maxMessagesPerTrigger="10")
    first = asked_until(consumer, consumer.initial, time_, 10)
    consumer.plan(consumer.initial, first)
    spark.wait_for("prefetch")

    assert (fake.visible("orders") < messages - 10) is ahead


def test_waiting_costs_no_more_requests_than_polling(start, fake, time_):
    fake.put_many("orders", ["a"])
    consumer = start(
        minMessagesPerTrigger="10", maxTriggerDelay="1 hour", maxPollInterval="10 seconds"
    )
    while time_.now < 600:
        consumer.latest(consumer.initial, 10_000)

    assert fake.requests["dequeue"] == 0
    assert 80 <= sum(fake.requests.values()) <= 90


def test_messages_that_are_hidden_count_as_waiting(start, fake, time_):
    """While as many as the minimum are, it has no effect: the service does not tell them apart."""
    fake.put_many("orders", ["later"] * 10, delay=86_400)
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="1 hour")
    assert asked_until(consumer, consumer.initial, time_, 30) == consumer.initial

    fake.put_many("orders", ["now"])
    first = asked_until(consumer, consumer.initial, time_, 60)
    assert size_of(first) == 1


def test_an_available_now_run_ignores_it_and_says_so(start, fake, time_, caplog):
    fake.put_many("orders", ["a"])
    consumer = start(minMessagesPerTrigger="10")
    consumer.freeze_cutoff()

    assert size_of(asked_until(consumer, consumer.initial, time_, 5)) == 1
    assert "minMessagesPerTrigger=10 is ignored" in caplog.text


def test_an_automatic_size_is_large_enough_for_it(start, fake, time_):
    fake.put_many("orders", ["a"] * 6_000)
    consumer = start(minMessagesPerTrigger="6000")

    assert size_of(asked_until(consumer, consumer.initial, time_, 5)) == 6_000


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"minMessagesPerTrigger": "11", "maxMessagesPerTrigger": "10"}, "never have so many"),
        ({"maxTriggerDelay": "1 minute"}, "it is for minMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "0"}, "minMessagesPerTrigger"),
        ({"minMessagesPerTrigger": "5", "maxTriggerDelay": "8 days"}, "maxTriggerDelay"),
    ],
)
def test_bad_combinations_are_refused(options, said):
    account = {"secret.connectionString": "UseDevelopmentStorage=true", "queue": "orders"}
    with pytest.raises(InvalidOption, match=said):
        source_config(account | options, {})


@pytest.fixture
def both(fake, time_, monkeypatch):
    """One time for the query and the service."""
    monkeypatch.setattr(time_, "sleep", lambda s: (Time.sleep(time_, s), fake.clock.advance(s)))


def test_the_delay_counts_from_when_a_message_was_sent_also_over_restarts(both, start, fake, time_):
    # Given a message that waits, and a query that is started again and again
    fake.put_many("orders", ["a"])
    gathering = {"minMessagesPerTrigger": "10", "maxTriggerDelay": "5 minutes"}
    for until in (100, 200, 290):
        consumer = start(**gathering)
        assert asked_until(consumer, consumer.initial, time_, until) == consumer.initial

    # Then its delay is over at the same time
    consumer = start(**gathering)
    assert size_of(asked_until(consumer, consumer.initial, time_, 305)) == 1
    assert time_.now >= 290, "some seconds are real"


@pytest.mark.parametrize("log", [False, True])
def test_a_batch_begins_before_a_message_expires(both, start, fake, time_, tmp_path, log):
    # Given a message that lives shorter than the delay, behind one that stays
    fake.put_many("orders", ["stays"])
    fake.put_many("orders", ["expires"], ttl=120)
    more = {"writeAheadLog": f"file:{tmp_path}"} if log else {}
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="1 hour", **more)
    assert asked_until(consumer, consumer.initial, time_, 85) == consumer.initial

    # Then it is read while it lives
    first = asked_until(consumer, consumer.initial, time_, 95)
    assert sorted(bodies(consumer.plan(consumer.initial, first))) == ["expires", "stays"]


def test_a_message_that_is_about_to_expire_does_not_wait(both, start, fake, time_):
    fake.put_many("orders", ["a"], ttl=20)
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="1 hour")

    assert size_of(asked_until(consumer, consumer.initial, time_, 5)) == 1


def test_one_that_comes_later_and_expires_sooner_is_seen(both, start, fake, time_):
    fake.put_many("orders", ["a"])
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="1 hour")
    assert asked_until(consumer, consumer.initial, time_, 300) == consumer.initial
    fake.put_many("orders", ["b"], ttl=60)

    assert size_of(asked_until(consumer, consumer.initial, time_, 335)) == 2


def test_without_the_right_to_peek_the_delay_counts_from_when_a_message_is_seen(
    both, start, fake, time_, caplog
):
    fake.put_many("orders", ["a"])
    fake.clock.advance(1_000)
    fake.faults.add(Fault("peek", "forbidden"))
    consumer = start(minMessagesPerTrigger="10", maxTriggerDelay="5 minutes")

    assert asked_until(consumer, consumer.initial, time_, 295) == consumer.initial
    assert size_of(asked_until(consumer, consumer.initial, time_, 305)) == 1
    assert caplog.text.count("the age of the first message of queue 'orders' stays unknown") == 1
