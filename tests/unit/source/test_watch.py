"""Queues looked at from outside: seldom, in the background, and never in the way of who asks."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

import pytest
from accounts import account_of
from doubles import AtOnce, Clock
from refs import ORDERS

from spark_azqueue.metrics.watched import Scaling, Watched
from spark_azqueue.options.selection import QueueSelection
from spark_azqueue.service.queues.calls import Dequeue
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source import watch
from spark_azqueue.source.intake.backlog import BUSY_PAUSE_S
from spark_azqueue.source.intake.queues import LOOK_AGAIN_S
from spark_azqueue.source.watch import CURRENT_FOR_S, QueuesWatch
from spark_azqueue.testing import Fault


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def watching(fake, clock):
    """Makes a watch of these names, which looks at once."""
    made = []

    def make(*parts, poison=None, workers=AtOnce):
        account = account_of(fake.connection_string)
        selection = QueueSelection(account.name, parts, poison)
        made.append(QueuesWatch(account, selection, workers, clock))
        return made[-1]

    for name in ("orders", "orders-poison", "refunds"):
        fake.create_queue(name)
    yield make
    for each in made:
        each.close()


def test_it_shows_what_waits_is_hidden_is_old_expires_and_is_poison(watching, fake):
    fake.put_many("orders", ["a", "b"])
    fake.put("orders", "short", ttl=7_200)
    fake.put("orders-poison", "bad")
    fake.clock.advance(3_600)
    client = QueueClient(account_of(fake.connection_string))
    client.now(Dequeue(ORDERS, 1, 60))
    seen = watching("orders", "refunds").newest()
    client.close()

    assert seen.answers == {"orders": 1, "refunds": 1}
    assert seen.backlog == {"orders": 3, "refunds": 0}
    assert seen.visible == {"orders": 2, "refunds": 0}
    assert seen.poison == {"orders-poison": 1}, "one that does not exist is left out"
    assert 3_600 <= seen.heads["orders"] <= 3_610
    assert 3_590 <= seen.expires["orders"] <= 3_600
    assert seen.scaling(held=0) == Scaling(waiting=2, elsewhere=1)
    assert seen.scaling(held=1) == Scaling(waiting=2, elsewhere=0)
    assert fake.requests["dequeue"] == 1, "only the one above"


def test_without_questions_there_are_no_requests_and_with_many_there_are_few(watching, fake, clock):
    asked = watching("orders")
    assert not fake.requests
    for _ in range(50):
        asked.newest()
    counts = fake.requests["properties"]
    assert counts == 2, "the queue and its poison queue"
    clock.now += BUSY_PAUSE_S
    asked.newest()
    assert fake.requests["properties"] == 2 * counts
    assert fake.requests["peek"] == 2


def test_who_asks_does_not_wait_for_a_service_that_hangs(watching, clock, monkeypatch):
    """The look stays under way, and no second one begins."""
    monkeypatch.setattr(watch, "ASKER_WAITS_S", 0.01)
    looks, go = [], threading.Event()

    class Hangs:
        def __init__(self, count, name):
            pass

        def submit(self, call):
            looks.append(future := Future())
            threading.Thread(target=lambda: (go.wait(60), call(), future.set_result(None))).start()
            return future

    asked = watching("orders", workers=Hangs)
    assert asked.newest() is None
    clock.now += 5 * BUSY_PAUSE_S
    assert asked.newest() is None
    assert len(looks) == 1
    go.set()
    looks[0].result(timeout=60)
    assert asked.newest() is not None


def test_a_queue_without_an_answer_is_told_once(watching, fake, clock, caplog):
    asked = watching("orders")
    assert asked.newest().answers == {"orders": 1}
    fake.faults.add(Fault("properties", "busy_503"))
    clock.now += BUSY_PAUSE_S
    with caplog.at_level(logging.WARNING):
        assert asked.newest().answers == {"orders": 0}
        assert asked.newest().backlog == {}
        clock.now += BUSY_PAUSE_S
        asked.newest()
    told = [each.getMessage() for each in caplog.records if "'orders'" in each.getMessage()]
    assert len(told) == 1, "each reason once"
    assert "the backlog of queue 'orders' is unknown: " in told[0]
    assert "503" in told[0]


def test_a_look_that_fails_leaves_the_last_one_for_two_minutes(watching, clock, caplog):
    class Breaks(AtOnce):
        def submit(self, call, *arguments):
            if broken:
                raise RuntimeError("can't start new thread")
            return super().submit(call, *arguments)

    broken = []
    asked = watching("orders", workers=Breaks)
    first = asked.newest()
    broken.append(True)
    clock.now += CURRENT_FOR_S
    assert asked.newest() == first
    assert "the backlog of the queues could not be read: can't start new thread" in caplog.text
    clock.now += 1
    assert asked.newest() is None


def test_a_queue_that_is_missing_is_named_and_counts_as_silent(watching, caplog):
    seen = watching("orders", "gone").newest()

    assert seen.answers == {"orders": 1, "gone": 0}
    assert seen.backlog == {"orders": 0}
    assert "the backlog of queue 'gone' is unknown: " in caplog.text
    assert "gone-poison" not in caplog.text


def test_a_permission_that_is_given_later_is_seen(watching, fake, clock, caplog):
    fake.permissions = "aup"
    asked = watching("orders")
    assert asked.newest().answers == {"orders": 0}
    assert "needs the SAS letter 'r'" in caplog.text

    fake.permissions = "raupcdlw"
    clock.now += watch._ASK_AGAIN_S  # noqa: SLF001
    assert asked.newest().answers == {"orders": 1}


def test_queues_of_a_pattern_come_and_go(watching, fake, clock):
    asked = watching("*s*", poison="trash")
    fake.create_queue("trash")
    fake.put("trash", "bad")
    seen = asked.newest()
    assert seen.backlog.keys() == {"orders", "refunds"}, "without the poison queues"
    assert seen.poison == {"trash": 1}

    fake.create_queue("returns")
    fake.delete_queue("refunds")
    clock.now += LOOK_AGAIN_S
    assert asked.newest().backlog.keys() == {"orders", "returns"}


def test_no_number_is_given_without_an_answer(watching, fake, clock):
    """KEDA would end the pod of a full queue for a sum in which that queue is missing."""
    fake.put_many("orders", ["a", "b"])
    asked = watching("orders", "refunds")
    assert asked.newest().scaling(0) == Scaling(2, 0)

    fake.delete_queue("orders")
    clock.now += 60
    assert asked.newest().scaling(0) is None


def test_a_pattern_whose_queues_cannot_be_listed_does_not_answer(watching, fake):
    fake.permissions = "rp"
    seen = watching("refunds", "ord*").newest()

    assert seen.answers == {"refunds": 1, "ord*": 0}
    assert seen.scaling(0) is None


@pytest.mark.parametrize(
    ("backlog", "visible", "held", "expected"),
    [
        ({}, {}, 0, Scaling(0, 0)),
        ({"a": 10}, {"a": 4}, 6, Scaling(4, 0)),
        ({"a": 10}, {"a": 4}, 2, Scaling(4, 4)),
        # 32 are visible: what is behind them is not known, so all but ours waits.
        ({"a": 500}, {}, 100, Scaling(400, 0)),
        ({"a": 100}, {}, 90, Scaling(32, 0)),
        ({"a": 20}, {}, 0, Scaling(20, 0)),
        # What is hidden in the first queue may be all that is leased here.
        ({"a": 60, "b": 500}, {"a": 10}, 100, Scaling(10 + 450, 0)),
        ({"a": 60, "b": 500}, {"a": 10}, 0, Scaling(510, 50)),
        # The service's count may be below what is visible.
        ({"a": 1}, {"a": 3}, 0, Scaling(3, 0)),
    ],
)
def test_what_there_is_to_do(backlog, visible, held, expected):
    assert Watched(backlog=backlog, visible=visible).scaling(held) == expected
