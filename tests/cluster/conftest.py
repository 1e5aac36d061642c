"""The cluster, the environments that run on it, and programs started with one of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from environments import make_environment
from processes import PATIENCE_S, end_session
from standalone import QUICK, Cluster, clean_environment

SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.cleaner.referenceTracking": "false",
}


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


@dataclass
class Program:
    """A driver: a Python program in a session of its own."""

    process: subprocess.Popen[bytes]
    folder: Path

    def result(self) -> Any:
        """What it printed in its last line, when it ended well."""
        code = self.process.wait(PATIENCE_S)
        assert code == 0, self.said()[-5000:]
        return json.loads((self.folder / "out").read_text().splitlines()[-1])

    def said(self) -> str:
        return (self.folder / "err").read_text(errors="replace")


@dataclass
class Programs:
    """Starts programs, and ends them with the test."""

    folder: Path
    started: list[Program] = field(default_factory=list)

    def start(
        self, cluster: Cluster, python: Path, *words: object, conf: dict[str, str], **more: str
    ) -> Program:
        """Run `python <words>`; `more` goes into its environment."""
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            process = subprocess.Popen(
                [str(python), *map(str, words)],
                env={
                    **clean_environment(),
                    "MASTER": cluster.address,
                    "CONF": json.dumps(SMALL | conf),
                    "PYSPARK_PYTHON": str(python),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
                    **more,
                },
                cwd=self.folder,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        self.started.append(Program(process, self.folder))
        return self.started[-1]


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    made = Programs(tmp_path)
    yield made
    for program in made.started:
        end_session(program.process)
