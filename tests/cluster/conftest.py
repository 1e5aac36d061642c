"""The cluster, and the environments that run on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import make_environment
from leasing import Leasing
from processes import end_session
from programs import Programs
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("*.whl")
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, with_spark: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the package."""
    return make_environment(tmp_path_factory.mktemp("installed"), with_spark, wheel)


@pytest.fixture(scope="session")
def bare(with_spark: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all that the package requires, but not the package."""
    return make_environment(tmp_path_factory.mktemp("bare"), with_spark, None)


@pytest.fixture(scope="session")
def whole_cluster(
    with_spark: Path, bare: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    (home,) = with_spark.parents[1].glob("lib/python3.*/site-packages/pyspark")
    with Cluster(tmp_path_factory.mktemp("cluster"), home, bare) as made:
        yield made


@pytest.fixture
def cluster(whole_cluster: Cluster) -> Cluster:
    """A cluster of two workers."""
    whole_cluster.have_workers(2)
    return whole_cluster


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    for program in made.started:
        end_session(program.process)


@pytest.fixture
def leasing(
    cluster: Cluster,
    installed: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> Leasing:
    """Four queues of messages, and three workers."""
    cluster.have_workers(3)
    return Leasing(cluster, installed, programs, fake, queue, tmp_path)
