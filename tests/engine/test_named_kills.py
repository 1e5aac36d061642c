"""Named sources of two accounts, and a kill: loads come and go while a batch is unfinished."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

from .loads import Load, LoadsJob
from .test_named_sources import EVOLUTION, FORMAT, MODES

PART = 10


class NamedJob(LoadsJob):
    """Loads a and b are of one account, c is of another."""

    def __init__(
        self, folder: Path, fake: FakeQueueService, other: FakeQueueService, mode: str
    ) -> None:
        super().__init__(folder, fake, "")
        self.accounts = {"a": fake, "b": fake, "c": other}
        self.mode = mode
        self.sent: dict[str, list[str]] = {name: [] for name in self.accounts}
        self.environment["OTHER"] = other.connection_string
        self.environment["CONF"] = json.dumps({EVOLUTION: "true", FORMAT: "2"})
        for name, service in self.accounts.items():
            service.create_queue(f"queue-{name}")

    def send(self, *names: str) -> None:
        for name in names:
            sent = self.sent[name]
            bodies = [f"{name} {len(sent) + number}" for number in range(PART)]
            sent += bodies
            self.accounts[name].put_many(f"queue-{name}", bodies)

    def left(self, *names: str) -> int:
        return sum(self.accounts[name].count(f"queue-{name}") for name in names)

    def start_with(self, *names: str) -> None:
        self.ask(*map(self._load, names))
        self.start()

    def kill_within_a_batch(self, *names: str) -> None:
        """Each of these loads has rows in it."""
        self.hold()
        self.send(*names)
        self.wait_until_held()
        self.die()
        self.release()
        assert self.is_within_a_batch

    def wait_until_settled(self, *names: str) -> None:
        for service in {*self.accounts.values()}:
            service.clock.advance(601)  # what a killed process had leased beyond its batch
        self.wait_for(lambda: self.left(*names) == 0, "all messages to be deleted")
        self.wait_for(lambda: not self.is_within_a_batch, "the last commit")

    def end(self) -> None:
        super().end()
        (self.folder / "stop").unlink()

    def _load(self, name: str) -> Load:
        options = {
            key: value.format(folder=self.folder, name=name)
            for key, value in MODES[self.mode].items()
        }
        account = "OTHER" if name == "c" else "CONNECTION_STRING"
        return Load({"queue": f"queue-{name}", **options}, account, name)


@pytest.fixture(params=[pytest.param("leases", marks=pytest.mark.long), "log"])
def job(
    tmp_path: Path, fake: FakeQueueService, request: pytest.FixtureRequest
) -> Iterator[NamedJob]:
    with FakeQueueService() as other:
        made = NamedJob(tmp_path, fake, other, request.param)
        yield made
        made.destroy()


def rows(spark: SparkSession, job: NamedJob) -> list[str]:
    found = spark.read.parquet(str(job.folder / "output")).collect()
    return sorted(row.body for row in found)


@pytest.fixture
def killed(job: NamedJob) -> NamedJob:
    """Loads a and b were killed within their second batch; c has messages."""
    job.send("a", "b")
    job.start_with("a", "b")
    job.wait_until_settled("a", "b")
    job.kill_within_a_batch("a", "b")
    job.send("c")
    return job


def test_a_load_of_another_account_is_added_after_a_kill(
    spark: SparkSession, killed: NamedJob
) -> None:
    job = killed
    job.start_with("c", "a", "b")
    job.wait_until_settled("a", "b", "c")
    job.end()

    sent = [body for bodies in job.sent.values() for body in bodies]
    assert len(sent) == 5 * PART
    assert rows(spark, job) == sorted(sent), "the killed batch had reached no sink"


def test_who_leaves_a_load_out_while_its_batch_is_unfinished_loses_that_batch(
    spark: SparkSession, killed: NamedJob
) -> None:
    """Spark repeats the batch without the load, and takes it for committed: docs/scaling.md."""
    job = killed
    missing = job.sent["a"][PART:]

    job.start_with("b", "c")
    job.wait_until_settled("b", "c")
    job.end()
    assert job.left("a") == PART, "nobody has touched them"
    job.send("a", "b", "c")
    job.start_with("a", "b", "c")
    job.wait_until_settled("a", "b", "c")
    job.end()

    sent = {body for bodies in job.sent.values() for body in bodies}
    assert rows(spark, job) == sorted(sent - {*missing})
    if job.mode == "log":
        log = spark.read.format("azqueue").option("readLog", f"file:{job.folder}/a").load()
        found = {row.body for row in log.collect()}
        assert {*missing} <= found <= {*job.sent["a"]}, "still there to be read"
