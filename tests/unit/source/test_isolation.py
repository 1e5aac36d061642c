"""With isolationLevel=readCommitted: no row for what is about to expire; nothing else changes."""

import logging
import time

import pytest
from consuming import Consumers, batch, rows
from doubles import Clock
from refs import ORDERS

from spark_azqueue.metrics.report import Counters
from spark_azqueue.options.choices import IsolationLevel
from spark_azqueue.service.messages import UNKNOWN_TIME, Message
from spark_azqueue.source.intake.backlog import Isolation
from spark_azqueue.testing import FakeClock, FakeQueueService

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
READ_COMMITTED = {"isolationLevel": "readCommitted"}
TTL = 60


# ── the decision ──────────────────────────────────────────────────────────────────────────────────


def may_be_abandoned(expires, answered_at=NOW, level=IsolationLevel.READ_COMMITTED):
    message = Message(ORDERS, "m1", "text", NOW, expires, 1)
    return Isolation(level).may_be_abandoned(message, answered_at)


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-1, True), (0, True), (1, True), (2, True), (3, False)]
)
def test_two_seconds_or_less_to_live(seconds, expected):
    assert may_be_abandoned(NOW + seconds * SECOND) is expected


def test_nothing_is_dropped_without_proof():
    assert not may_be_abandoned(NOW + SECOND, answered_at=None)
    assert not may_be_abandoned(UNKNOWN_TIME)


def test_nothing_is_dropped_by_default():
    assert not may_be_abandoned(NOW + SECOND, level=IsolationLevel.READ_UNCOMMITTED)


# ── the warning ───────────────────────────────────────────────────────────────────────────────────


def test_the_first_is_warned_of_and_then_at_most_once_a_minute(caplog):
    clock = Clock()
    isolation = Isolation(IsolationLevel.READ_COMMITTED, clock)

    def warned():
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return said

    isolation.left(0)
    assert warned() == []
    isolation.left(1)
    assert ": 1 messages gave no row so far" in warned()[0]
    clock.now += 59
    isolation.left(4)
    assert warned() == []
    clock.now += 1
    isolation.left(0)
    assert warned() == []
    isolation.left(2)
    (said,) = warned()
    assert ": 7 messages gave no row so far" in said
    assert caplog.records == []


# ── the source ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def still():
    """A fake whose clock stands still, a quarter of a second before a whole one."""
    with FakeQueueService(FakeClock(int(time.time()) + 0.75, frozen=True)) as running:
        running.create_queue("orders")
        yield running


@pytest.fixture
def query(still):
    made = Consumers(still)
    yield made
    made.stop()


def never(seconds):
    pytest.fail(f"it waits {seconds} s")


def abandoned(still, count=1, left_s=1):
    """So many messages that were hidden until they had so many seconds to live: by now."""
    for number in range(count):
        still.put("orders", f"abandoned {number}", delay=TTL - left_s, ttl=TTL)
    still.clock.advance(TTL - left_s)


@pytest.mark.parametrize("left_s", [1, 2])
def test_such_a_message_is_left_alone_and_expires(query, still, left_s, caplog):
    abandoned(still, left_s=left_s)
    consumer = query.start(**READ_COMMITTED)

    assert consumer.latest(consumer.initial, None) == consumer.initial
    consumer.close()

    report = consumer.report()
    assert report.held == report.unconfirmed_deletes == 0
    assert report.counters == Counters(dequeued=1, skipped_near_expiry=1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert still.requests["delete"] == 0
    assert still.requests["update"] == 1, "the check at the start"
    assert [message.visible for message in still.messages("orders")] == [False]
    still.clock.advance(left_s)
    assert still.count("orders") == 0


@pytest.mark.parametrize(("options", "left_s"), [(READ_COMMITTED, 3), ({}, 1)])
def test_any_other_message_gives_its_row(query, still, options, left_s):
    abandoned(still, left_s=left_s)
    consumer = query.start(**options)

    _, bodies = batch(consumer, consumer.initial)

    assert bodies == ["abandoned 0"]
    size = len("abandoned 0")
    assert consumer.report().counters == Counters(dequeued=1, delivered=1, delivered_bytes=size)


def test_a_message_that_expires_while_it_waits_for_its_batch_gives_its_row(query, still):
    for number in range(2):
        still.put("orders", str(number), ttl=TTL)
    consumer = query.start(maxMessagesPerTrigger="1", **READ_COMMITTED)
    end, first = batch(consumer, consumer.initial)
    consumer.engine.prefetch()
    query.wait_for("prefetch")

    still.clock.advance(TTL - 1)

    assert sorted(first + batch(consumer, end)[1]) == ["0", "1"]
    assert consumer.report().counters.skipped_near_expiry == 0


def test_a_copy_of_a_message_in_hand_is_no_such_message(query, still):
    """Its lease ended and it came again: it is deleted with its newest receipt, as ever."""
    still.put("orders", "slow", ttl=TTL)
    consumer = query.start(visibilityTimeout="30", renews=False, **READ_COMMITTED)
    end, bodies = batch(consumer, consumer.initial)
    still.clock.advance(TTL - 1)
    consumer.engine.next_batch(2)
    assert consumer.report().counters == Counters(
        dequeued=2, delivered=1, delivered_bytes=len("slow"), duplicates_suppressed=1
    )

    consumer.committed(end)
    consumer.close()

    assert bodies == ["slow"]
    assert still.count("orders") == 0
    assert consumer.report().counters.deleted == 1


def test_pages_of_such_messages_hide_none_behind_them(query, still):
    abandoned(still, count=70)
    still.put("orders", "own")
    consumer = query.start(parallelism="1", **READ_COMMITTED)

    assert batch(consumer, consumer.initial)[1] == ["own"]
    assert consumer.report().counters.skipped_near_expiry == 70


@pytest.mark.parametrize("visibility_s", ["1", "60"])
def test_an_available_now_run_ends_before_they_have_expired(query, still, visibility_s):
    abandoned(still, count=40)
    still.put("orders", "own")
    consumer = query.start(sleep=never, visibilityTimeout=visibility_s, **READ_COMMITTED)
    consumer.freeze_cutoff()

    end, bodies = batch(consumer, consumer.initial)

    assert bodies == ["own"]
    assert consumer.latest(end, None) == end
    assert [message.text.split()[0] for message in still.messages("orders")] == ["abandoned"] * 40


def test_an_available_now_run_does_not_wait_for_one_that_its_replay_released(query, still):
    still.put("orders", "own", ttl=TTL)
    first = query.start(visibilityTimeout="3600")
    end = first.latest(first.initial, None)
    still.clock.advance(TTL - 2)
    again = query.start(sleep=never, visibilityTimeout="3600", **READ_COMMITTED)
    again.freeze_cutoff()
    assert rows(again.plan(again.initial, end)) == []

    assert again.latest(end, None) == end

    assert again.report().counters.skipped_near_expiry == 1


def test_such_messages_alone_do_not_make_a_run_say_that_it_is_not_drained(query, still):
    """A batch of a process that was killed expired; only what was left is in the queue's count."""
    times = {"clock": still.clock.now, "visibilityTimeout": "2 hours"}
    still.put("orders", "own", ttl=3_700)
    first = query.start(renews=False, **times)
    end = first.latest(first.initial, 100)
    still.clock.advance(3_600)
    assert first.engine.holder.worker.renew_due() == 1
    still.put("orders", "abandoned", delay=99, ttl=100)
    still.clock.advance(99)
    again = query.start(sleep=still.clock.advance, **times, **READ_COMMITTED)
    again.freeze_cutoff()
    assert rows(again.plan(again.initial, end)) == []

    assert again.latest(end, None) == end

    assert again.report().counters.skipped_near_expiry == 1
    assert still.count("orders") == 0
