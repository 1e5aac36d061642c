"""leaseOn=executors on real Spark: tasks dequeue, store and delete, and each message comes once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from base64 import b64encode
from pathlib import Path

import pytest
from lines import needs_true_available_now
from processes import PATIENCE_S, of_session, processes, wait_for
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.blobs import FakeBlobService
from spark_azqueue.testing.faults import Fault

from .conftest import Streams
from .test_exactly_once import Query
from .test_stream import finish, send

QUEUES = 3


class Leased(Query):
    """A query in this process whose tasks lease, from several queues."""

    def __init__(self, streams: Streams, text: str, queues: list[str], folder: Path) -> None:
        super().__init__(streams, text, ",".join(queues), folder)
        self.queues = queues
        self.options = {
            "leaseOn": "executors",
            "writeAheadLog": self.log,
            "deleteAfter": "log",
        }

    def run(self, output: str = "output", *, once: bool = False, **options: str) -> None:
        super().run(output, once=once, **(self.options | options))

    def frame(self, **options: str) -> DataFrame:
        return self.streams.read(self.text, self.queue, **(self.options | options))

    def slots(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "wal" / "slots").glob("*"))


@pytest.fixture
def queues(queue: str) -> list[str]:
    return [f"{queue}-{number}" for number in range(QUEUES)]


@pytest.fixture
def query(streams: Streams, fake: FakeQueueService, queues: list[str], tmp_path: Path) -> Leased:
    for name in queues:
        fake.create_queue(name)
    return Leased(streams, fake.connection_string, queues, tmp_path)


def fill(fake: FakeQueueService, queues: list[str], count: int, prefix: str = "m") -> list[str]:
    bodies = [f"{prefix}{number}" for number in range(count)]
    for place, name in enumerate(queues):
        fake.put_many(name, bodies[place :: len(queues)])
    return sorted(bodies)


def left(fake: FakeQueueService, queues: list[str]) -> int:
    return sum(fake.count(name) for name in queues)


def refused(query: Leased, words: str, **options: str) -> None:
    """The query ends with these words, and has changed nothing in its queues."""
    with pytest.raises(PySparkException, match=words):
        query.run("refused", **options)


@pytest.mark.core
def test_each_message_comes_once_on_both_services(
    spark: SparkSession,
    streams: Streams,
    connection_string: str,
    queues: list[str],
    tmp_path: Path,
) -> None:
    query = Leased(streams, connection_string, queues, tmp_path)
    sent = []
    for name in queues:
        bodies = [f"{name} {number}" for number in range(150)]
        send(spark, connection_string, name, bodies)
        sent += bodies
    query.run(maxMessagesPerTrigger="100")
    assert query.bodies() == sorted(sent)
    assert all(len(bodies) <= 100 for bodies in query.batches().values())
    peeked = spark.read.format("azqueue").option("secret.connectionString", connection_string)
    assert peeked.option("queue", ",".join(queues)).load().count() == 0


@pytest.mark.parametrize("lease_on", ["driver", "executors"])
def test_what_does_not_decode_is_in_no_log_and_fail_can_be_left(
    query: Leased, spark: SparkSession, fake: FakeQueueService, queues: list[str], lease_on: str
) -> None:
    query.options["leaseOn"] = lease_on
    bodies = [f"m{number}" for number in range(30)]
    for place, name in enumerate(queues):
        fake.create_queue(f"{name}-poison")
        texts = [b64encode(body.encode()).decode() for body in bodies[place :: len(queues)]]
        fake.put_many(name, [f"!!{place}", *texts])
    with pytest.raises(PySparkException, match="AZQUEUE_UNDECODABLE_BODY"):
        query.run(messageEncoding="base64", onUndecodable="fail")
    wait_for(lambda: sum(map(fake.visible, queues)) == 33, "all that was leased")

    query.run(messageEncoding="base64", onUndecodable="poison")

    assert query.bodies() == sorted(bodies)
    assert left(fake, queues) == 0
    assert [fake.count(f"{name}-poison") for name in queues] == [1] * QUEUES
    logged = spark.read.format("azqueue").option("readLog", query.log).load()
    assert sorted(row.body for row in logged.collect()) == sorted(bodies)


@pytest.mark.core
def test_after_lost_commits_and_rollbacks_the_same_rows_come_in_the_same_batches(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    sent = fill(fake, queues, 90)
    query.run(maxMessagesPerTrigger="20")
    before = query.batches()
    assert left(fake, queues) == 0
    shutil.copytree(query.streams.checkpoint, query.folder / "copied")

    query.streams.roll_back(1, ("commits",))  # as a kill leaves it, after the sink's commit
    query.run(maxMessagesPerTrigger="20")
    assert query.batches() == before
    for batches in (1, 3):
        query.streams.roll_back(batches)
        more = fill(fake, queues, 6, f"more {batches} ")
        sent = sorted([*sent, *more])
        query.run(maxMessagesPerTrigger="20")
        assert {number: query.batches()[number] for number in before} == before
        assert query.bodies() == sent
        assert left(fake, queues) == 0

    query.streams.checkpoint = query.folder / "copied"  # a second query with its own output
    query.run("copy")
    newer = [body for body in sent if body.startswith("more")]
    copied = [body for bodies in query.batches("copy").values() for body in bodies]
    assert sorted(copied) == newer


def test_two_actions_on_a_batch_get_the_same_rows(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    sent = fill(fake, queues, 60)
    seen: list[list[str]] = []

    def look(batch: DataFrame, number: int) -> None:
        assert not batch.isEmpty()
        twice = [sorted(row.body for row in batch.collect()) for _ in range(2)]
        assert twice[0] == twice[1]
        seen.append(twice[0])

    query.streams.read_all(query.frame(), look)
    assert sorted(body for bodies in seen for body in bodies) == sent
    assert sorted(query.streams.bodies()) == sent


def test_large_bodies_go_with_their_batches(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    with FakeBlobService() as blobs:
        text = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        place = {
            "largeBody": "blob",
            "blobContainer": "bodies",
            "secret.blobConnectionString": text,
        }
        sent = [str(number) * 70_000 for number in range(6)]
        rows = query.streams.spark.createDataFrame([(body,) for body in sent], ["body"])
        account = {"secret.connectionString": fake.connection_string, "queue": queues[0]}
        rows.write.format("azqueue").mode("append").options(**account, **place).save()
        query.run(maxMessagesPerTrigger="3", **place)
        assert query.bodies() == sorted(sent)
        before = query.batches()
        query.streams.roll_back(1)
        query.run(**place)
        assert query.batches() == before
        assert left(fake, queues) == 0


def test_a_log_in_blobs_whose_answers_are_lost(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    with FakeBlobService() as blobs:
        text = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        place = {"writeAheadLog": "blob:logs/orders", "secret.blobConnectionString": text}
        blobs.faults.add(Fault("put_blob", "reply_lost", every=3))
        blobs.faults.add(Fault("get_blob", "error_500", every=7))
        blobs.faults.add(Fault("list_blobs", "busy_503", every=5, seconds=0.0))
        sent = fill(fake, queues, 120)
        query.run(maxMessagesPerTrigger="30", **place)
        assert query.bodies() == sent
        before = query.batches()
        query.streams.roll_back(2)
        query.run(maxMessagesPerTrigger="30", **place)
        assert query.batches() == before
        assert left(fake, queues) == 0


@needs_true_available_now
def test_a_batch_that_nobody_reads_loses_nothing_and_is_told(
    query: Leased, fake: FakeQueueService, queues: list[str]
) -> None:
    sent = fill(fake, queues, 9)
    writer = query.frame().writeStream.foreachBatch(lambda batch, number: None)
    running = writer.option("checkpointLocation", str(query.folder / "none"))
    with pytest.raises(PySparkException, match="2 batches in a row had no task"):
        finish(running.trigger(availableNow=True).start())
    assert left(fake, queues) == len(sent)


def test_mistakes_are_told_before_anything_is_leased(
    query: Leased, fake: FakeQueueService, queues: list[str], streams: Streams
) -> None:
    sent = fill(fake, queues, 9)
    refused(query, "needs deleteAfter=log", deleteAfter="commit")
    refused(query, "at least 30 s", visibilityTimeout="10 seconds")
    refused(query, "dequeueAhead=true does not go", dequeueAhead="true")
    refused(query, "deleteOnCommit=false does not go", deleteOnCommit="false")
    refused(query, "'executorSlots' is set", leaseOn="driver", executorSlots="3")
    with pytest.raises(PySparkException, match="leaseOn=executors needs 'writeAheadLog'"):
        streams.read(query.text, query.queue, leaseOn="executors")
    assert left(fake, queues) == len(sent)
    assert fake.requests["dequeue"] == 0


def test_a_message_that_breaks_the_query_is_found_and_every_other_comes_once(
    query: Leased, fake: FakeQueueService, queues: list[str], spark: SparkSession
) -> None:
    """Restarted as a job scheduler would. One of the failures is a kill of the source's process."""
    sent = fill(fake, queues, 60)
    options = {"maxDequeueCount": "1", "maxMessagesPerTrigger": "45"}
    running, kills = processes(), query.folder / "kills"
    (jvm,) = (pid for pid in of_session(os.getsid(0), "java") if running[pid][0] == os.getpid())

    def broken(body: str) -> str:
        if body != "m23":
            return body
        if kills.exists():
            kills.unlink()
            listed = subprocess.run(
                ["ps", "-axww", "-o", "pid=,ppid=,command="], capture_output=True
            )
            for line in listed.stdout.decode().splitlines():
                pid, parent, command = line.split(None, 2)
                if parent == str(jvm) and "python_streaming_source_runner" in command:
                    os.kill(int(pid), signal.SIGKILL)
        raise ValueError("this message breaks the job")

    def start() -> StreamingQuery:
        frame = query.frame(**options).select(
            udf(broken, "string", useArrow=False)("body").alias("body")
        )
        writer = frame.coalesce(1).writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(query.streams.checkpoint))
        made = writer.start(str(query.folder / "output"))
        query.streams.queries.append(made)
        return made

    runs = failures = 0
    while (failed := not finished(start())) or left(fake, queues):
        runs, failures = runs + 1, failures + failed
        if failed and failures == 3:
            kills.touch()
        assert failures < 20
        assert runs < 60, "on 4.0 and 4.1 each run is one batch"
        fake.clock.advance(91)
    assert not kills.exists(), "the process was killed"
    assert query.bodies() == sorted({*sent} - {"m23"})
    (poison,) = fake.messages(f"{queues[23 % QUEUES]}-poison")
    envelope = json.loads(poison.text)
    assert envelope["body"] == "m23"
    assert " with it alone" in envelope["reason"]
    log = spark.read.format("azqueue").option("readLog", query.log).load()
    wait_for(lambda: log.count() == len(sent) - 1, "the source's process to end")
    logged = log.collect()
    assert sorted(row.body for row in logged) == query.bodies()

    commits = [int(path.name) for path in (query.streams.checkpoint / "commits").glob("[0-9]*")]
    query.streams.roll_back(5)
    query.streams.read_all(query.frame(**options))
    kept = [row.body for row in logged if row.log_batch - 1 > max(commits) - 5]
    assert sorted(query.streams.bodies()) == sorted(kept)


def finished(running: StreamingQuery) -> bool:
    """False if it ended with an error."""
    with contextlib.suppress(PySparkException):
        assert running.awaitTermination(PATIENCE_S), "the query did not end by itself"
    return running.exception() is None


def test_old_batches_are_removed(query: Leased, fake: FakeQueueService, queues: list[str]) -> None:
    sent: list[str] = []
    for turn in range(4):
        sent += fill(fake, queues, 30, f"turn {turn} ")
        query.run(maxMessagesPerTrigger="5", writeAheadLogRetention="10")
    assert query.bodies() == sorted(sent)
    plans = {name.split("-")[0] for name in query.slots()}
    assert len(plans) < 24
    floors = [path.name for path in (query.folder / "wal" / "floors").glob("*")]
    assert len(floors) == 1
    query.streams.roll_back(20)
    refused(query, "holds batches from [0-9]+ on")
