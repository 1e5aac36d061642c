"""IngestJob in a session: what is in the table, and what a start refuses before it leases."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from packed import arrow_pack, in_base64, stream_of
from processes import PATIENCE_S, wait_for
from pyspark.sql import SparkSession

from spark_azqueue import IngestJob
from spark_azqueue.errors import CheckpointMismatch, InvalidOption, InvalidSchema
from spark_azqueue.running.ingest import IngestResult
from spark_azqueue.testing import FakeQueueService

SCHEMA = "order_id BIGINT, quantity INT"


class Jobs:
    """Jobs of one queue, with one folder and one table unless a test names others."""

    def __init__(self, spark: SparkSession, fake: FakeQueueService, queue: str, path: Path) -> None:
        self.spark, self.fake, self.queue, self.path = spark, fake, queue, path
        self.folder, self.into = path / "job", path / "table"
        fake.create_queue(queue)

    def drain(self, schema: str | None = SCHEMA, **more: Any) -> IngestResult:
        source = {"secret.connectionString": self.fake.connection_string, "queue": self.queue}
        source |= more.pop("options", {})
        given = {"folder": str(self.folder), "into": str(self.into), **more}
        result = IngestJob(source, schema, **given).drain(self.spark, restarts=0)
        assert result.finished or result.explanation
        return result

    def send(self, *orders: int, **more: Any) -> None:
        self.fake.put_many(self.queue, [json.dumps({"order_id": each, **more}) for each in orders])

    def rows(self) -> list[Any]:
        read = self.spark.read.option("mergeSchema", "true").parquet(str(self.into))
        return read.orderBy("insertion_time", "message_id", "message_row").collect()

    def orders(self) -> list[int]:
        return sorted(row.order_id for row in self.rows() if row.error is None)

    def refuses(self, error: type[Exception], text: str, **more: Any) -> None:
        """A start is refused, and leases nothing."""
        before = self.fake.requests["dequeue"]
        with pytest.raises(error, match=text):
            self.drain(**more)
        assert self.fake.requests["dequeue"] == before


@pytest.fixture
def jobs(spark: SparkSession, fake: FakeQueueService, queue: str, tmp_path: Path) -> Iterator[Jobs]:
    yield Jobs(spark, fake, queue, tmp_path)
    for query in spark.streams.active:
        query.stop()


def test_a_folder_that_does_not_fit_its_table_is_refused_until_it_does(jobs: Jobs) -> None:
    jobs.send(*range(3))
    jobs.drain()
    older = shutil.copytree(jobs.folder, jobs.path / "older")
    jobs.send(3)
    jobs.drain()
    newest = shutil.copytree(jobs.folder, jobs.path / "newest")
    table = shutil.copytree(jobs.into, jobs.path / "table of then")
    jobs.send(4)

    def put_back(what: Path, where: Path) -> None:
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(what, where)

    jobs.refuses(CheckpointMismatch, "belongs to the job in", folder=str(newest))
    jobs.refuses(CheckpointMismatch, "belongs to a job of the output", into=str(table))
    jobs.refuses(CheckpointMismatch, "of the format 'parquet'", format="delta")
    jobs.refuses(CheckpointMismatch, "belongs to the job in", folder=str(jobs.path / "new"))
    put_back(older, jobs.folder)
    jobs.refuses(CheckpointMismatch, "would be lost")
    put_back(newest, jobs.folder)
    shutil.rmtree(jobs.folder / "checkpoint")
    jobs.refuses(CheckpointMismatch, "is new: rows of batches 0 to")
    put_back(newest, jobs.folder)
    offsets = (jobs.folder / "checkpoint" / "offsets").glob("[0-9]*")
    newest_batch = max(int(each.name) for each in offsets)
    for log in ("offsets", "commits"):  # rolled back by one batch
        (jobs.folder / "checkpoint" / log / str(newest_batch)).unlink()
    jobs.refuses(CheckpointMismatch, "would be lost")
    put_back(newest, jobs.folder)
    shutil.rmtree(jobs.into)
    jobs.refuses(CheckpointMismatch, "has none of its batches: rows are missing")
    put_back(table, jobs.into)

    result = jobs.drain()  # both are the newest again
    assert (result.rows, result.bad_rows, result.left) == (1, 0, 0)
    assert jobs.orders() == list(range(5))

    moved = jobs.path / "moved"
    jobs.folder.rename(moved)
    jobs.folder = moved
    jobs.send(5)
    jobs.refuses(CheckpointMismatch, "If the folder was moved here, and no job runs there, delete")
    (jobs.into / "_azqueue_ingest").unlink()
    jobs.drain()
    assert jobs.orders() == list(range(6))


def test_another_folder_cannot_take_the_place_of_a_batch_that_is_not_written(jobs: Jobs) -> None:
    """The sink would skip the batch, and the source would delete its messages."""
    jobs.send(*range(3))

    def broken(orders: pd.DataFrame) -> pd.DataFrame:
        raise RuntimeError("this batch is planned, and is not written")

    result = jobs.drain(None, apply=broken, returns="order_id BIGINT", limit=1)
    assert not result.finished
    assert list((jobs.folder / "checkpoint" / "offsets").glob("0"))
    assert not list(jobs.into.glob("*.parquet"))

    jobs.refuses(CheckpointMismatch, "belongs to the job in", folder=str(jobs.path / "other"))
    away = jobs.folder.rename(jobs.path / "not mounted")
    jobs.refuses(CheckpointMismatch, "this folder is new.*Is its volume mounted")
    away.rename(jobs.folder)
    jobs.drain()
    assert jobs.orders() == list(range(3))


def test_what_else_a_start_refuses(jobs: Jobs) -> None:
    jobs.refuses(InvalidOption, "is inside of the output", folder=str(jobs.into / "job"))
    (jobs.into / "_delta_log").mkdir(parents=True)
    jobs.refuses(InvalidOption, "is a Delta table: set format='delta'")
    shutil.rmtree(jobs.into)
    (jobs.into / "_spark_metadata").mkdir(parents=True)
    jobs.refuses(InvalidOption, "is no Delta table", format="delta")
    shutil.rmtree(jobs.into)
    jobs.send(1)
    jobs.drain()  # the folder's record named another format, and no batch began
    assert jobs.orders() == [1]


@pytest.mark.parametrize("half", [b"", b"{"])
def test_a_start_that_was_killed_while_it_wrote_its_note(jobs: Jobs, half: bytes) -> None:
    jobs.into.mkdir()
    (jobs.into / "_azqueue_ingest").write_bytes(half)
    jobs.send(1)
    if half:
        jobs.refuses(CheckpointMismatch, "_azqueue_ingest is not as this release writes it")
        return
    jobs.drain()
    jobs.refuses(CheckpointMismatch, "belongs to the job in", folder=str(jobs.path / "other"))


def test_columns_may_come_and_not_go(jobs: Jobs) -> None:
    jobs.send(1)
    jobs.drain()
    jobs.refuses(
        InvalidSchema, r"column 'quantity' \(int\), and the job does not", schema="order_id BIGINT"
    )
    jobs.refuses(
        InvalidSchema, "as bigint, and the job as string", schema="order_id STRING, quantity INT"
    )
    jobs.refuses(InvalidSchema, "the schema names the column 'Error'", schema="Error STRING")

    jobs.send(2, note="x")
    jobs.drain("note STRING, quantity INT, order_id BIGINT")
    jobs.refuses(InvalidSchema, "column 'note'")
    assert [(row.order_id, row.note) for row in jobs.rows()] == [(1, None), (2, "x")]


def test_packs_and_plain_messages_with_bad_ones_among_them(jobs: Jobs) -> None:
    good = pa.record_batch({"order_id": [10, 11], "quantity": pa.array([1, None], pa.int32())})
    bad = pa.record_batch({"order_id": [20, 21], "quantity": pa.array([2**40, 1], pa.int64())})
    texts = [in_base64(arrow_pack(stream_of(each))) for each in (good, bad)]
    bodies = ['{"order_id": 1}', *texts, "x", "[1]", '{"order_id": 2} {"order_id": 3}', "{}"]
    jobs.fake.put_many(jobs.queue, bodies)
    jobs.fake.put_many(jobs.queue, ["{}"], delay=3600)
    result = jobs.drain()

    assert result.left == 1, "the delayed one"
    rows = jobs.rows()
    fit = {(row.message_row, row.order_id) for row in rows if row.error is None}
    assert fit == {(0, 1), (0, 10), (1, 11)}
    reasons = {row.body: row.error for row in rows if row.error is not None}
    assert reasons.keys() == {texts[1], *bodies[3:]}
    assert all(reasons.values())
    assert (result.rows, result.bad_rows) == (3, 5)
    assert {row.queue for row in rows} == {jobs.queue}
    assert all(row.insertion_time for row in rows)


def test_a_wrong_encoding_in_small_batches_stops_the_job(jobs: Jobs) -> None:
    jobs.send(*range(200))
    options = {"messageEncoding": "base64", "maxMessagesPerTrigger": "5"}
    result = jobs.drain(options=options)
    assert not result.finished
    assert result.explanation
    assert result.explanation.condition == "AZQUEUE_NOT_OF_THE_SCHEMA"
    assert "messageEncoding" in result.explanation.sentence
    rows = jobs.rows()
    assert len(rows) < 100
    assert all(json.loads(row.body)["order_id"] in range(200) for row in rows)

    again = jobs.drain()  # a restart with the right one: what is not in the table yet
    assert again.finished
    rows = jobs.rows()
    numbers = [
        row.order_id if row.error is None else json.loads(row.body)["order_id"] for row in rows
    ]
    assert sorted(numbers) == list(range(200)), "each once"


def test_a_function_or_the_bodies_as_they_are(jobs: Jobs) -> None:
    def double(orders: pd.DataFrame) -> pd.DataFrame:
        numbers = [json.loads(body)["order_id"] * 2 for body in orders["body"]]
        return pd.DataFrame({"twice": numbers})

    jobs.send(4)
    jobs.fake.put_many(jobs.queue, ["no order"])
    jobs.drain(None, apply=double, returns="twice INT")
    rows = {row.twice: (row.error, row.body, row.message_row) for row in jobs.rows()}
    assert rows[4 * 2] == (None, None, 0)
    error, body, _ = rows[None]
    assert error.startswith("json.decoder.JSONDecodeError")
    assert body == "no order"

    jobs.folder, jobs.into = jobs.path / "raw job", jobs.path / "raw"
    jobs.fake.put_many(jobs.queue, ["any text", "eA=="])
    jobs.drain(None, options={"messageEncoding": "base64"})
    found = {row.body: row.error for row in jobs.rows()}
    assert found["x"] is None
    assert "messageEncoding" in found["any text"]


def test_the_command_ends_in_good_order(jobs: Jobs) -> None:
    """By SIGTERM with status 0; with status 1 and the reason if it gives up."""
    jobs.send(*range(30))
    options = jobs.path / "orders.options"
    options.write_text(f"queue={jobs.queue}\nsecret.connectionString={jobs.fake.connection_string}")
    command = [sys.executable, "-m", "spark_azqueue", "ingest", "--options-file", str(options)]
    command += ["--folder", str(jobs.folder), "--into", str(jobs.into), "--json"]
    command += ["--every", "1 second", "--schema", SCHEMA]

    def started(*more: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*command, *more], stdout=pipe, stderr=pipe, text=True)

    run = started()
    wait_for(lambda: jobs.fake.count(jobs.queue) == 0, "the queue to be read")
    run.send_signal(signal.SIGTERM)
    said = json.loads(run.communicate(timeout=PATIENCE_S)[0].splitlines()[-1])
    assert (run.returncode, said["stopped"], said["rows"]) == (0, True, 30)
    assert jobs.orders() == list(range(30))

    jobs.fake.put_many(jobs.queue, ["broken"] * 40)
    run = started("--drain")
    out, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, json.loads(out.splitlines()[-1])["finished"]) == (1, False)
    assert "32 messages in a row are bad" in err.splitlines()[-1]
