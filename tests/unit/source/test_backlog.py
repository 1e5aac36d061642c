"""The backlog: asked seldom, and in nobody's way."""

import pytest
from doubles import Clock
from refs import ORDERS, ref

from spark_azqueue.metrics.report import MOST_QUEUES_REPORTED
from spark_azqueue.options.account import read_account
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.intake.backlog import BUSY_PAUSE_S, HEADS_PAUSE_S, IDLE_PAUSE_S, Backlog
from spark_azqueue.testing import Fault

QUEUES = [ORDERS, ref("refunds")]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queues(fake):
    for name in ("orders", "refunds"):
        fake.create_queue(name)
    fake.put_many("orders", ["a", "b", "c"])
    service = QueueClient(read_account({"secret.connectionString": fake.connection_string}, {}))
    yield service
    service.close()


@pytest.fixture
def backlog(queues, clock):
    return Backlog(queues, QUEUES, clock)


def test_it_counts_each_queue_what_is_leased_included(backlog, fake):
    fake.put("refunds", "d")

    assert backlog.newest(idle=False) == {"orders": 3, "refunds": 1}


def test_while_messages_come_it_asks_every_ten_seconds(backlog, fake, clock):
    for _ in range(50):
        backlog.newest(idle=False)
    assert fake.requests["properties"] == 2

    fake.put("orders", "d")
    clock.now += BUSY_PAUSE_S - 0.01
    assert backlog.newest(idle=False)["orders"] == 3
    clock.now += 0.01
    assert backlog.newest(idle=False)["orders"] == 4
    assert fake.requests["properties"] == 4


def test_a_queue_that_may_lack_is_asked_for_every_five_minutes_until_it_is_there(
    queues, fake, clock
):
    backlog = Backlog(queues, (ref("orders"), ref("orders-poison")), clock, may_lack=True)
    found = []
    for _ in range(60):
        found.append(backlog.newest(idle=False))
        clock.now += BUSY_PAUSE_S
        if clock.now > 310:
            fake.create_queue("orders-poison")
    assert fake.requests["properties"] == 60 + 1 + 30
    assert "orders-poison" not in found[29]
    assert "orders-poison" in found[30]


def test_idle_it_asks_once_more_soon_and_then_every_five_minutes(backlog, fake, clock):
    backlog.newest(idle=False)
    asked = []
    for second in range(800):
        before = fake.requests["properties"]
        backlog.newest(idle=True)
        if fake.requests["properties"] > before:
            asked.append(second)
        clock.now += 1
    assert asked == [10, 310, 610]
    assert IDLE_PAUSE_S == 300


@pytest.mark.parametrize("kind", ["busy_503", "error_500", "reset", "unauthorized"])
def test_a_count_that_fails_is_left_out_and_asked_for_again(backlog, fake, clock, kind, caplog):
    fake.faults.add(Fault("properties", kind, queue="orders"))
    assert backlog.newest(idle=False) == {"refunds": 0}

    fake.faults.clear()
    clock.now += BUSY_PAUSE_S
    assert backlog.newest(idle=False) == {"orders": 3, "refunds": 0}
    assert caplog.records == []


def test_a_credential_that_may_not_count_is_told_once_and_not_asked_again(
    backlog, fake, clock, caplog
):
    fake.permissions = "raupcdlw".replace("r", "")
    for _ in range(5):
        assert backlog.newest(idle=False) == {}
        clock.now += IDLE_PAUSE_S

    assert fake.requests["properties"] == 2
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "the backlog of queue 'orders' stays unknown in this run" in "".join(told)
    assert "needs the SAS letter 'r' or the role 'Storage Queue Data Reader'" in "".join(told)


def test_whatever_else_goes_wrong_is_no_concern_of_the_stream(clock):
    class Broken:
        def in_flight(self):
            raise OSError("no more file descriptors")

    assert Backlog(Broken(), [ORDERS], clock).newest(idle=False) == {}


# ── the age of the first message ──────────────────────────────────────────────────────────────────


@pytest.fixture
def heads(queues, clock):
    return Backlog(queues, QUEUES, clock, peeks=1)


def test_the_age_of_the_first_visible_message_once_a_minute(heads, fake, clock):
    fake.clock.advance(3_600)
    heads.newest(idle=False)
    assert heads.heads.keys() == {"orders"}  # the other queue is empty
    assert 3_600 <= heads.heads["orders"] <= 3_610

    for _ in range(5):
        clock.now += BUSY_PAUSE_S
        heads.newest(idle=False)
    assert fake.requests["peek"] == 2
    clock.now += HEADS_PAUSE_S - 5 * BUSY_PAUSE_S
    heads.newest(idle=False)
    assert fake.requests["peek"] == 4


def test_when_a_queue_is_empty_its_age_goes(heads, fake, clock):
    fake.clock.advance(3_600)
    heads.newest(idle=False)
    fake.delete_queue("orders")
    clock.now += BUSY_PAUSE_S
    heads.newest(idle=True)
    assert heads.heads == {}


def test_what_is_leased_has_no_age(heads, queues, fake):
    queues.now(Dequeue(ORDERS, 32, 60))
    assert heads.newest(idle=False)["orders"] == 3
    assert heads.heads == {}


def test_without_heads_nothing_is_peeked_at(backlog, fake):
    backlog.newest(idle=False)
    assert fake.requests["peek"] == 0
    assert backlog.heads == {}


def test_only_the_first_hundred_queues_are_peeked_at(queues, fake, clock):
    for number in range(MOST_QUEUES_REPORTED + 5):
        fake.create_queue(f"many-{number:03}")
    many = [ref(f"many-{number:03}") for number in range(MOST_QUEUES_REPORTED + 5)]
    Backlog(queues, many, clock, peeks=1).newest(idle=False)
    assert fake.requests["properties"] == MOST_QUEUES_REPORTED + 5
    assert fake.requests["peek"] == MOST_QUEUES_REPORTED


def test_who_may_not_peek_is_told_once_and_has_the_backlog(heads, fake, clock, caplog):
    fake.faults.add(Fault("peek", "forbidden"))
    for _ in range(3):
        assert heads.newest(idle=True)["orders"] == 3
        clock.now += IDLE_PAUSE_S
    assert fake.requests["peek"] == 2
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "the age of the first message of queue 'orders' stays unknown" in "".join(told)
