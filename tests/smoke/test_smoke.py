"""A short tour on whatever Spark runs it: `make test-matrix` goes from 4.0 to the newest.

Stream in, restart, availableNow, crash, sink, peek; and what versions do differently, as
docs/versions.md tells it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import reduce
from itertools import chain
from pathlib import Path
from typing import Any

import pyspark
import pytest
from lines import TRUE_AVAILABLE_NOW
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue import drain, run_until_done
from spark_azqueue.running.supervisor import reads
from spark_azqueue.testing import FakeQueueService

PATIENCE_S = 240


@pytest.fixture(params=["fake", "azurite"])
def connection_string(request: pytest.FixtureRequest) -> str:
    if request.param == "fake":
        service: FakeQueueService = request.getfixturevalue("fake")
        return service.connection_string
    text: str = request.getfixturevalue("azurite_connection_string")
    return text


class Job:
    """A streaming job that appends the bodies it reads to `bodies`."""

    def __init__(self, spark: SparkSession, folder: Path, text: str, queue: str) -> None:
        self._spark = spark
        self.checkpoint = folder / "checkpoint"
        self._options = {"secret.connectionString": text, "queue": queue}
        self.bodies: list[str] = []
        self.batches: dict[int, list[str]] = {}
        """What a sink has that skips the numbers of batches that it has."""

    def start(self, trigger: dict[str, Any] | None = None, **options: str) -> StreamingQuery:
        def take(batch: DataFrame, number: int) -> None:
            bodies = [row.body for row in batch.collect()]
            self.bodies.extend(bodies)
            self.batches.setdefault(number, bodies)

        frame = self._spark.readStream.format("azqueue").options(**self._options, **options).load()
        writer = frame.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(**trigger) if trigger else writer).start()

    def run(self, **options: str) -> list[str]:
        """One scheduled run with availableNow; returns the bodies it read."""
        before = len(self.bodies)
        assert self.start({"availableNow": True}, **options).awaitTermination(PATIENCE_S)
        return sorted(self.bodies[before:])

    def forget_last_commit(self) -> None:
        forget_last_commit(self.checkpoint)


def forget_last_commit(checkpoint: Path) -> None:
    """What a crash between the sink's work and Spark's commit log leaves behind."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path, fake: FakeQueueService, queue: str) -> Job:
    """On the fake, whose clock can be moved."""
    fake.create_queue(queue)
    return Job(spark, tmp_path, fake.connection_string, queue)


@pytest.fixture
def put(fake: FakeQueueService, queue: str) -> Callable[..., None]:
    def put(*bodies: str) -> None:
        fake.put_many(queue, list(bodies))

    return put


@pytest.mark.core
def test_sink_peek_and_stream(
    spark: SparkSession, tmp_path: Path, connection_string: str, queue: str
) -> None:
    options = {"secret.connectionString": connection_string, "queue": queue}
    sent = [f"m{i}" for i in range(20)]
    frame = spark.createDataFrame([(body,) for body in sent], "body string").coalesce(1)
    write = frame.write.format("azqueue").mode("append").options(**options)
    write.option("createQueue", "true").save()

    peeked = spark.read.format("azqueue").options(**options).load().collect()
    assert sorted(row.body for row in peeked) == sorted(sent)
    assert {row.dequeue_count for row in peeked} == {0}

    # As bytes through the stream sink, which versions hand over in different types.
    other = f"{queue}-other"
    stream = spark.readStream.format("azqueue").options(**options).load()
    sink = stream.selectExpr("CAST(body AS BINARY) AS body").writeStream.format("azqueue")
    sink = sink.options(**options | {"queue": other}, createQueue="true", messageEncoding="base64")
    sink = sink.option("checkpointLocation", str(tmp_path / "sink")).trigger(availableNow=True)
    assert sink.start().awaitTermination(PATIENCE_S)

    job = Job(spark, tmp_path, connection_string, other)
    assert job.run(messageEncoding="base64") == sorted(sent)


def test_a_stream_and_its_restart(
    job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None]
) -> None:
    put(*(f"a{i}" for i in range(50)))
    query = job.start(maxMessagesPerTrigger="20")
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)  # an idle stream settles, too
    query.stop()
    assert Counter(job.bodies) == Counter(f"a{i}" for i in range(50))

    put(*(f"b{i}" for i in range(30)))
    query = job.start()
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)
    query.stop()
    assert Counter(job.bodies[50:]) == Counter(f"b{i}" for i in range(30))


def test_scheduled_runs_repeat_nothing_however_long_the_pause(
    job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None]
) -> None:
    put("a", "b")
    assert job.run() == ["a", "b"]
    assert fake.count(queue) == (0 if TRUE_AVAILABLE_NOW else 2)

    fake.clock.advance(24 * 3600)  # every lease has run out
    put("c")
    assert job.run() == ["c"]
    assert fake.count(queue) == (0 if TRUE_AVAILABLE_NOW else 1)

    fake.clock.advance(24 * 3600)
    assert job.run() == []  # whichever version: an empty run settles what was left
    assert fake.count(queue) == 0


def test_available_now_reads_everything_or_on_old_versions_one_batch(
    job: Job, put: Callable[..., None]
) -> None:
    put(*(f"m{i}" for i in range(50)))
    runs = [len(job.run(maxMessagesPerTrigger="20")) for _ in range(3)]
    assert runs == ([50, 0, 0] if TRUE_AVAILABLE_NOW else [20, 20, 10])
    assert Counter(job.bodies) == Counter(f"m{i}" for i in range(50))


def test_no_report_comes_after_the_last_batch(job: Job, put: Callable[..., None]) -> None:
    """If it did, `drain` could ask the source what it has left hidden: see decision 43."""
    put(*(f"m{i}" for i in range(50)))
    query = job.start({"availableNow": True}, maxMessagesPerTrigger="20")
    assert query.awaitTermination(PATIENCE_S)

    last = [*reads(query)][-1]

    assert last.is_new
    assert last.counters is None or last.counters.deleted < 50


@pytest.mark.core
def test_a_drain_reads_and_deletes_everything(
    spark: SparkSession, job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None]
) -> None:
    put(*(f"m{i}" for i in range(50)))
    first = run_until_done(lambda: job.start({"availableNow": True}, maxMessagesPerTrigger="20"))
    assert ("spark_azqueue.drain" in first.reason) is not TRUE_AVAILABLE_NOW

    before = fake.count(queue)
    options = {"secret.connectionString": fake.connection_string, "queue": queue}
    result = drain(lambda: job.start({"availableNow": True}, maxMessagesPerTrigger="20"), options)

    assert (result.finished, result.left_visible, result.left_hidden) == (True, 0, 0)
    assert result.read == (0 if TRUE_AVAILABLE_NOW else 30)
    assert before == (0 if TRUE_AVAILABLE_NOW else 50)
    assert fake.count(queue) == 0
    assert Counter(job.bodies) == Counter(f"m{i}" for i in range(50))

    for trigger in ({"processingTime": "1 second"}, {"once": True}):
        with pytest.raises(ValueError, match=r"does not end when all is read.*availableNow"):
            drain(lambda each=trigger: job.start(each), options)
    assert spark.streams.active == []


@pytest.mark.core
def test_scheduled_runs_with_a_write_ahead_log_give_every_message_once(
    job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None], tmp_path: Path
) -> None:
    options = {"writeAheadLog": f"file:{tmp_path}/wal", "maxMessagesPerTrigger": "20"}
    put(*(f"m{i}" for i in range(50)))
    runs = []
    for _ in range(3):
        runs.append(len(job.run(**options)))
        fake.clock.advance(24 * 3600)  # every lease has run out
    assert runs == ([50, 0, 0] if TRUE_AVAILABLE_NOW else [20, 20, 10])

    job.forget_last_commit()
    again = job.run(**options)
    last = job.bodies[30:50] if TRUE_AVAILABLE_NOW else job.bodies[40:50]
    assert set(again) <= set(last), "the batch that is not committed, and no other"
    # 4.0 and 4.1 may leave the last batch leased once more; a later run deletes it.
    for _ in range(2):
        fake.clock.advance(24 * 3600)
        assert job.run(**options) == []
    assert Counter(job.bodies[:50]) == Counter(f"m{i}" for i in range(50))
    assert fake.count(queue) == 0


@pytest.mark.parametrize("logged", [False, True], ids=["without a log", "with a log"])
@pytest.mark.parametrize("loads", [1, 2])
def test_a_stream_that_begins_on_an_empty_queue(
    spark: SparkSession,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    *,
    logged: bool,
    loads: int,
) -> None:
    """Batch 0 has no data of it; with two loads the other one has data then, and later, too."""
    queues = [queue, f"{queue}-other"][:loads]
    bodies: list[str] = []

    def loaded(name: str) -> DataFrame:
        fake.create_queue(name)
        reader = spark.readStream.format("azqueue").option("queue", name)
        reader = reader.option("secret.connectionString", fake.connection_string)
        if logged:
            reader = reader.option("writeAheadLog", f"file:{tmp_path}/wal-{name}")
        return reader.load().select("body")

    def take(batch: DataFrame, _: int) -> None:
        bodies.extend(row.body for row in batch.collect())

    frame = reduce(DataFrame.unionAll, map(loaded, queues))
    fake.put_many(queues[-1], ["first"] if loads == 2 else [])
    checkpoint = tmp_path / "checkpoint"
    started = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = started.start()
    fake.wait_until((checkpoint / "commits" / "0").exists, PATIENCE_S)

    sent = [f"m{number}" for number in range(100)]
    fake.put_many(queue, sent)
    if loads == 2:
        fake.put_many(queues[-1], ["last"])
    fake.wait_until(lambda: sum(map(fake.count, queues)) == 0, PATIENCE_S)
    query.stop()

    assert sorted(bodies) == sorted([*sent, "first", "last"] if loads == 2 else sent)


@pytest.mark.core
def test_a_batch_that_a_crash_left_unfinished_is_read_again(
    job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None]
) -> None:
    put("a", "b")
    job.run()
    job.forget_last_commit()

    again = [body for _ in range(3) for body in job.run()]  # and nobody moved the clock

    # From 4.2 the first run had deleted them already: Spark had told that it was committed.
    assert again == ([] if TRUE_AVAILABLE_NOW else ["a", "b"])
    assert fake.count(queue) == 0


def test_sparks_wrapper_for_available_now_loses_nothing(
    spark: SparkSession,
    job: Job,
    fake: FakeQueueService,
    queue: str,
    put: Callable[..., None],
) -> None:
    # Where it is set, 4.0 and 4.1 ask for messages before they name the batch to be replayed.
    put("a", "b")
    job.run()
    job.forget_last_commit()
    spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    try:
        if TRUE_AVAILABLE_NOW:
            job.run()
        else:
            with pytest.raises(Exception, match=r"triggerAvailableNowWrapper\.enabled is true"):
                job.run()
    finally:
        spark.conf.unset("spark.sql.streaming.triggerAvailableNowWrapper.enabled")

    for _ in range(3):
        fake.clock.advance(3600)
        job.run()
    assert set(job.bodies) == {"a", "b"}
    assert fake.count(queue) == 0


def test_a_batch_that_fails_is_read_again(
    spark: SparkSession, job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None]
) -> None:
    put("a", "b")
    failing = (
        spark.readStream.format("azqueue")
        .option("secret.connectionString", fake.connection_string)
        .option("queue", queue)
        .load()
        .selectExpr("raise_error('the sink is down')")
        .writeStream.format("noop")
        .option("checkpointLocation", str(job.checkpoint))
        .start()
    )
    with pytest.raises(pyspark.errors.StreamingQueryException, match="the sink is down"):
        failing.awaitTermination(PATIENCE_S)
    assert fake.requests["delete"] == 0

    query = job.start()
    fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)
    query.stop()
    assert sorted(job.bodies) == ["a", "b"]


@pytest.mark.core
def test_executors_lease(
    job: Job, fake: FakeQueueService, queue: str, put: Callable[..., None], tmp_path: Path
) -> None:
    options = {
        "leaseOn": "executors",
        "writeAheadLog": f"file:{tmp_path}/log",
        "deleteAfter": "log",
        "maxMessagesPerTrigger": "20",
    }
    put(*(f"m{number}" for number in range(50)))
    runs = [len(job.run(**options)) for _ in range(3)]
    assert runs == ([50, 0, 0] if TRUE_AVAILABLE_NOW else [20, 20, 10])
    assert fake.count(queue) == 0
    job.forget_last_commit()
    assert job.run(**options) == sorted(job.batches[max(job.batches)])

    put(*(f"n{number}" for number in range(50)))
    for left in (20, 0):  # a restart between two batches
        query = job.start(**options)
        fake.wait_until(lambda left=left: fake.count(queue) <= left, PATIENCE_S)
        query.stop()
    job.run(**options)  # what a stop has left without its commit
    sent = Counter(f"{letter}{number}" for letter in "mn" for number in range(50))
    assert Counter(chain(*job.batches.values())) == sent


def test_sparks_wrapper_for_available_now_is_refused_where_executors_lease(
    spark: SparkSession, job: Job, put: Callable[..., None], tmp_path: Path
) -> None:
    options = {
        "leaseOn": "executors",
        "writeAheadLog": f"file:{tmp_path}/log",
        "deleteAfter": "log",
    }
    put("a")
    spark.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")
    try:
        assert job.run(**options) == ["a"], "the first run has a new checkpoint"
        put("b")
        if TRUE_AVAILABLE_NOW:
            assert job.run(**options) == ["b"], "it is not used"
            return
        with pytest.raises(Exception, match=r"triggerAvailableNowWrapper\.enabled true\?"):
            job.run(**options)
    finally:
        spark.conf.unset("spark.sql.streaming.triggerAvailableNowWrapper.enabled")
    assert job.run(**options) == ["b"]


def test_a_second_query_follows_a_log(
    spark: SparkSession, job: Job, put: Callable[..., None], tmp_path: Path
) -> None:
    log = f"file:{tmp_path}/wal"
    followed: dict[int, list[str]] = {}

    def take(batch: DataFrame, number: int) -> None:
        followed.setdefault(number, [row.body for row in batch.collect()])

    def follow() -> StreamingQuery:
        frame = spark.readStream.format("azqueue").option("readLog", log).load()
        writer = frame.writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", str(tmp_path / "follower")).start()

    for run in range(3):
        put(*(f"r{run}m{number}" for number in range(10)))
        job.run(writeAheadLog=log)
        query = follow()
        query.processAllAvailable()
        query.stop()
        if run == 1:
            forget_last_commit(tmp_path / "follower")
    read = Counter(chain(*followed.values()))
    # What the last run has written is known as committed by the next one, or at its end.
    last = {f"r2m{number}" for number in range(10)}
    assert max(read.values()) == 1
    assert set(job.bodies) - last <= read.keys() <= set(job.bodies)


@pytest.mark.core
def test_transactions_write_a_batch_that_comes_again_once(
    spark: SparkSession, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    target = f"{queue[:50]}-out"
    for name in (queue, target):
        fake.create_queue(name)
    fake.put_many(queue, ["a", "b"])
    account = {"secret.connectionString": fake.connection_string}
    sink = account | {"queue": target, "transactionLog": f"file:{tmp_path}/txn"}

    def run() -> None:
        frame = spark.readStream.format("azqueue").options(**account, queue=queue)
        query = (
            frame.option("writeAheadLog", f"file:{tmp_path}/wal")
            .load()
            .select("body")
            .writeStream.format("azqueue")
            .options(**sink)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(PATIENCE_S)

    run()
    (tmp_path / "checkpoint" / "commits" / "0").unlink()
    (tmp_path / "checkpoint" / "commits" / ".0.crc").unlink(missing_ok=True)
    run()
    for _ in range(2):
        rows = spark.createDataFrame([("c",)], "body string")
        options = sink | {"txnAppId": "smoke", "txnVersion": "1"}
        rows.write.format("azqueue").mode("append").options(**options).save()

    assert sorted(each.text for each in fake.messages(target)) == ["a", "b", "c"]
    assert fake.visible(target) == 3
