"""Drivers: Python programs that run on a cluster, each in a session of its own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import PATIENCE_S
from quick_jvm import QUICK_JVM
from standalone import Cluster, clean_environment

SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.cleaner.referenceTracking": "false",
}


def event_log(folder: Path) -> dict[str, str]:
    """Spark's settings for a readable event log in this folder, which is made."""
    folder.mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


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
        command = [python, *words]
        return self._started(cluster, python, command, CONF=json.dumps(SMALL | conf), **more)

    def submit(
        self, cluster: Cluster, python: Path, *words: object, conf: dict[str, str], **more: str
    ) -> Program:
        """The same by `spark-submit`."""
        settings = [f"--conf={name}={value}" for name, value in (SMALL | conf).items()]
        command = [cluster.spark_home / "bin" / "spark-submit", "--master", cluster.address]
        home = str(cluster.spark_home)
        return self._started(
            cluster, python, [*command, *settings, *words], SPARK_HOME=home, **more
        )

    def _started(
        self, cluster: Cluster, python: Path, command: list[object], **more: str
    ) -> Program:
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            process = subprocess.Popen(
                list(map(str, command)),
                env={
                    **clean_environment(),
                    "MASTER": cluster.address,
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
