"""leaseOn=executors on a real cluster: what happens to executors, workers and drivers.

Each message gives one row, and the queues end empty.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import end_session, kill, of_session, wait_for
from programs import Program, Programs
from searching import holders
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.faults import Fault

JOB = Path(__file__).with_name("leasing_job.py")
SENT = 1200
QUEUES = 4
WORKER = "pyspark.daemon"

OFTEN = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.efficiency.enabled": "false",
}
PATIENT = {"spark.task.maxFailures": "20", "spark.deploy.maxExecutorRetries": "-1"}


@dataclass
class Leasing:
    """The job on four queues, some hundred messages a batch."""

    cluster: Cluster
    python: Path
    programs: Programs
    fake: FakeQueueService
    queue: str
    folder: Path

    def __post_init__(self) -> None:
        self.names = [f"{self.queue}-{number}" for number in range(QUEUES)]
        for place, name in enumerate(self.names):
            self.fake.create_queue(name)
            self.fake.put_many(name, [f"m{n}" for n in range(place, SENT, QUEUES)])

    def start(self, settings: dict[str, str], **options: str) -> Program:
        return self.programs.start(
            self.cluster,
            self.python,
            *(JOB, self.folder, ",".join(self.names)),
            conf=PATIENT | settings,
            TEXT=self.fake.connection_string,
            OPTIONS=json.dumps({"maxMessagesPerTrigger": "400"} | options),
        )

    def left(self) -> int:
        return sum(self.fake.count(name) for name in self.names)

    def wait_until_left(self, program: Program, most: int) -> None:
        def reached() -> bool:
            assert program.process.poll() is None, program.said()[-5000:]
            return self.left() <= most

        wait_for(reached, f"{most} messages left")

    def each_row_once(self, program: Program) -> None:
        """The job ended well, nothing is left in the queues, and no log or file shows the key."""
        assert program.result() == {"rows": SENT, "bodies": SENT, "twice": []}
        assert self.left() == 0
        assert (self.folder / "checkpoint" / "commits").is_dir()
        assert holders(self.folder, self.fake.key) == []
        assert holders(self.cluster.folder, self.fake.key) == []


@pytest.fixture
def leasing(
    cluster: Cluster,
    installed: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> Leasing:
    cluster.have_workers(3)
    return Leasing(cluster, installed, programs, fake, queue, tmp_path)


def end_executor(cluster: Cluster) -> None:
    """The executor's JVM, and its Python with it."""
    kill(cluster.executors(cluster.workers[0]))


def end_worker(cluster: Cluster) -> None:
    """As when a machine goes."""
    end_session(cluster.workers[0])


def end_python(cluster: Cluster) -> None:
    """The Python processes of one executor alone."""
    kill(of_session(cluster.workers[0].pid, WORKER))


@pytest.mark.parametrize(
    ("end", "doing"), [(end_executor, "dequeue"), (end_worker, "delete"), (end_python, "dequeue")]
)
def test_kills_on_executors_cost_no_row(
    leasing: Leasing, end: Callable[[Cluster], None], doing: str
) -> None:
    every = 4 if doing == "dequeue" else 60
    leasing.fake.faults.add(Fault(doing, "slow", every=every, seconds=1.0))
    program = leasing.start({})
    for left in (1_100, 500):
        leasing.wait_until_left(program, left)
        end(leasing.cluster)
        leasing.cluster.have_workers(3)
    leasing.fake.faults.clear()
    leasing.each_row_once(program)


def test_a_driver_that_is_killed_goes_on_where_it_was(leasing: Leasing) -> None:
    leasing.fake.faults.add(Fault("delete", "slow", every=60, seconds=1.0))
    for left in (1_100, 700, 200):
        program = leasing.start({})
        leasing.wait_until_left(program, left)
        end_session(program.process)
    leasing.fake.faults.clear()
    leasing.each_row_once(leasing.start({}))


def test_a_task_that_runs_twice_at_once_gives_its_rows_once(leasing: Leasing) -> None:
    leasing.fake.faults.add(Fault("dequeue", "slow", queue=leasing.names[0], nth=1, seconds=8.0))
    leasing.fake.faults.add(Fault("delete", "slow", queue=leasing.names[1], nth=9, seconds=8.0))
    program = leasing.start(OFTEN)
    leasing.each_row_once(program)
    assert "TaskKilled" in program.said(), "no task ran twice"


def test_a_frozen_worker_that_goes_on_when_its_batch_is_over_changes_nothing(
    leasing: Leasing,
) -> None:
    leasing.fake.faults.add(Fault("dequeue", "slow", every=4, seconds=1.0))
    program = leasing.start(OFTEN | {"spark.python.task.killTimeout": "600s"})
    leasing.wait_until_left(program, 1_000)
    frozen = of_session(leasing.cluster.workers[0].pid, WORKER)
    kill(frozen, signal.SIGSTOP)
    leasing.wait_until_left(program, 500)
    kill(frozen, signal.SIGCONT)
    leasing.fake.faults.clear()
    leasing.each_row_once(program)
