"""One life of the Spark program: a session of processes that is started, and ended in some way."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMIT = "commit"
FROZEN = "frozen"
TWIN = "twin"

KILLS = {
    "everything": "kill -9 of all processes at once",
    "java": "kill -9 of the JVM alone",
    "source": "kill -9 of the source's process alone",
    "workers": "kill -9 of the Python workers alone (and, where the query goes on, of all)",
    "driver": "SIGTERM to the driver",
    FROZEN: "SIGSTOP of all processes for two visibility timeouts; kill -9 some time after that",
    COMMIT: "kill -9 of the process alone that commits a transaction",
    TWIN: "the query started twice, until one stops by itself; then kill -9 of all processes",
}
"""Ways to end it that count as kills."""

STOP = "stop"
"""The polite way: query.stop()."""

_SOURCE = "pyspark.sql.streaming.python_streaming_source_runner"
_WORKERS = "pyspark.daemon"
_COMMITS = "pyspark.sql.worker.python_streaming_sink_runner"
_ALONE = {"source": _SOURCE, "workers": _WORKERS, COMMIT: _COMMITS}
_GONE_AT_MOST_S = 30.0
_LOOK_AGAIN_S = 0.05


class Processes:
    """The driver, its JVM, and all that they start: everything in one session of the system."""

    def __init__(
        self,
        folder: Path,
        script: Path,
        settings: dict[str, Any],
        environment: Mapping[str, str],
    ) -> None:
        """Start it; what it says goes into `folder`. environment: more variables for it."""
        folder.mkdir(parents=True)
        scratch = folder / "scratch"
        scratch.mkdir()
        self._starting = folder / "starting"
        self._stop = folder / "stop"
        settings = settings | {
            "scratch": str(scratch),
            "starting_file": str(self._starting),
            "stop_file": str(self._stop),
        }
        file = folder / "settings.json"
        file.write_text(json.dumps(settings), encoding="utf-8")
        environment = (
            os.environ
            | environment
            | {
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "TMPDIR": str(scratch),
            }
        )
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            self._driver = subprocess.Popen(
                [sys.executable, str(script), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def starting(self) -> bool:
        """Whether Spark is up and the query about to start."""
        return self._starting.exists()

    @property
    def status(self) -> int | None:
        """Exit status of the driver, None while it runs."""
        return self._driver.poll()

    def end(self, kind: str) -> bool:
        """Begin to end it in this way; False where the process to hit is not there (yet)."""
        if kind == STOP:
            self._stop.touch()
            return True
        if kind == "driver":
            self._driver.terminate()
            return True
        members = self._members()
        if kind == "java":
            members = {p: line for p, line in members.items() if _is_java(line)}
        elif kind in _ALONE:
            members = {p: line for p, line in members.items() if _ALONE[kind] in line}
        _kill(members)
        return bool(members)

    def said(self, text: str) -> bool:
        """Whether the driver's log holds this text."""
        return text.encode() in self._log.read_bytes()

    def freeze(self) -> None:
        """SIGSTOP all processes: leases run out, connections stay open, clocks go on."""
        _signal(self._members(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        _signal(self._members(), signal.SIGCONT)

    def over_within(self, seconds: float) -> bool:
        """Wait for the driver to end; return whether it did."""
        try:
            self._driver.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def wait_until_gone(self) -> tuple[float, float, list[str]]:
        """Wait for every process to end, and kill those that do not.

        Returns for how long some source process, and any process, was still there, and the command
        lines of those that had to be killed.
        """
        began = time.monotonic()
        source_s = 0.0
        while members := self._members():
            gone_s = time.monotonic() - began
            if any(_SOURCE in line for line in members.values()):
                source_s = gone_s
            if gone_s > _GONE_AT_MOST_S:
                self.kill()
                return source_s, gone_s, list(members.values())
            time.sleep(_LOOK_AGAIN_S)
        return source_s, time.monotonic() - began, []

    def kill(self) -> None:
        """Kill everything, and return when it is gone."""
        while members := self._members():
            _kill(members)
            time.sleep(_LOOK_AGAIN_S)
        self._driver.wait()

    def _members(self) -> dict[int, str]:
        """Process ids of the session with their command lines; the dead ones left out."""
        self._driver.poll()
        listing = subprocess.run(
            ["ps", "-A", "-o", "pid=,stat=,args="],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        members = {}
        for row in listing.splitlines():
            number, state, line = [*row.split(None, 2), ""][:3]
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if not state.startswith("Z") and os.getsid(int(number)) == self._driver.pid:
                    members[int(number)] = line
        return members


def _is_java(line: str) -> bool:
    return os.path.basename(line.split(None, 1)[0]) == "java" if line else False


def _kill(members: dict[int, str]) -> None:
    _signal(members, signal.SIGKILL)


def _signal(members: dict[int, str], number: signal.Signals) -> None:
    for process in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
