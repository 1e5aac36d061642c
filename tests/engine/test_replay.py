"""`readLog` on real Spark: a log as a table and as a stream, of both kinds, while it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import ContainerSasPermissions, generate_container_sas
from lines import read_all
from processes import wait_for
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.options.parse import replay_config
from spark_azqueue.source.replay.survey import history_of, opened_log
from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .test_exactly_once import Query

if TYPE_CHECKING:
    from azure.storage.blob import ContainerClient

Batches = dict[int, list[str]]

MODES: dict[str, dict[str, str]] = {
    "driver": {"deleteAfter": "commit"},
    "driver, deleteAfter=log": {"deleteAfter": "log"},
    "executors": {"deleteAfter": "log", "leaseOn": "executors"},
}


class Written(Query):
    """A query that writes a log, and who reads it."""

    options: dict[str, str]

    def send(self, fake: FakeQueueService, count: int, prefix: str = "m") -> None:
        fake.put_many(self.queue, [f"{prefix}{number}" for number in range(count)])

    def go(self, **options: str) -> None:
        self.run(**(self.options | {"writeAheadLog": self.log} | options))

        wait_until_ended(self.folder / "wal")

    def table(self, **options: str) -> DataFrame:
        given = {"readLog": self.log} | options
        return self.streams.spark.read.format("azqueue").options(**given).load()

    def logged(self, **options: str) -> Batches:
        return by_batch(self.table(**options))

    def stream(self, **options: str) -> DataFrame:
        given = {"readLog": self.log} | options
        return self.streams.spark.readStream.format("azqueue").options(**given).load()

    def follow(self, name: str, **options: str) -> DataFrame:
        """A run of a second query into a folder. Returns what it has written in all its runs."""
        writer = self.stream(**options).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.folder / name / "checkpoint"))
        output = str(self.folder / name / "output")

        def start() -> StreamingQuery:
            running = writer.trigger(availableNow=True).start(output)
            self.streams.queries.append(running)
            return running

        read_all(start)
        return self.streams.spark.read.parquet(output)


def wait_until_ended(log: Path) -> None:
    """Until the process of a source that was stopped has noted what is committed."""
    config = replay_config({"readLog": f"file:{log}"}, {})

    def has_ended() -> bool:
        names = [path.name for path in log.rglob("*") if path.is_file()]
        found = map(re.compile(r"(\d{12})(?:-\w+-s\d+)?").fullmatch, names)
        newest = max((int(each[1]) for each in found if each), default=0)
        committed = history_of(opened_log(config)).survey().committed
        return committed >= newest and not any(name.startswith(".tmp-") for name in names)

    wait_for(has_ended, "the source's process to end, which notes what is committed")


def by_batch(frame: DataFrame) -> Batches:
    found: Batches = {}
    for row in frame.select("log_batch", "body").collect():
        found.setdefault(row.log_batch, []).append(row.body)
    return {number: sorted(bodies) for number, bodies in sorted(found.items())}


@pytest.fixture(params=MODES)
def query(
    request: pytest.FixtureRequest,
    streams: Streams,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> Written:
    fake.create_queue(queue)
    made = Written(streams, fake.connection_string, queue, tmp_path)
    made.options = {"maxMessagesPerTrigger": "20", **MODES[request.param]}
    return made


@pytest.fixture
def plain(streams: Streams, fake: FakeQueueService, queue: str, tmp_path: Path) -> Written:
    fake.create_queue(queue)
    made = Written(streams, fake.connection_string, queue, tmp_path)
    made.options = {"maxMessagesPerTrigger": "20"}
    return made


def names_in(folder: Path) -> set[tuple[str, int]]:
    return {(str(path), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_the_table_has_the_rows_of_each_committed_batch(
    query: Written, fake: FakeQueueService, queue: str
) -> None:
    query.send(fake, 70)
    query.go()
    written = [sorted(bodies) for bodies in query.batches().values() if bodies]
    before = names_in(query.folder / "wal")

    table = query.table()
    rows = table.collect()

    assert names_in(query.folder / "wal") == before, "it writes nothing"
    assert [*by_batch(table).values()] == written
    assert {row.queue for row in rows} == {queue}
    assert {row.pop_receipt for row in rows} == {None}
    assert len({row.logged_at for row in rows}) == len(written)
    assert all(row.insertion_time is not None for row in rows)
    numbers = sorted(by_batch(table))
    assert [*query.logged(startingAt=str(numbers[1]), endingAt=str(numbers[2]))] == numbers[1:3]
    at = sorted({row.logged_at for row in rows})[1].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert [*query.logged(startingAt=at)] == numbers[1:]
    picked = query.streams.spark.read.format("azqueue").option("readLog", query.log)
    (row,) = picked.schema("log_batch bigint").load().distinct().where("log_batch = 1").collect()
    assert row.asDict() == {"log_batch": 1}


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("driver", marks=pytest.mark.core),
        "driver, deleteAfter=log",
        pytest.param("executors", marks=pytest.mark.core),
    ],
    indirect=True,
)
def test_a_second_query_gets_each_batch_once_and_the_same_again(
    query: Written, fake: FakeQueueService
) -> None:
    for run in range(2):
        query.send(fake, 45, f"run {run} ")
        query.go()
        first = by_batch(query.follow("first", maxBatchesPerTrigger="2"))
        assert first == query.logged()
    checkpoint = query.folder / "first" / "checkpoint"
    newest = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for path in (checkpoint / "commits").glob(f"*{newest}*"):
        path.unlink()  # as a kill leaves it, after the sink's commit
    query.send(fake, 5, "after ")
    query.go()
    first, second = by_batch(query.follow("first")), by_batch(query.follow("second"))
    assert first == second == query.logged()
    assert sorted(body for bodies in first.values() for body in bodies) == query.bodies()


def test_readers_do_not_disturb_a_query_that_runs(
    plain: Written, fake: FakeQueueService, queue: str, streams: Streams
) -> None:
    options = {**plain.options, "writeAheadLog": plain.log, "writeAheadLogRetention": "10"}
    writer = streams.read(plain.text, queue, **options).writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(plain.folder / "checkpoint"))
    running = writer.start(str(plain.folder / "output"))
    streams.queries.append(running)
    seen: list[tuple[int, str]] = []

    def take(batch: DataFrame, number: int) -> None:
        seen.extend((row.log_batch, row.body) for row in batch.collect())

    follower = plain.stream(maxPollInterval="0.2").writeStream.foreachBatch(take)
    for turn in range(6):
        plain.send(fake, 60, f"turn {turn} ")
        fake.wait_until(lambda: fake.count(queue) == 0, 60)
        if turn == 0:
            place = str(plain.folder / "follower")
            streams.queries.append(follower.option("checkpointLocation", place).start())
        table = plain.logged()
        numbers = [*table]
        assert numbers == [*range(numbers[0], numbers[-1] + 1)]
    running.processAllAvailable()  # a batch that is not committed is not seen
    running.stop()
    assert running.exception() is None
    streams.queries[-1].processAllAvailable()
    assert streams.queries[-1].exception() is None
    assert len(seen) == len(set(seen))
    assert sorted(body for _, body in seen) == plain.bodies()


def test_a_log_in_blobs_is_read_with_permission_to_read_and_list(
    spark: SparkSession,
    streams: Streams,
    azurite_connection_string: str,
    blobs: ContainerClient,
    queue: str,
    tmp_path: Path,
) -> None:
    plain = Written(streams, azurite_connection_string, queue, tmp_path)
    plain.log = f"blob:{blobs.container_name}/logs/orders"
    frame = spark.createDataFrame([(f"m{number}",) for number in range(50)], "body string")
    sink = frame.write.format("azqueue").mode("append").option("createQueue", "true")
    sink.option("secret.connectionString", azurite_connection_string).option("queue", queue).save()
    plain.run(writeAheadLog=plain.log, maxMessagesPerTrigger="20")
    sas = generate_container_sas(
        account_name=blobs.account_name,
        container_name=blobs.container_name,
        account_key=blobs.credential.account_key,
        permission=ContainerSasPermissions(read=True, list=True),
        expiry="2099-01-01T00:00:00Z",
    )
    url = blobs.url.removesuffix(f"/{blobs.container_name}")
    reader = {
        "secret.blobConnectionString": f"BlobEndpoint={url};SharedAccessSignature={sas}",
    }

    def logged() -> list[str]:
        return sorted(body for found in plain.logged(**reader).values() for body in found)

    wait_for(lambda: len(logged()) == 50, "the source's process to end")
    assert logged() == plain.bodies()
    assert by_batch(plain.follow("second", **reader)) == plain.logged(**reader)
    only_read = generate_container_sas(
        account_name=blobs.account_name,
        container_name=blobs.container_name,
        account_key=blobs.credential.account_key,
        permission=ContainerSasPermissions(read=True),
        expiry="2099-01-01T00:00:00Z",
    )
    denied = {
        "secret.blobConnectionString": f"BlobEndpoint={url};SharedAccessSignature={only_read}"
    }
    with pytest.raises(PySparkException, match=re.compile("'r' and 'l' for blobs", re.DOTALL)):
        plain.logged(**denied)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"queue": "orders"}, "no queue is read"),
        ({"startingAt": "99"}, "newest batch that the write-ahead log .* as committed is 0"),
        ({"readLog": "file:/nowhere/at/all"}, "ENOENT"),
    ],
)
def test_bad_input_is_told(
    plain: Written, fake: FakeQueueService, options: dict[str, str], words: str
) -> None:
    folder = plain.folder / "wal"
    plain.go()
    assert folder.is_dir()
    with pytest.raises(PySparkException, match=words):
        plain.table(**options).collect()


def test_a_stream_refuses_what_is_for_tables(plain: Written) -> None:
    with pytest.raises(PySparkException, match=r"'endingAt' is for spark\.read"):
        plain.follow("second", endingAt="3")
