"""A real cluster, the package from a wheel: what happens to workers and tasks loses no row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import end_session, kill, wait_for
from programs import Program, Programs, event_log
from searching import holders
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService, Fault

JOB = Path(__file__).with_name("job.py")
INGEST = Path(__file__).with_name("ingest_job.py")
SENT = 2000


@dataclass
class Job:
    """The job on a queue of 2,000 messages."""

    cluster: Cluster
    python: Path
    programs: Programs
    fake: FakeQueueService
    queue: str
    folder: Path

    def __post_init__(self) -> None:
        self.fake.create_queue(self.queue)
        self.fake.put_many(self.queue, [f"m{number}" for number in range(SENT)])
        self.logged = event_log(self.folder / "events")
        self.planted = f"planted-{self.queue}"

    def start(
        self, trouble: str, settings: dict[str, str], script: Path = JOB, **more: str
    ) -> Program:
        return self.programs.start(
            self.cluster,
            self.python,
            *(script, self.folder, self.queue, trouble),
            conf=self.logged | settings,
            TEXT=self.fake.connection_string,
            PLANTED=self.planted,
            **more,
        )

    def each_row_once(self, program: Program) -> None:
        """The job ended well, nothing is left in the queue, and no log shows the key."""
        assert program.result() == {"rows": SENT, "ids": SENT, "bodies": SENT, "twice": []}
        assert self.fake.count(self.queue) == 0
        logs = holders(self.folder, self.planted)
        assert "err" in logs
        assert [name for name in logs if name.startswith("events")]
        workers = holders(self.cluster.folder, self.planted)
        assert [name for name in workers if name.endswith("stderr")]
        assert (self.folder / "checkpoint" / "commits").is_dir()
        assert holders(self.folder, self.fake.key) == []
        assert holders(self.cluster.folder, self.fake.key) == []


@pytest.fixture
def job(
    cluster: Cluster,
    installed: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> Job:
    return Job(cluster, installed, programs, fake, queue, tmp_path)


def end_worker(cluster: Cluster) -> None:
    """As when a machine goes: the worker, its executor and the executor's Python at once."""
    end_session(cluster.workers[0])


def end_executor(cluster: Cluster) -> None:
    """The executor's JVM alone: the worker starts another one."""
    executors = cluster.executors(cluster.workers[0])
    assert executors
    kill(executors)


def killed_in_a_batch(job: Job, end: Callable[[Cluster], None], script: Path = JOB) -> Program:
    """Start the script, end a part of the cluster while two tasks wait, and let them go on."""
    hold = job.folder / "hold"
    hold.touch()
    program = job.start("hold", {}, script)

    def holding() -> bool:
        assert program.process.poll() is None, program.said()[-5000:]
        return len(list(job.folder.glob("holding-*"))) >= 2

    wait_for(holding, "a task on each worker")
    end(job.cluster)
    hold.unlink()
    return program


@pytest.mark.parametrize("end", [end_worker, end_executor])
def test_a_kill_in_the_middle_of_a_batch_costs_no_row(
    job: Job, end: Callable[[Cluster], None]
) -> None:
    job.each_row_once(killed_in_a_batch(job, end))
    assert list(job.folder.glob("holding-*-1")), "no task ran again"


def test_an_executor_that_an_ingest_job_loses_costs_no_row_and_doubles_none(job: Job) -> None:
    bad = [f"broken {number}" for number in range(20)]
    job.fake.put_many(job.queue, bad)

    program = killed_in_a_batch(job, end_executor, INGEST)

    assert program.result() == {
        "finished": True,
        "rows": SENT + len(bad),
        "ids": SENT + len(bad),
        "numbers": SENT,
        "bad": sorted(bad),
    }
    assert list(job.folder.glob("holding-*-1")), "no task ran again"
    assert job.fake.count(job.queue) == 0


OFTEN = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.efficiency.enabled": "false",
}


def test_a_task_that_runs_twice_at_once_gives_its_rows_once(job: Job) -> None:
    job.each_row_once(job.start("slow", OFTEN))
    assert attempts(job) == {"attempt-0", "attempt-1"}


@pytest.mark.core
def test_a_task_that_runs_twice_at_once_shows_its_messages_once(job: Job) -> None:
    """Both attempts put their messages hidden; with transactions those of one are shown."""
    target = f"{job.queue}-out"
    job.fake.create_queue(target)
    # So that neither attempt has ended when the other one puts.
    job.fake.faults.add(Fault("put", "slow", every=10, queue=target, seconds=1))
    sink = {
        "secret.connectionString": job.fake.connection_string,
        "queue": target,
        "transactionLog": f"file:{job.folder}/txn",
    }
    program = job.start("slow", OFTEN, SINK=json.dumps(sink))
    assert program.result() is None
    assert attempts(job) == {"attempt-0", "attempt-1"}
    shown = Counter(each.text for each in job.fake.messages(target) if each.visible)
    assert shown == Counter(f"m{number}" for number in range(SENT))
    assert job.fake.count(target) > SENT, "what the other attempt put stays hidden"


def test_a_task_that_fails_twice_gives_its_rows_once(job: Job) -> None:
    job.each_row_once(job.start("fail", {}))
    assert attempts(job) == {"attempt-0", "attempt-1", "attempt-2"}


def attempts(job: Job) -> set[str]:
    return {path.name for path in job.folder.glob("attempt-*")}
