"""What shows in the progress and in the listener's metrics while a real stream runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lines import TRUE_AVAILABLE_NOW, needs_reports_when_idle
from processes import wait_for as until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue import RunResult, drain, queue_watch, run_until_done, transaction_reader
from spark_azqueue.metrics.activity import QueryState
from spark_azqueue.metrics.exported import Snapshot
from spark_azqueue.metrics.listener import AzQueueListener
from spark_azqueue.metrics.query_metrics import QueryMetrics
from spark_azqueue.metrics.report import Report
from spark_azqueue.testing import FakeQueueService, Fault

from .conftest import Streams
from .test_stream import PATIENCE_S

OFTEN = "spark.sql.streaming.noDataProgressEventInterval"


@pytest.fixture
def listener(spark: SparkSession) -> Iterator[AzQueueListener]:
    """A listener, and idle queries that report five times a second (usually: every 10 s)."""
    spark.conf.set(OFTEN, "200")
    made = AzQueueListener.attach(spark, keep=1_000)
    yield made
    spark.streams.removeListener(made)
    spark.conf.unset(OFTEN)


def wait_for(
    listener: AzQueueListener,
    query: StreamingQuery,
    fake: FakeQueueService,
    shows: Callable[[QueryMetrics], bool],
) -> QueryMetrics:
    """The first metrics, as they come, that show this."""

    def look() -> QueryMetrics | None:
        assert query.isActive, query.exception()
        latest = listener.latest(query)
        return latest if latest and shows(latest) else None

    found = fake.wait_until(look, PATIENCE_S)
    assert found
    return found


@needs_reports_when_idle
def test_the_backlog_is_there_and_falls_and_every_message_is_counted_once(
    spark: SparkSession,
    streams: Streams,
    listener: AzQueueListener,
    fake: FakeQueueService,
    queue: str,
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(300)])
    frame = streams.read(fake.connection_string, queue, maxMessagesPerTrigger="100")

    def twice(batch: DataFrame, number: int) -> None:
        batch.count()  # a second action doubles Spark's numInputRows, not the messages

    query = streams.collect(frame, twice)
    end = wait_for(listener, query, fake, lambda latest: latest.backlog == {queue: 0})
    fake.put(queue, "one more")
    end = wait_for(
        listener,
        query,
        fake,
        lambda latest: bool(latest.counters and latest.counters.deleted > 300),
    )

    assert end.held == end.unconfirmed_deletes == 0
    assert end.counters is not None
    assert (end.counters.dequeued, end.counters.delivered, end.counters.deleted) == (301, 301, 301)
    assert end.delivered_by_queue == {queue: 301}
    assert end.requests is not None
    assert end.requests["delete"] == 301
    assert end.requests["dequeue"] >= 10
    kept = listener.metrics(query)
    assert kept[0]["backlog"] == {queue: 300}, "leased messages are among them"
    batches = [each for each in kept if each["messages"]]
    assert [each["messages"] for each in batches] == [100, 100, 100, 1]
    assert all(each["messages_per_second"] > 0 for each in batches)
    assert all(each["oldest_seconds"] is not None for each in batches)
    assert len(kept) > len(batches), "idle moments are among them"

    frame = listener.as_dataframe(spark, query).where("messages > 0").orderBy("batch_id")
    assert [row.messages for row in frame.collect()] == [100, 100, 100, 1]
    assert frame.first().backlog == {queue: 300}
    assert spark.sql("SELECT current_timestamp() AS now").first().now >= frame.first().timestamp


@needs_reports_when_idle
def test_the_progress_itself_is_readable_and_holds_no_secret(
    streams: Streams, listener: AzQueueListener, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b"])
    query = streams.collect(streams.read(fake.connection_string, queue))
    wait_for(listener, query, fake, lambda latest: latest.counters is not None)

    every = [progress.json for progress in query.recentProgress]
    (source,) = json.loads(every[0])["sources"]
    assert (source["endOffset"]["batch"], source["endOffset"]["queues"][queue]["messages"]) == (
        1,
        2,
    )
    assert source["endOffset"]["oldest"].endswith("Z")
    assert Report.from_json(source["latestOffset"]).backlog == {queue: 2}
    assert not any(fake.key in text or "sig=" in text for text in every)


def test_a_query_is_told_from_its_start_and_one_that_reads_no_queue_is_not(
    spark: SparkSession,
    streams: Streams,
    listener: AzQueueListener,
    fake: FakeQueueService,
    queue: str,
) -> None:
    fake.create_queue(queue)
    fake.put(queue, "a")
    seen: list[dict[str, bool]] = []

    def fail(batch: DataFrame, number: int) -> None:
        seen.append(listener.activity())
        raise RuntimeError("the first batch fails")

    elsewhere = Streams(spark, streams.checkpoint.with_name("rate"))
    other = elsewhere.collect(spark.readStream.format("rate").load())
    other.stop()
    query = streams.collect(streams.read(fake.connection_string, queue), fail)
    with pytest.raises(Exception, match="the first batch fails"):
        query.awaitTermination(PATIENCE_S)

    name = str(query.id)
    assert seen == [{name: True}]
    assert listener.latest(query) is None
    until(lambda: listener.activity() == {name: False}, "the end to be told")
    assert listener.states()[name].failures == 1
    assert listener.states()[name].started is not None


def test_metrics_tell_the_newest_transaction(
    spark: SparkSession,
    streams: Streams,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> None:
    """A chain whose sink loses answers; the log is read while it runs and at its end."""
    from .test_stream import finish

    for name in (queue, f"{queue}-out"):
        fake.create_queue(name)
    fake.faults.add(Fault("put", "reply_lost", nth=3, queue=f"{queue}-out"))
    fake.put_many(queue, [f"m{i}" for i in range(10)])
    sink = {
        "secret.connectionString": fake.connection_string,
        "queue": f"{queue}-out",
        "transactionLog": f"file:{tmp_path}/txn",
    }
    listener = AzQueueListener.attach(spark, transactions=transaction_reader(sink))
    try:
        frame = streams.read(fake.connection_string, queue, writeAheadLog=f"file:{tmp_path}/wal")
        query = (
            frame.select("body")
            .writeStream.format("azqueue")
            .options(**sink)
            .option("checkpointLocation", str(streams.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        streams.queries.append(query)
        finish(query)
        until(lambda: not any(listener.activity().values()), "the end to be told")
    finally:
        spark.streams.removeListener(listener)

    latest = listener.latest(query)
    assert latest is not None
    assert (latest.sink_published, latest.sink_prepared, latest.sink_missing) == (10, 0, 0)
    assert latest.sink_orphaned == 1
    assert latest.sink_publish_seconds is not None


def test_right_after_run_until_done_the_listener_knows_the_end_and_adds_up_the_runs(
    streams: Streams, listener: AzQueueListener, fake: FakeQueueService, queue: str
) -> None:
    fake.create_queue(queue)
    frame = streams.read(fake.connection_string, queue)

    def run(*, fails: bool) -> tuple[bool, QueryState]:
        def work(batch: DataFrame, number: int) -> None:
            if fails:
                raise RuntimeError("the batch fails")

        query: list[StreamingQuery] = []

        def start() -> StreamingQuery:
            query.append(streams.collect(frame, work, availableNow=True))
            return query[-1]

        result = run_until_done(start, restarts=0, listener=listener)
        return result.finished, listener.states()[str(query[-1].id)]

    # Given runs in one process, some of which fail
    for number, fails in enumerate([False, True, False, True, False]):
        fake.put_many(queue, ["a"] * 10)
        finished, state = run(fails=fails)

        # Then what the listener says at once is the end
        assert finished is not fails
        assert (state.active, state.failed) == (False, fails)
        assert state.failures == (number + 1) // 2

    if not TRUE_AVAILABLE_NOW:
        return  # docs/metrics.md: a run of one batch has no report but that of its start

    # And its counters are those of all runs
    (name,) = listener.queries()
    totals, latest = listener.totals(name), listener.latest(name)
    assert totals
    assert latest
    assert totals.counters
    assert latest.counters
    assert totals.counters.delivered > latest.counters.delivered
    assert totals.counters.delivered >= 50


def test_a_drain_of_two_sources_starts_again_after_a_failure(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    other = f"{queue}-other"
    sources = [
        {"queue": queue, "maxMessagesPerTrigger": "20"},
        {"queue": other, "writeAheadLog": f"file:{tmp_path}/log", "leaseOn": "executors"}
        | {"deleteAfter": "log"},
    ]
    for each in sources:
        fake.create_queue(each["queue"])
        fake.put_many(each["queue"], [f"{each['queue']} {number}" for number in range(50)])
    frames = [streams.read(fake.connection_string, **each).select("body") for each in sources]
    started: list[StreamingQuery] = []
    shown: list[tuple[int, int | None]] = []

    def work(batch: DataFrame, number: int) -> None:
        if len(started) == 1:
            raise RuntimeError("the sink is down")

    def start() -> StreamingQuery:
        started.append(streams.collect(frames[0].unionAll(frames[1]), work, availableNow=True))
        return started[-1]

    options = [each | {"secret.connectionString": fake.connection_string} for each in sources]
    result = drain(start, options, bar=lambda *each: shown.append(each), first_wait=0.1)

    assert (result.finished, result.restarts, result.read, result.others) == (True, 1, 100, 0)
    assert shown[-1] == (100, 100)
    assert fake.count(queue) == fake.count(other) == 0
    assert len(streams.bodies()) == len(set(streams.bodies())) == 100


def test_a_query_that_fails_in_its_first_batch_is_watched_and_its_latencies_add_up(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    """The listener is not named to `run_until_done`, and knows of each end when it returns."""
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{i}" for i in range(40)])
    options = {"secret.connectionString": fake.connection_string, "queue": queue}
    listener = AzQueueListener.attach(spark, watch=queue_watch({queue: options}))
    broken = [True]

    def work(batch: DataFrame, number: int) -> None:
        if broken:
            raise ConnectionError("the target is down")
        batch.count()

    def start() -> StreamingQuery:
        frame = streams.read(fake.connection_string, queue)
        writer = frame.writeStream.queryName(queue).foreachBatch(work)
        writer = writer.option("checkpointLocation", str(streams.checkpoint))
        return writer.trigger(availableNow=True).start()

    try:
        given_up = run_until_done(start, restarts=2, first_wait=0)
        failed = listener.states()[queue]
        seen = Snapshot.of(listener).watched[queue]
        assert (given_up.finished, failed.failed, failed.failures) == (False, True, 3)
        assert seen.backlog == {queue: 40}
        assert listener.latest(queue) is None

        broken.clear()
        assert drain(start, options).finished
        assert fake.count(queue) == 0
        latencies = listener.totals(queue).latencies  # type: ignore[union-attr]
        assert latencies
        assert latencies["batch"].count >= 1
        if "delivery" in latencies:  # Spark 4.0 and 4.1 report what the first batch of a run saw
            assert latencies["delivery"].count >= 40
            assert latencies["dequeue"].count >= 1
        assert not listener.sends(queue)
    finally:
        spark.streams.removeListener(listener)


def test_rows_of_a_query_that_writes_to_a_queue_are_known_as_messages(
    spark: SparkSession, streams: Streams, fake: FakeQueueService, queue: str
) -> None:
    listener = AzQueueListener.attach(spark)
    for name in (queue, f"{queue}-out"):
        fake.create_queue(name)
    fake.put_many(queue, ["a", "b"])
    try:
        frame = streams.read(fake.connection_string, queue).select("body")
        writer = frame.writeStream.queryName(queue).format("azqueue")
        writer = writer.option("checkpointLocation", str(streams.checkpoint))
        writer = writer.option("secret.connectionString", fake.connection_string)
        query = writer.option("queue", f"{queue}-out").trigger(availableNow=True).start()
        query.awaitTermination()
        assert listener.wait_for_end(query)
        assert listener.sends(queue)
        assert listener.latest(queue).sink_rows == 2  # type: ignore[union-attr]
    finally:
        spark.streams.removeListener(listener)


@pytest.mark.parametrize("supervise", ["run_until_done", "drain"])
def test_a_new_checkpoint_with_an_old_output_is_not_called_finished(
    spark: SparkSession, fake: FakeQueueService, queue: str, tmp_path: Path, supervise: str
) -> None:
    """Spark's file sink skips the numbers of batches that its folder has."""
    options = {"secret.connectionString": fake.connection_string, "queue": queue}
    frame = spark.readStream.format("azqueue").options(**options).load().select("body")

    def run(checkpoint: str) -> RunResult:
        def start() -> StreamingQuery:
            writer = frame.writeStream.option("checkpointLocation", f"{tmp_path}/{checkpoint}")
            return writer.trigger(availableNow=True).start(f"{tmp_path}/out")

        return drain(start, options) if supervise == "drain" else run_until_done(start)

    fake.create_queue(queue)
    fake.put_many(queue, ["a", "b"])
    assert run("first").finished
    fake.put_many(queue, ["c", "d", "e"])

    result = run("second")

    assert not result.finished
    assert "batch 0 had 3 messages, and no row of them was read: the sink skipped" in result.reason
    assert spark.streams.active == []
