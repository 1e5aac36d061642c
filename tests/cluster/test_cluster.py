"""A real cluster, the package from a wheel: what happens to workers and tasks loses no row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Programs
from processes import end_session, kill, wait_for
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService

JOB = Path(__file__).with_name("job.py")
SENT = 2000
ONCE = {"rows": SENT, "ids": SENT, "bodies": SENT, "twice": []}


@pytest.fixture
def job(
    cluster: Cluster,
    installed: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> Callable[..., Any]:
    """Starts the job on a queue of 2,000 messages."""
    fake.create_queue(queue)
    fake.put_many(queue, [f"m{number}" for number in range(SENT)])

    def start(trouble: str, **conf: str) -> Any:
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        words = (JOB, tmp_path, queue, trouble)
        return programs.start(
            cluster, installed, *words, conf=settings, TEXT=fake.connection_string
        )

    return start


def end_worker(cluster: Cluster) -> None:
    """As when a machine goes: the worker, its executor and the executor's Python at once."""
    end_session(cluster.workers[0])


def end_executor(cluster: Cluster) -> None:
    """The executor's JVM alone: the worker starts another one."""
    executors = cluster.executors(cluster.workers[0])
    assert executors
    kill(executors)


@pytest.mark.parametrize("end", [end_worker, end_executor])
def test_a_kill_in_the_middle_of_a_batch_costs_no_row(
    job, cluster: Cluster, fake: FakeQueueService, queue: str, tmp_path: Path, end
) -> None:
    (tmp_path / "hold").touch()
    program = job("hold")
    both = lambda: len(list(tmp_path.glob("holding-*"))) >= 2  # noqa: E731
    wait_for(lambda: both() or program.process.poll() is not None, "a task on each worker")
    assert both(), program.said()[-5000:]

    end(cluster)
    (tmp_path / "hold").unlink()

    assert program.result() == ONCE
    assert list(tmp_path.glob("holding-*-1")), "no task ran again"
    assert fake.count(queue) == 0


def test_a_task_that_runs_twice_at_once_gives_its_rows_once(
    job, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    program = job(
        "slow",
        spark_speculation="true",
        spark_speculation_interval="100ms",
        spark_speculation_quantile="0.5",
        spark_speculation_multiplier="1.1",
        spark_speculation_minTaskRuntime="100ms",
        spark_speculation_efficiency_enabled="false",
    )

    assert program.result() == ONCE
    assert {path.name for path in tmp_path.glob("attempt-*")} >= {"attempt-0", "attempt-1"}
    assert fake.count(queue) == 0


def test_a_task_that_fails_twice_gives_its_rows_once(
    job, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    assert job("fail").result() == ONCE
    attempts = sorted(path.name for path in tmp_path.glob("attempt-*"))
    assert attempts == ["attempt-0", "attempt-1", "attempt-2"]
    assert fake.count(queue) == 0
