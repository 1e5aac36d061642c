"""leaseOn=executors on a real cluster: what happens to executors, workers and drivers.

Each message gives one row, and the queues end empty.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from leasing import OFTEN, WORKER, Leasing
from processes import end_session, kill, of_session
from standalone import Cluster

from spark_azqueue.testing.faults import Fault


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
    ("end", "doing"),
    [
        pytest.param(end_executor, "dequeue", marks=pytest.mark.core),
        pytest.param(end_worker, "delete", marks=pytest.mark.long),
        (end_python, "dequeue"),
    ],
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
    for left in (1_100, 500):
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
