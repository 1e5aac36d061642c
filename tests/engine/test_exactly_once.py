"""Exactly once into Parquet with a write-ahead log, wherever the job is killed.

AZQUEUE_TEST_KILLS: how many kills in a row between the sink's commit and Spark's, of the query in
each mode of deletes (default: 1).
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from accounts import account_of
from lines import read_all
from processes import PATIENCE_S, wait_for
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from searching import holders

from spark_azqueue.service.messages import QueueRef
from spark_azqueue.service.queues.calls import Count
from spark_azqueue.service.queues.client import QueueClient
from spark_azqueue.source.log.segment import decode_segment
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .killing import (
    MODES,
    KilledQuery,
    Point,
    QueriesJob,
    before_commit,
    before_offset,
    in_batch,
    in_deletes,
    live_and_die,
)
from .test_stream import finish, send

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

KILLS = int(os.environ.get("AZQUEUE_TEST_KILLS", "1"))
HELD: tuple[Point, ...] = (before_offset, in_batch, in_deletes)
"""Points at which a query stays until it is killed."""


@pytest.fixture
def job(tmp_path: Path, fake: FakeQueueService) -> Iterator[QueriesJob]:
    made = QueriesJob(tmp_path, fake)
    yield made
    made.destroy()


def rows(spark: SparkSession, query: KilledQuery) -> list[str]:
    """The bodies that a reader of the output sees, sorted."""
    found = spark.read.parquet(str(query.folder / "output")).collect()
    return sorted(row.body for row in found)


@pytest.mark.core
def test_kills_at_every_point_of_a_batch(spark: SparkSession, job: QueriesJob) -> None:
    """One process runs several queries, and a kill meets each of them at another point."""
    short = {"maxMessagesPerTrigger": "20", "visibilityTimeout": "6"}
    wide = {"maxMessagesPerTrigger": "30", "parallelism": "4"}
    without = job.query("without-a-log", short)
    kills: list[dict[KilledQuery, Point]] = [{without: before_commit}]
    exact: list[KilledQuery] = []
    for mode, log in MODES.items():
        made = {job.query(f"{mode}-{p.__name__.replace('_', '-')}", wide | log): p for p in HELD}
        sinks = job.query(f"{mode}-before-commit", short | log)
        kills[:0] = [{**made, sinks: before_commit}, *[{sinks: before_commit}] * (KILLS - 1)]
        exact += [*made, sinks]

    live_and_die(job, *kills)

    for query in exact:
        assert rows(spark, query) == sorted(query.sent), query.queue
        assert len(query.sent) >= 10 + 30 * sum(query in kill for kill in kills)
    found = Counter(rows(spark, without))
    assert found.keys() == set(without.sent)
    assert Counter(found.values()) == {1: len(without.sent) - 20, 2: 20}, "the killed batch: twice"


def test_a_second_start_stops_the_first_and_nothing_is_lost(
    streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    fake.create_queue(queue)
    log = f"file:{tmp_path}/wal"
    options = {"writeAheadLog": log, "maxMessagesPerTrigger": "20"}
    sent: list[str] = []

    def send_some(count: int) -> None:
        bodies = [f"m{len(sent) + i}" for i in range(count)]
        sent.extend(bodies)
        fake.put_many(queue, bodies)

    def start(folder: Path) -> StreamingQuery:
        frame = streams.read(fake.connection_string, queue, **options)
        writer = frame.select("message_id", "body").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.start(str(folder / "output"))
        streams.queries.append(query)
        return query

    def wait_until_settled() -> None:
        fake.wait_until(lambda: fake.count(queue) == 0, PATIENCE_S)

    send_some(10)
    first = start(tmp_path / "first")
    wait_until_settled()
    for name in ("checkpoint", "output"):
        shutil.copytree(tmp_path / "first" / name, tmp_path / "second" / name)
    for path in (tmp_path / "second" / "output" / "_spark_metadata").iterdir():
        moved = path.read_bytes().replace(b"/first/", b"/second/")  # it holds absolute paths
        path.unlink() if path.suffix == ".crc" else path.write_bytes(moved)
    # One process runs a query's id only once; another process does not know.
    (tmp_path / "second" / "checkpoint" / "metadata").write_text(f'{{"id":"{uuid.uuid4()}"}}')
    (tmp_path / "second" / "checkpoint" / ".metadata.crc").unlink(missing_ok=True)

    second = start(tmp_path / "second")
    claims = tmp_path / "wal" / "claims"
    wait_for(lambda: any(claims.glob("000000000002-*")), "the claim of the second")
    claimed = time.monotonic()
    while first.isActive:
        send_some(5)
        time.sleep(0.2)
        assert time.monotonic() < claimed + PATIENCE_S
    stopped_after_s = time.monotonic() - claimed
    fake.clock.advance(601)  # what the first had dequeued and could not write is leased
    wait_for(lambda: fake.count(queue) == 0 or not second.isActive, "the second")
    # If the first wrote one more segment after the second had listed them, the second finds its
    # number taken, and stops as well; when it is started again, it goes on with that segment.
    conflict = f"another process writes the write-ahead log {log}, so this query stops"
    if not second.isActive:
        assert f"of the write-ahead log {log} has just appeared" in str(second.exception())
        fake.clock.advance(601)
        second = start(tmp_path / "second")
        wait_until_settled()
    second.processAllAvailable()
    second.stop()

    assert stopped_after_s < 60
    assert conflict in str(first.exception())
    found = streams.spark.read.parquet(str(tmp_path / "second" / "output")).collect()
    assert sorted(row.body for row in found) == sorted(sent)


def test_bodies_are_in_no_offset_event_or_log(job: QueriesJob, tmp_path: Path) -> None:
    marker, planted = "a-body-that-nobody-is-to-see", "planted-where-no-body-is-to-be"
    (tmp_path / "events").mkdir()
    query = job.query("bodies", {"writeAheadLog": "LOG"})
    job.environment["PLANT"] = planted
    job.environment["CONF"] = json.dumps(
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(tmp_path / "events"),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
            "spark.sql.ui.explainMode": "extended",
        }
    )
    job.fake.put_many(query.queue, [f"{marker} {i}" for i in range(10)])
    (query.folder / "hold").touch()
    job.start_queries(query)
    wait_for(lambda: [*query.folder.glob("holding-*")], "a batch to begin")
    job.die()
    (query.folder / "hold").unlink()
    job.start_queries(query)  # its rows come from the log
    job.wait_until_all_settled(query)
    job.end()

    places = {name.split("/")[0] for name in holders(tmp_path, planted)}
    assert places == {"log", "events"}, "the search finds"
    assert {name.split("/")[0] for name in holders(query.folder, marker)} <= {"output", "wal"}
    assert {name.split("/")[0] for name in holders(tmp_path, marker)} <= {"bodies"}
    segment = decode_segment((query.log / "seg" / "000000000001").read_bytes())
    assert {message.text for message in segment.messages} == {f"{marker} {i}" for i in range(10)}
    assert "checkpoint/offsets/0" in holders(query.folder, segment.digest[:16])


class Query:
    """A query in this process that appends to Parquet, run after run."""

    def __init__(self, streams: Streams, text: str, queue: str, folder: Path) -> None:
        self.streams = streams
        self.text = text
        self.queue = queue
        self.folder = folder
        self.log = f"file:{folder}/wal"

    def run(self, output: str = "output", *, once: bool = False, **options: str) -> None:
        frame = self.streams.read(self.text, self.queue, **options)
        writer = frame.select("body").coalesce(1).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.streams.checkpoint))

        def start(**trigger: bool) -> StreamingQuery:
            query = writer.trigger(**trigger).start(str(self.folder / output))
            self.streams.queries.append(query)
            return query

        if once:
            finish(start(once=True))
        else:
            read_all(lambda: start(availableNow=True))

    def batches(self, output: str = "output") -> dict[int, list[str]]:
        """The sink's first batches by number, before it compacts its log: bodies, in order."""
        found = {}
        for path in (self.folder / output / "_spark_metadata").glob("[0-9]*"):
            files = [json.loads(line)["path"] for line in path.read_text().splitlines()[1:]]
            found[int(path.name)] = [
                body
                for file in files
                for body in pq.read_table(file.removeprefix("file://"))["body"].to_pylist()
            ]
        return dict(sorted(found.items()))

    def bodies(self, output: str = "output") -> list[str]:
        found = self.streams.spark.read.parquet(str(self.folder / output)).collect()
        return sorted(row.body for row in found)


@pytest.fixture
def query(streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path) -> Query:
    fake.create_queue(queue)
    return Query(streams, fake.connection_string, queue, tmp_path)


@pytest.mark.core
def test_a_log_in_blobs(
    spark: SparkSession,
    streams: Streams,
    azurite_connection_string: str,
    blobs: ContainerClient,
    queue: str,
    tmp_path: Path,
) -> None:
    query = Query(streams, azurite_connection_string, queue, tmp_path)
    options = {
        "writeAheadLog": f"blob:{blobs.container_name}/logs/orders",
        "maxMessagesPerTrigger": "20",
    }
    account = account_of(azurite_connection_string)
    ref, client = QueueRef(account.name, queue), QueueClient(account)
    client.create(ref)
    sent: list[str] = []
    for run in range(2):
        arrived = [f"run {run} {i}" for i in range(30)]
        send(spark, azurite_connection_string, queue, arrived)
        sent += arrived
        query.run(**options)
        before = query.batches()
        query.streams.roll_back(1)
        query.run(**options)
        assert query.batches() == before
        assert query.bodies() == sorted(sent)
        assert client.now(Count(ref)) == 0
    query.streams.roll_back(2)
    query.run("new", **options)
    assert query.batches("new") == {number: before[number] for number in sorted(before)[-2:]}
    client.close()
    assert any(blobs.list_blob_names(name_starts_with="logs/orders/seg/"))
