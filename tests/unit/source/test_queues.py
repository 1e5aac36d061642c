"""Queues that a pattern finds: they come and go while the stream runs."""

import logging

import pytest
from doubles import AtOnce, Clock

from spark_azqueue.errors import AccessDenied, InvalidOption, QueueNotFound
from spark_azqueue.options.account import read_account
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.intake import queues as module
from spark_azqueue.source.intake.queues import LOOK_AGAIN_S, Queues
from spark_azqueue.testing import Fault


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watch(fake, clock):
    """Makes a watched selection of the fake's queues."""
    clients = []

    def make(queue, **options):
        given = {"queue": queue, "secret.connectionString": fake.connection_string, **options}
        config = source_config(given, {})
        clients.append(QueueClient(config.account))
        return Queues(config, clients[-1], AtOnce(1, "check").submit, clock)

    yield make
    for client in clients:
        client.close()


def names(queues):
    return [queue.name for queue in queues.now]


def there(fake):
    account = read_account({"secret.connectionString": fake.connection_string}, {})
    client = QueueClient(account)
    try:
        return client.names("")
    finally:
        client.close()


def look_again(queues, clock):
    clock.now += LOOK_AGAIN_S
    assert queues.seconds_until_due() == 0
    return queues.look_again()


def test_queues_come_and_go(fake, watch, clock):
    for name in ("orders-1", "orders-2", "audit"):
        fake.create_queue(name)
    queues = watch("orders-*")
    queues.open(poison_too=True)
    assert names(queues) == ["orders-1", "orders-2"]
    assert not look_again(queues, clock)

    fake.delete_queue("orders-1")
    fake.create_queue("orders-3")
    assert look_again(queues, clock)

    assert names(queues) == ["orders-2", "orders-3"]


def test_queues_given_by_name_are_never_looked_for(fake, watch, clock):
    fake.create_queue("orders-1")
    queues = watch("orders-1")
    queues.open(poison_too=True)
    clock.now += 1e6

    assert queues.seconds_until_due() is None
    assert fake.requests["list"] == 0


def test_a_queue_given_by_name_has_to_exist(fake, watch):
    fake.create_queue("orders-1")

    with pytest.raises(QueueNotFound, match="returns"):
        watch("orders-*,returns").open(poison_too=True)


def test_createqueue_creates_what_a_name_says_and_nothing_else(fake, watch):
    queues = watch("returns,orders-*", createQueue="true")

    queues.open(poison_too=True)

    assert there(fake) == ["returns"]


def test_no_queue_at_all_is_a_warning_and_not_the_end(fake, watch, clock, caplog):
    queues = watch("orders-*")

    queues.open(poison_too=True)
    assert "no queue of account" in caplog.text
    assert "'orders-*'" in caplog.text

    fake.create_queue("orders-1")
    assert look_again(queues, clock)
    assert names(queues) == ["orders-1"]


def test_what_vanished_is_known_at_once(fake, watch, clock):
    fake.create_queue("orders-1")
    queues = watch("orders-*,returns", createQueue="true")
    queues.open(poison_too=True)

    assert not queues.vanished(QueueRef(fake.account, "returns"))
    assert queues.seconds_until_due() > 0
    assert queues.vanished(QueueRef(fake.account, "orders-1"))
    assert queues.seconds_until_due() == 0


def test_without_an_answer_it_goes_on_with_what_it_knows(fake, watch, clock, caplog):
    fake.create_queue("orders-1")
    queues = watch("orders-*")
    queues.open(poison_too=True)
    fake.faults.add(Fault("list", "forbidden", times=1))
    fake.create_queue("orders-2")

    assert not look_again(queues, clock)

    assert names(queues) == ["orders-1"]
    assert "the list of queues could not be refreshed" in caplog.text
    assert look_again(queues, clock)


def test_at_the_start_a_credential_that_may_not_list_is_an_error(fake, watch):
    fake.faults.add(Fault("list", "forbidden", times=1))

    with pytest.raises(AccessDenied, match=r"srt with 's'.*or name each queue"):
        watch("orders-*").open(poison_too=True)


def test_a_new_queue_that_cannot_be_used_is_left_out_until_it_can(fake, watch, clock, caplog):
    fake.create_queue("orders-1")
    queues = watch("orders-*", maxDequeueCount="3")
    queues.open(poison_too=True)
    long_name = "orders-" + 50 * "x"
    fake.create_queue(long_name)

    assert not look_again(queues, clock)
    assert caplog.text.count(f"queue '{long_name}' is not read") == 1
    assert not look_again(queues, clock)
    assert caplog.text.count(f"queue '{long_name}' is not read") == 1

    assert names(queues) == ["orders-1"]


def test_at_the_start_such_a_queue_is_an_error(fake, watch):
    fake.create_queue("orders-" + 50 * "x")

    with pytest.raises(InvalidOption, match="set 'poisonQueue'"):
        watch("orders-*", maxDequeueCount="3").open(poison_too=True)


def test_a_start_asks_for_each_poison_queue_and_once_whether_it_may_create(fake, watch):
    for number in range(30):
        fake.create_queue(f"orders-{number}")

    watch("orders-*").open(poison_too=True)

    assert (fake.requests["update"], fake.requests["put"], fake.requests["create"]) == (30, 30, 1)


@pytest.mark.parametrize("options", [{}, {"maxDequeueCount": "3"}])
def test_a_look_makes_no_poison_queue_and_reads_none(fake, watch, clock, options):
    queues = watch("orders-*", **options)
    queues.open(poison_too=True)
    fake.create_queue("orders-1")

    assert look_again(queues, clock)

    assert "orders-1-poison" not in there(fake)
    fake.create_queue("orders-1-poison")
    assert not look_again(queues, clock)
    assert names(queues) == ["orders-1"]


def test_too_many_queues_are_refused_at_the_start_and_left_out_later(
    fake, watch, clock, caplog, monkeypatch
):
    monkeypatch.setattr(module, "MOST_QUEUES", 2)
    fake.create_queue("orders-1")
    queues = watch("orders-*")
    queues.open(poison_too=True)
    for number in (2, 3):
        fake.create_queue(f"orders-{number}")

    assert not look_again(queues, clock)
    assert "selects 3 queues" in caplog.text
    assert names(queues) == ["orders-1"]
    with pytest.raises(InvalidOption, match="at most 2"):
        watch("orders-*").open(poison_too=True)


def test_it_says_which_came_and_went(fake, watch, clock, caplog):
    caplog.set_level(logging.INFO)
    fake.create_queue("orders-1")
    queues = watch("orders-*")
    queues.open(poison_too=True)
    fake.delete_queue("orders-1")
    for number in range(2, 9):
        fake.create_queue(f"orders-{number}")

    look_again(queues, clock)

    assert "7 (orders-2, orders-3, orders-4, orders-5, orders-6, …) came" in caplog.text
    assert "orders-1 went" in caplog.text
