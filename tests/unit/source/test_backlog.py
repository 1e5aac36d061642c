"""The backlog: asked seldom, and in nobody's way."""

import time

import pytest
from doubles import Clock
from refs import ORDERS, ref

from spark_azqueue.options.account import read_account
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.intake.backlog import BUSY_PAUSE_S, IDLE_PAUSE_S, Backlog
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


def test_a_service_that_does_not_answer_holds_nothing_up(fake, queues, monkeypatch):
    monkeypatch.setattr("spark_azqueue.source.intake.backlog.PATIENCE_S", 0.2)
    backlog = Backlog(queues, QUEUES, time.monotonic)
    fake.faults.add(Fault("properties", "slow", queue="refunds", seconds=30))

    assert backlog.newest(idle=False) == {"orders": 3}


def test_whatever_else_goes_wrong_is_no_concern_of_the_stream(clock):
    class Broken:
        def in_flight(self):
            raise OSError("no more file descriptors")

    assert Backlog(Broken(), [ORDERS], clock).newest(idle=False) == {}


# ── the age of the first message ──────────────────────────────────────────────────────────────────


@pytest.fixture
def heads(queues, clock):
    return Backlog(queues, QUEUES, clock, with_heads=True)


def test_when_a_queue_is_empty_its_age_goes(heads, fake, clock):
    fake.clock.advance(3_600)
    heads.newest(idle=False)
    fake.delete_queue("orders")
    clock.now += BUSY_PAUSE_S
    heads.newest(idle=True)
    assert heads.heads == {}


def test_who_may_not_peek_is_told_once_and_has_the_backlog(heads, fake, clock, caplog):
    fake.faults.add(Fault("peek", "forbidden"))
    for _ in range(3):
        assert heads.newest(idle=True)["orders"] == 3
        clock.now += IDLE_PAUSE_S
    assert fake.requests["peek"] == 2
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "the age of the first message of queue 'orders' stays unknown" in "".join(told)
