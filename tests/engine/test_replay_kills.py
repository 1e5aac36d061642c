"""Two queries in processes of their own follow the logs of a third; one of them is killed.

AZQUEUE_TEST_KILLS: how often (default: 1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PATIENCE_S, wait_for
from pyspark.sql import Row

from spark_azqueue.testing import FakeQueueService

from .conftest import Streams
from .loads import Load, LoadsJob
from .patience import patiently
from .test_replay import wait_until_ended

KILLS = int(os.environ.get("AZQUEUE_TEST_KILLS", "1"))
COLUMNS = ("queue", "log_batch", "logged_at", "message_id", "body")
KINDS = {"driver": {}, "executors": {"leaseOn": "executors"}}
ROUND = 60
"""Messages for each queue between two kills: three batches."""


class Writer:
    """A query of this process with a log."""

    def __init__(
        self, streams: Streams, fake: FakeQueueService, folder: Path, queue: str, **options: str
    ) -> None:
        self._streams = streams
        self._fake = fake
        self.queue = queue
        self.folder = folder / queue
        self.log = f"file:{self.folder}/wal"
        self.sent: list[str] = []
        fake.create_queue(queue)
        rows = streams.read(
            fake.connection_string,
            queue,
            writeAheadLog=self.log,
            writeAheadLogRetention="100000",
            deleteAfter="log",
            maxMessagesPerTrigger="20",
            **options,
        )
        writer = rows.select("message_id", "body").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        self.query = patiently(lambda: writer.start(str(self.folder / "output")))
        streams.queries.append(self.query)
        wait_for((self.folder / "wal" / "log.json").exists, "the log to be there")

    def send(self) -> None:
        bodies = [f"{self.queue} {len(self.sent) + number}" for number in range(ROUND)]
        self.sent += bodies
        self._fake.put_many(self.queue, bodies)

    def end(self) -> None:
        """Its messages are read, and it ends in good order: then its log knows all commits."""
        self._fake.wait_until(lambda: self._fake.count(self.queue) == 0, PATIENCE_S)
        self.query.processAllAvailable()
        self.query.stop()
        wait_until_ended(self.folder / "wal")

    def bodies(self) -> list[str]:
        rows = self._streams.spark.read.parquet(str(self.folder / "output")).collect()
        return sorted(row.body for row in rows)

    def objects(self) -> set[tuple[str, int]]:
        files = (path for path in (self.folder / "wal").rglob("*") if path.is_file())
        return {(str(path), path.stat().st_mtime_ns) for path in files}


@pytest.fixture
def followers(tmp_path: Path, fake: FakeQueueService) -> Iterator[list[LoadsJob]]:
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(LoadsJob(tmp_path / name, fake, ""))
    yield made
    for job in made:
        job.destroy()


def test_two_readers_one_of_them_killed_have_the_same_rows(
    streams: Streams,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    followers: list[LoadsJob],
) -> None:
    writers = [
        Writer(streams, fake, tmp_path, f"{queue}-{kind}", **options)
        for kind, options in KINDS.items()
    ]
    runs = [writer.query.runId for writer in writers]
    logs = [
        Load({"readLog": writer.log, "maxPollInterval": "0.2", "maxBatchesPerTrigger": "2"}, None)
        for writer in writers
    ]

    def send() -> None:
        for writer in writers:
            assert writer.query.exception() is None
            writer.send()

    def rows_of(job: LoadsJob) -> list[Row]:
        if not (job.folder / "output" / "_spark_metadata").exists():
            return []
        found = streams.spark.read.parquet(str(job.folder / "output"))
        return sorted(found.select(*COLUMNS).collect())

    killed, other = followers
    for job in followers:
        job.ask(*logs, columns=COLUMNS)
        send()
        job.start()
        job.wait_for(lambda of=job: of.entries("commits"), "a batch")
    for kill in range(KILLS):
        send()
        if kill % 2:  # wherever it is; a new batch has begun
            begun = len(killed.entries("offsets"))
            killed.wait_for(lambda before=begun: len(killed.entries("offsets")) > before, "a batch")
        else:
            killed.hold()
            killed.wait_until_held()
            assert killed.is_within_a_batch
        other.check_alive()
        killed.die()
        (killed.folder / "hold").unlink(missing_ok=True)
        killed.start()
    send()
    for writer in writers:
        writer.end()
    objects = [writer.objects() for writer in writers]
    sent = sorted(body for writer in writers for body in writer.sent)
    for job in followers:
        wait_for(lambda of=job: len(rows_of(of)) >= len(sent), "a reader", job.patience_s)
        job.end()

    assert rows_of(killed) == rows_of(other)
    assert sorted(row.body for row in rows_of(other)) == sent
    assert len(sent) == len(KINDS) * ROUND * (KILLS + 3)
    for writer in writers:
        assert writer.bodies() == sorted(writer.sent)
    assert [writer.query.exception() for writer in writers] == [None, None]
    assert [writer.query.runId for writer in writers] == runs
    assert [writer.objects() for writer in writers] == objects, "readers write nothing"
    assert len([*(writers[0].folder / "wal" / "claims").iterdir()]) == 1, "one start has written it"
