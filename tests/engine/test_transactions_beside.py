"""Transactions beside each other, late, and of events: each message is visible once."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from processes import PATIENCE_S, end_session, kill, processes, wait_for
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming import StreamingQuery

from spark_azqueue.sink.transaction import names
from spark_azqueue.sink.transaction.names import Transaction
from spark_azqueue.testing.blobs import FakeBlobService
from spark_azqueue.testing.faults import Fault

from .chains import Chain

JOB = Path(__file__).with_name("copied_job.py")
COMMITS = "commit_data_source_write"


class Original:
    """A query that writes the lines of files, a file in each batch, and a copy of it elsewhere."""

    def __init__(self, chain: Chain, folder: Path) -> None:
        self.chain = chain
        self.folder = folder
        self.lines: list[str] = []
        (folder / "lines").mkdir()
        (folder / "aside").mkdir()

    def add(self) -> None:
        """Another file of three lines."""
        number = len(self.lines)
        lines = [f"m{number + each}" for each in range(3)]
        self.lines += lines
        aside = self.folder / "aside" / f"{number:04}"
        aside.write_text("\n".join(lines))
        aside.rename(self.folder / "lines" / aside.name)

    def start(self, **trigger: bool) -> StreamingQuery:
        text = self.chain.spark.readStream.option("maxFilesPerTrigger", 1)
        writer = text.text(f"{self.folder}/lines").selectExpr("value AS body").writeStream
        writer = writer.format("azqueue").options(**self.chain.sink())
        writer = writer.option("checkpointLocation", str(self.chain.streams.checkpoint))
        query = (writer.trigger(**trigger) if trigger else writer).start()
        self.chain.streams.queries.append(query)
        return query

    @contextlib.contextmanager
    def copy(self) -> Iterator[subprocess.Popen[bytes]]:
        """A process with the same query on a copy of the checkpoint."""
        checkpoint = shutil.copytree(self.chain.streams.checkpoint, self.folder / "copied")
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, str(JOB), str(self.folder), str(checkpoint)],
                env={
                    **os.environ,
                    "SINK": json.dumps(self.chain.sink()),
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
                cwd=self.folder,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        try:
            running = (self.folder / "running").exists
            wait_for(lambda: running() or process.poll() is not None, "the copy to run")
            assert process.poll() is None, self.said()
            yield process
        finally:
            end_session(process)

    def both_are_done(self) -> bool:
        """True if both queries have committed a batch for each file."""
        newest = f"{len(self.lines) // 3 - 1}"
        folders = (self.chain.streams.checkpoint, self.folder / "copied")
        return all((folder / "commits" / newest).exists() for folder in folders)

    def said(self) -> str:
        return (self.folder / "said").read_text()


def test_of_two_queries_on_one_checkpoint_one_is_told_and_each_line_is_visible_once(
    chain: Chain, tmp_path: Path
) -> None:
    original = Original(chain, tmp_path)
    original.add()
    assert original.start(availableNow=True).awaitTermination(PATIENCE_S)

    with original.copy() as copy:
        query = original.start()

        def has_one_stopped() -> bool:
            return not query.isActive or copy.poll() is not None

        for _ in range(2):  # the first batch of a run may always be a repeated one
            original.add()
            wait_for(lambda: original.both_are_done() or has_one_stopped(), "a batch of both")
        assert has_one_stopped()
        stopped = str(query.exception()) if not query.isActive else original.said()
        assert "AZQUEUE_TRANSACTION_CONFLICT" in stopped
        assert query.isActive or copy.poll() is None, "one of them goes on"
        original.add()
        wait_for(lambda: len(chain.visible()) >= len(original.lines), "the other to go on")

    assert Counter(chain.visible()) == Counter(original.lines)


def test_a_record_that_lands_after_its_process_died_shows_what_was_put(chain: Chain) -> None:
    """Its put gets no answer, the process that commits is killed, and Spark aborts the write."""
    now = [0.0]
    with FakeBlobService(clock=lambda: now[0]) as blobs:
        account = f"AccountName=fakeaccount;AccountKey=a2V5;BlobEndpoint={blobs.url}"
        place = {"transactionLog": "blob:logs/late", "secret.blobConnectionString": account}
        key = names.batch_key(chain.fake.account, chain.target, "loader")
        record = f"logs/late/{names.record(Transaction(key, 1))}"
        blobs.faults.add(Fault("put_blob", "late", times=1, queue=record, seconds=10))
        blobs.faults.add(Fault("put_blob", "busy_503", queue=record))
        raised: list[Exception] = []

        def write() -> None:
            try:
                chain.write(["a", "b", "c"], 1, **place)
            except (PySparkException, Py4JError) as error:
                raised.append(error)

        writing = threading.Thread(target=write)
        writing.start()
        wait_for(lambda: blobs.faults.injected["late"], "the record to be put")
        kill(of_this_process(COMMITS))
        writing.join(PATIENCE_S)
        assert len(raised) == 1
        assert (chain.visible(), chain.hidden) == ([], 3), "the record may land: nothing is deleted"

        now[0] += 11
        blobs.faults.clear()
        chain.write(["other rows that do not count"], 1, **place)
        assert (chain.visible(), chain.hidden) == (["a", "b", "c"], 0)


def of_this_process(word: str) -> list[int]:
    """The processes that this one has started, or those have, whose command has this word."""
    running = processes()
    family = {os.getpid()}
    while grown := {pid for pid, (parent, _, _) in running.items() if parent in family} - family:
        family |= grown
    return [pid for pid, (_, _, command) in running.items() if pid in family and word in command]


def test_events_are_visible_once(chain: Chain) -> None:
    rows = chain.spark.range(6).selectExpr(
        "concat('order-', id) AS id", "'order' AS type", "'/shop' AS source", "string(id) AS body"
    )
    options = chain.sink(txnAppId="events", txnVersion="1", messageFormat="cloudevents")
    for _ in range(2):
        rows.write.format("azqueue").mode("append").options(**options).save()

    events = map(json.loads, chain.visible())
    assert sorted(event["id"] for event in events) == [f"order-{number}" for number in range(6)]
    assert chain.hidden == 0


def test_events_of_a_batch_that_comes_again_are_visible_once(chain: Chain) -> None:
    chain.send()
    frame = chain.source().selectExpr(
        "message_id AS id", "'order' AS type", "'/shop' AS source", "body"
    )
    chain.run(frame, messageFormat="cloudevents")
    chain.streams.roll_back(1, ("commits",))
    puts = chain.fake.statuses["put", 201]
    chain.run(frame, messageFormat="cloudevents")

    assert len({json.loads(text)["id"] for text in chain.visible()}) == 60
    assert (len(chain.visible()), chain.fake.statuses["put", 201]) == (60, puts)
