"""Queries that append to tables in a process of its own, and the points at which tests kill it.

A point is a context: on entering, its query is brought to that point; then the process is killed;
on leaving, the point is checked and nothing holds the query any more.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from processes import PATIENCE_S, processes

from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.faults import Fault

from .test_crashes import Job

MODES = {
    "commit": {"writeAheadLog": "LOG"},
    "log": {"writeAheadLog": "LOG", "deleteAfter": "log"},
}
"""The options of a query with a log, by when it deletes; LOG stands for a folder of its own.

AZQUEUE_TEST_MODES names those to test (default: both).
"""
if chosen := os.environ.get("AZQUEUE_TEST_MODES"):
    MODES = {mode: MODES[mode] for mode in chosen.split()}


@dataclass(eq=False)
class KilledQuery:
    """One query of `queries_job.py`. Every message sent is noted, to be compared with the rows."""

    folder: Path
    fake: FakeQueueService
    options: dict[str, str]
    format: str = "parquet"
    sent: list[str] = field(default_factory=list)
    more: dict[str, str] = field(default_factory=dict)
    """What else the job is asked."""

    @property
    def queue(self) -> str:
        return self.folder.name

    @property
    def log(self) -> Path:
        return self.folder / "wal"

    def send(self, count: int) -> None:
        bodies = [f"m{len(self.sent) + i}" for i in range(count)]
        self.sent += bodies
        self.fake.put_many(self.queue, bodies)

    def entries(self, log: str) -> set[int]:
        """The numbers in one of Spark's logs, "offsets" or "commits"."""
        found = (self.folder / "checkpoint" / log).glob("[0-9]*")
        return {int(path.name) for path in found}

    def next_batch(self) -> int:
        return max(self.entries("offsets"), default=-1) + 1

    def is_in_sink(self, batch: int) -> bool:
        if self.format == "delta":  # one commit, after an IngestJob's two for a new table
            log = self.folder / "output" / "_delta_log"
            commits = [log / f"{batch + before:020d}.json" for before in range(3)]
            batches = [each.read_text() for each in commits if each.exists()]
            return any(f'"epochId":"{batch}"' in each for each in batches)
        metadata = self.folder / "output" / "_spark_metadata"
        return any((metadata / f"{batch}{end}").exists() for end in ("", ".compact"))

    def is_settled(self) -> bool:
        """True if all that was sent is gone from the queue, and every batch is committed."""
        started = self.entries("offsets")
        return self.fake.count(self.queue) == 0 and started == self.entries("commits") != set()

    def bodies(self) -> list[str]:
        """What the table has, as the job found it at its end: sorted."""
        found: list[str] = json.loads((self.folder / "bodies.json").read_text())
        return found


class QueriesJob(Job):
    """`queries_job.py`, with some of the queries."""

    script = Path(__file__).with_name("queries_job.py")
    kind = KilledQuery
    patience_s = 600  # several queries at once, on a busy machine

    def __init__(self, folder: Path, fake: FakeQueueService) -> None:
        super().__init__(folder, fake, "")

    def query(self, name: str, options: Mapping[str, str], **more: str) -> KilledQuery:
        """Make a query, its folder and its queue. LOG as an option stands for its log's folder."""
        folder = self.folder / name
        folder.mkdir()
        self.fake.create_queue(name)
        named = {key: value.replace("LOG", f"file:{folder}/wal") for key, value in options.items()}
        return self.kind(folder, self.fake, named, **more)

    def start_queries(self, *queries: KilledQuery) -> None:
        asked = [
            {
                "folder": str(query.folder),
                "queue": query.queue,
                "options": query.options,
                "format": query.format,
                **query.more,
            }
            for query in queries
        ]
        self.environment["QUERIES"] = json.dumps(asked)
        self.paths = [Path(__file__).with_name("holding")]
        self.start()

    def wait_until_all_settled(self, *queries: KilledQuery) -> None:
        self.wait_for(lambda: all(query.is_settled() for query in queries), "all queries to settle")

    def jvm(self) -> int:
        """The JVM; a child of it that is about to become another program still looks alike."""
        found = set(self.mine("java", "SparkSubmit"))
        running = processes()
        (pid,) = (pid for pid in found if pid in running and running[pid][0] not in found)
        return pid

    def die(self) -> None:
        """Kill all of it, which is alive."""
        assert self.jvm()
        assert self.mine("python_streaming_source_runner")
        self.destroy()


Point = Callable[[QueriesJob, KilledQuery], AbstractContextManager[None]]


@contextmanager
def before_offset(job: QueriesJob, query: KilledQuery) -> Iterator[None]:
    """The segment stands, and Spark has not heard of it."""
    batch = query.next_batch()
    hold = query.folder / "hold-claim"  # the source looks at its claim after each put: it waits
    hold.touch()
    query.send(30)
    job.wait_for((query.log / "seg" / f"{batch + 1:012d}").exists, "the segment")
    yield
    hold.unlink()
    assert query.next_batch() == batch


@contextmanager
def in_batch(job: QueriesJob, query: KilledQuery) -> Iterator[None]:
    """The offset stands, and its batch is running."""
    batch = query.next_batch()
    for path in query.folder.glob("holding-*"):
        path.unlink()
    hold = query.folder / "hold"
    hold.touch()
    query.send(30)
    job.wait_for(lambda: [*query.folder.glob("holding-*")], "a batch to begin")
    yield
    hold.unlink()
    assert query.next_batch() == batch + 1
    assert not query.is_in_sink(batch)


@contextmanager
def before_commit(job: QueriesJob, query: KilledQuery) -> Iterator[None]:
    """The sink has committed, and Spark has not. Receipts are newer than when it was logged."""
    fake, jvm, end = job.fake, job.jvm(), time.monotonic() + job.patience_s
    while True:
        batch = query.next_batch() + 1
        query.send(40)  # two batches
        while not query.is_in_sink(batch):  # the time from one commit to the other is short
            job.check_alive()
            assert time.monotonic() < end
            time.sleep(0.001)
        os.kill(jvm, signal.SIGSTOP)
        if batch not in query.entries("commits"):
            break
        os.kill(jvm, signal.SIGCONT)  # missed
        job.wait_until_all_settled(query)
    if query.options.get("deleteAfter") != "log":  # with it, nothing is leased any more
        before = fake.requests["update"]
        fake.wait_until(lambda: fake.requests["update"] >= before + 20, PATIENCE_S)
    yield
    assert batch in query.entries("offsets") - query.entries("commits")


@contextmanager
def in_deletes(job: QueriesJob, query: KilledQuery) -> Iterator[None]:
    """Some messages of the batch are deleted."""
    assert query.options["parallelism"] == "4"
    job.fake.faults.add(Fault("delete", "slow", queue=query.queue, seconds=8.0))
    query.send(30)
    job.wait_for(lambda: 0 < job.fake.count(query.queue) < 30, "a delete")
    yield
    job.fake.faults.clear()
    assert 0 < job.fake.count(query.queue) < 30


def live_and_die(job: QueriesJob, *kills: Mapping[KilledQuery, Point]) -> None:
    """Start queries and kill them, each at its point; then let all of them finish."""
    seen: dict[KilledQuery, None] = {}
    for kill in kills:
        for query in kill:
            if query not in seen:
                query.send(10)
        seen |= dict.fromkeys(kill)
        job.start_queries(*kill)
        job.wait_until_all_settled(*kill)
        with ExitStack() as stack:
            for query, point in kill.items():
                stack.enter_context(point(job, query))
            job.die()
    job.start_queries(*seen)
    job.wait_until_all_settled(*seen)
    job.end()
