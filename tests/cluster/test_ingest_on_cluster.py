"""IngestJob on a real cluster, the package from a wheel."""

from __future__ import annotations

from pathlib import Path

from processes import kill, wait_for
from programs import Programs
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService

JOB = Path(__file__).with_name("ingest_job.py")
BAD = [f"broken {number}" for number in range(20)]
GOOD = [f"m{number}" for number in range(1980)]


def test_an_executor_that_is_killed_in_a_batch_costs_no_row_and_doubles_none(
    cluster: Cluster,
    installed: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> None:
    fake.create_queue(queue)
    fake.put_many(queue, sorted(GOOD + BAD, key=lambda text: text[-1]))
    hold = tmp_path / "hold"
    hold.touch()
    program = programs.start(
        *(cluster, installed, JOB, tmp_path, queue), conf={}, TEXT=fake.connection_string
    )

    def holding() -> bool:
        assert program.process.poll() is None, program.said()[-5000:]
        return len(list(tmp_path.glob("holding-*"))) >= 2

    wait_for(holding, "a task on each worker")
    executors = cluster.executors(cluster.workers[0])
    assert executors
    kill(executors)
    hold.unlink()

    assert program.result() == {
        "finished": True,
        "rows": 2000,
        "ids": 2000,
        "numbers": 1980,
        "bad": sorted(BAD),
    }
    assert list(tmp_path.glob("holding-*-1")), "no task ran again"
    assert fake.count(queue) == 0
