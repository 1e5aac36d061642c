"""A Spark standalone cluster on 127.0.0.1: a master and its workers, each a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from processes import end_session, of_session, wait_for
from quick_jvm import QUICK_JVM

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
HOSTS = ("127.0.0.1", "localhost")
EXECUTOR = "CoarseGrainedExecutorBackend"


def clean_environment() -> dict[str, str]:
    """This environment without what would lead Spark to another Python, package or Spark."""
    words = ("SPARK", "PYTHON", "VIRTUAL_ENV")
    return {name: text for name, text in os.environ.items() if not any(w in name for w in words)}


class Cluster:
    """One master, and as many workers (of one core each) as are asked for.

    Workers take turns in calling their host by one of two names: Spark starts no second attempt of
    a task on a host on which the first one runs.
    """

    def __init__(self, folder: Path, spark_home: Path, python: Path) -> None:
        """python: what the workers' PATH calls `python`."""
        self.folder = folder
        self._path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        self.spark_home = spark_home
        self.workers: list[subprocess.Popen[bytes]] = []
        self._hosts: dict[int, str] = {}
        self._started = 0

    def __enter__(self) -> Cluster:
        self._master = self._start("master", HOSTS[0], MASTER, "--webui-port", "0")
        try:
            said = r"Starting Spark master at (spark://\S+)"
            self.address = self._said("master", self._master, said)
        except BaseException:
            end_session(self._master)
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in (*self.workers, self._master):
            end_session(process)

    def have_workers(self, count: int) -> None:
        """Start workers until there are so many again."""
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        began = []
        while len(self.workers) < count:
            self._started += 1
            name = f"worker-{self._started}"
            work = str(self.folder / name)
            words = ("--cores", "1", "--memory", "1g", "--work-dir", work, "--webui-port", "0")
            taken = [self._hosts[worker.pid] for worker in self.workers]
            host = min(HOSTS, key=taken.count)
            self.workers.append(self._start(name, host, WORKER, *words, self.address))
            self._hosts[self.workers[-1].pid] = host
            began.append((name, self.workers[-1]))
        for name, worker in began:
            self._said(name, worker, "(Successfully registered) with master")

    def executors(self, worker: subprocess.Popen[bytes]) -> list[int]:
        """The JVMs that run tasks for a worker."""
        return of_session(worker.pid, EXECUTOR)

    def _start(self, name: str, host: str, main: str, *words: str) -> subprocess.Popen[bytes]:
        command = [str(self.spark_home / "bin" / "spark-class"), main]
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, "--host", host, "--port", "0", *words],
                env={
                    **clean_environment(),
                    "SPARK_HOME": str(self.spark_home),
                    "SPARK_DAEMON_MEMORY": "256m",
                    "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    "PATH": self._path,
                },
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _said(self, name: str, process: subprocess.Popen[bytes], pattern: str) -> str:
        """Wait for a word in the log of a process."""
        log = self.folder / f"{name}.log"

        def said() -> str | None:
            text = log.read_text(errors="replace")
            assert process.poll() is None, text[-3000:]
            found = re.search(pattern, text)
            return found[1] if found else None

        word = wait_for(said, f"{pattern!r} in {log}")
        assert word
        return word
