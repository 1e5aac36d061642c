"""The promises on real Spark, with faults, a second consumer and poison."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import QueueClient
from lines import TRUE_AVAILABLE_NOW, read_all
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from restarting import restarted_until_empty

from spark_azqueue.testing import FakeQueueService, Fault

from .conftest import Streams
from .test_restart import forget_last_commit
from .test_stream import PATIENCE_S, finish


def client(fake: FakeQueueService, queue: str) -> QueueClient:
    return QueueClient.from_connection_string(
        fake.connection_string, queue, api_version="2021-12-02", retry_total=0
    )


@pytest.mark.core
def test_a_batch_that_takes_five_visibility_timeouts_is_delivered_once_and_settled(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(5)])
    taken: list[Any] = []

    def long_work(batch: DataFrame, number: int) -> None:
        if batch.isEmpty():
            return
        with client(fake, queue) as second:
            # Renewed at half a lease: ten renewals of five messages are five timeouts.
            while fake.requests["update"] < 1 + 10 * 5:
                done = fake.requests["update"]
                taken.extend(second.receive_messages(max_messages=5, visibility_timeout=60))
                fake.wait_until(lambda done=done: fake.requests["update"] > done, PATIENCE_S)

    streams.collect(streams.read(fake.connection_string, queue, visibilityTimeout="3"), long_work)
    fake.wait_until(lambda: fake.count(queue) == 0, 2 * PATIENCE_S)

    assert taken == []
    assert sorted(streams.bodies()) == [f"m{i}" for i in range(5)]
    assert fake.requests["delete"] == 5


FAULTS = [
    Fault("*", "busy_503", every=9, seconds=0),
    Fault("*", "error_500", every=9),
    Fault("*", "reset", every=9),
    Fault("*", "reply_lost", every=9),
    Fault("*", "unauthorized", nth=50),  # a token or SAS that has run out meanwhile
    Fault("*", "slow", every=30, seconds=0.3),
    pytest.param(Fault("dequeue", "delivered_twice", every=2), marks=pytest.mark.core),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_the_stream_goes_on_under_faults(
    streams: Streams, fake: FakeQueueService, queue: str, fault: Fault
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(300)])
    frame = streams.read(
        fake.connection_string, queue, visibilityTimeout="60", maxMessagesPerTrigger="100"
    )
    fake.faults.add(fault)
    query = streams.collect(frame)
    moves = 0
    while fake.count(queue):
        # A page whose reply was lost stays hidden until its lease ends: let time pass, by the
        # service's clock, once everything else is settled.
        looks = fake.requests["dequeue"]
        fake.wait_until(
            lambda looks=looks: not fake.count(queue) or fake.requests["dequeue"] > looks + 3,
            PATIENCE_S,
        )
        if fake.count(queue) and not fake.visible(queue):
            fake.clock.advance(20)
            moves += 1
            assert moves < 60
    assert query.isActive
    assert fake.faults.injected[fault.kind] > 0
    assert Counter(streams.bodies()) == Counter(f"m{i}" for i in range(300))


@pytest.mark.parametrize("service_says", ["revoked", "deleted"])
def test_what_no_retry_can_help_stops_the_query_in_clear_words(
    streams: Streams, fake: FakeQueueService, queue: str, service_says: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(10)])
    query = streams.collect(streams.read(fake.connection_string, queue))
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)

    if service_says == "revoked":
        fake.put(queue, "kept")
        fake.revoked = True
        expected = "does not accept this credential"
    else:
        fake.delete_queue(queue)
        expected = f"queue '{queue}'.*QueueNotFound"
    with pytest.raises(StreamingQueryException, match=expected):
        query.awaitTermination(PATIENCE_S)


def test_a_replay_does_not_wait_for_the_backlog(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(100)])
    frame = streams.read(fake.connection_string, queue)
    finish(streams.collect(frame, once=True))
    forget_last_commit(streams.checkpoint)
    ids = {row.message_id for row in streams.rows}
    streams.rows.clear()
    fake.put_many(queue, [f"backlog {i}" for i in range(50_000)])
    fake.reset_counters()

    query = streams.collect(frame)
    fake.wait_until(lambda: fake.requests["dequeue"] > 0, PATIENCE_S)
    query.stop()

    before_dequeue = [entry for entry in fake.log if entry.op in ("update", "dequeue", "delete")]
    first = next(i for i, entry in enumerate(before_dequeue) if entry.op == "dequeue")
    released = {entry.id for entry in before_dequeue[:first] if entry.op == "update"}
    assert ids <= released
    assert first <= 100 + 1, "nothing but the releases and the check at the start"
    # Nothing was lost: whatever is not in the queue any more was given out and committed.
    there = {view.id for view in fake.messages(queue)}
    assert len(there) + len({row.message_id for row in streams.rows} - there) == 50_100


@pytest.mark.parametrize("bad", [pytest.param(1, marks=pytest.mark.core), 2])
def test_poison_messages_stop_only_themselves(
    streams: Streams, fake: FakeQueueService, queue: str, spark: SparkSession, bad: int
) -> None:
    fake.create_queue(queue)
    bodies = [f"m{i}" for i in range(60)]
    fake.put_many(queue, bodies)
    poison = {f"m{i}" for i in range(7, 60, 12)[:bad]} if bad > 1 else {"m30"}

    def work(batch: DataFrame, number: int) -> None:
        if any(row.body in poison for row in batch.collect()):
            raise RuntimeError("this message breaks the job")

    # All at once, then suspects six by six, then one by one.
    frame = streams.read(
        fake.connection_string,
        queue,
        maxDequeueCount="2",
        maxMessagesPerTrigger="36",
        poisonFormat="copy",
    )
    restarted_until_empty(
        # docs/versions.md: on 4.0 and 4.1 not with availableNow.
        lambda: streams.collect(
            frame, work, **{"availableNow": True} if TRUE_AVAILABLE_NOW else {}
        ),
        fake,
        queue,
        failing_with="this message breaks the job",
        ends=TRUE_AVAILABLE_NOW,
    )

    assert Counter(streams.bodies()) == Counter(set(bodies) - poison)
    assert fake.count(queue) == 0
    assert sorted(view.text for view in fake.messages(f"{queue}-poison")) == sorted(poison)

    # Redrive: the poison queue is a queue like any other.
    again = streams.spark.readStream.format("azqueue").options(
        **{"secret.connectionString": fake.connection_string, "queue": f"{queue}-poison"}
    )
    back = again.load().select("body").writeStream.format("azqueue")
    back = back.options(**{"secret.connectionString": fake.connection_string, "queue": queue})
    checkpoint = str(streams.checkpoint) + "-redrive"
    back = back.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    read_all(back.start)
    assert sorted(view.text for view in fake.messages(queue)) == sorted(poison)
    assert fake.count(f"{queue}-poison") == 0


def test_an_undecodable_body_goes_to_the_poison_queue_at_once_and_the_others_go_on(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    from .test_bodies import with_one_bad

    good, _ = with_one_bad(fake, queue)
    frame = streams.read(
        fake.connection_string, queue, messageEncoding="base64", maxDequeueCount="5"
    )
    streams.read_all(frame)

    assert sorted(streams.bodies()) == sorted(good)
    assert fake.count(queue) == 0
    (copy,) = fake.messages(f"{queue}-poison")
    assert json.loads(copy.text)["body"] == "not base64!"
    assert copy.expiration - copy.insertion > 100 * 365 * 86_400, "copies never expire"


def test_a_batch_that_one_of_two_tables_has_is_repeated_until_both_have_it(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    """With a log and no option of poison; each table skips the batch numbers that it has."""
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(40)])
    tables: dict[str, dict[int, list[str]]] = {"first": {}, "second": {}}
    is_down = True

    def write(batch: DataFrame, number: int) -> None:
        bodies = [row.body for row in batch.collect()]
        tables["first"].setdefault(number, bodies)
        if bodies and is_down:
            raise RuntimeError("the second table is down")
        tables["second"].setdefault(number, bodies)

    options = {"writeAheadLog": f"file:{tmp_path}/log", "maxMessagesPerTrigger": "20"}
    frame = streams.read(fake.connection_string, queue, **options)
    for _ in range(7):  # four failures made the source give the batch up, once
        query = streams.each_batch(frame, write)
        with pytest.raises(StreamingQueryException, match="the second table is down"):
            query.awaitTermination(PATIENCE_S)
    is_down = False
    query = streams.each_batch(frame, write)
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)
    query.stop()
    for table in tables.values():
        rows = [body for bodies in table.values() for body in bodies]
        assert sorted(rows) == sorted(f"m{i}" for i in range(40))


def test_a_query_that_ends_gives_back_what_is_in_no_batch(
    streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(32)])
    seen = []

    def fail(batch: DataFrame, number: int) -> None:
        if count := batch.count():
            seen.append((count, fake.visible(queue)))
            raise RuntimeError("the sink is down")

    frame = streams.read(fake.connection_string, queue, maxDequeueCount="1")
    for _ in range(5):  # all at once, until an outage of seconds is over; then suspects, one by one
        query = streams.collect(frame, fail)
        with pytest.raises(StreamingQueryException, match="the sink is down"):
            query.awaitTermination(PATIENCE_S)
    assert seen == [(32, 0)] * 4 + [(1, 0)], "one in the batch, the others leased meanwhile"
    fake.wait_until(lambda: fake.visible(queue) == 31, PATIENCE_S)
