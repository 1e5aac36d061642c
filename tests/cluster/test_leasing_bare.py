"""leaseOn=executors on a cluster of Spark 4.0, which does not tell a source where a query is.

AZQUEUE_OLD_SPARK: another such line, as 4.1. AZQUEUE_TEST_LEASED: how many messages (1200).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import make_environment
from leasing import SENT, Leasing
from processes import end_session, kill, of_session
from programs import Programs
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.faults import Fault

SOURCE = "python_streaming_source_runner"


@pytest.fixture
def old_leasing(
    old_spark: Path,
    wheel: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Leasing]:
    """Four queues of messages, and three workers of Spark 4.0."""
    (home,) = old_spark.parents[1].glob("lib/python3.*/site-packages/pyspark")
    folder = tmp_path_factory.mktemp("old")
    without = make_environment(folder / "without", old_spark, None)
    python = make_environment(folder / "with", old_spark, wheel)
    with Cluster(tmp_path_factory.mktemp("cluster"), home, without) as cluster:
        cluster.have_workers(3)
        yield Leasing(cluster, python, programs, fake, queue, tmp_path)


def test_kills_of_executor_source_and_driver_cost_no_row(old_leasing: Leasing) -> None:
    leasing, cluster = old_leasing, old_leasing.cluster
    leasing.fake.faults.add(Fault("dequeue", "slow", every=4, seconds=1.0))
    program = leasing.start({})
    leasing.wait_until_left(program, SENT * 11 // 12)
    kill(cluster.executors(cluster.workers[0]))
    cluster.have_workers(3)
    leasing.wait_until_left(program, SENT * 2 // 3)
    source = of_session(program.process.pid, SOURCE)
    assert source
    kill(source)
    assert program.process.wait(120), "the query fails"
    program = leasing.start({})
    leasing.wait_until_left(program, SENT * 5 // 12)
    end_session(program.process)
    leasing.fake.faults.clear()
    leasing.each_row_once(leasing.start({}))
