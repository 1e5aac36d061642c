"""Run targets of the Makefile in lanes, and say at the end which failed.

    python tools/lanes.py [--lanes 2] test-kills test-engine smoke-4.0

Targets start in the order given; as many run at once as there are lanes: one for each core, three
at most. What a target prints is shown as a whole when it ends; with one lane, as it comes. After a
failure the others run on.

Exit status: 0 if every target ended well, 1 if not, 128 + the signal after Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO

LANES_AT_MOST = 3
END_WITHIN_S = 30.0
"""How long targets have to put away what they started; what is left then is killed."""

_LOOK_EVERY_S = 0.1


class Interrupted(BaseException):
    """The user, or the build server, wants it to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True)
class Ended:
    """A target that has ended, with its exit status, after so many seconds."""

    target: str
    status: int
    seconds: float


class Running:
    """A target that runs, in a process group of its own."""

    def __init__(self, command: Sequence[str], target: str, *, shown: bool) -> None:
        """shown: its output goes to this process's output; else it is kept until it has ended."""
        self.target = target
        self._began = time.monotonic()
        self._kept: IO[bytes] | None = None if shown else tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [*command, target],
            stdin=subprocess.DEVNULL,
            stdout=self._kept,
            stderr=subprocess.STDOUT if self._kept else None,
            env={**os.environ, "MAKEFLAGS": _without_jobs(os.environ.get("MAKEFLAGS", ""))},
            start_new_session=True,
        )

    def ended(self) -> Ended | None:
        """How it ended, or None while it runs."""
        status = self._process.poll()
        if status is None:
            return None
        return Ended(self.target, status, time.monotonic() - self._began)

    def send(self, number: int) -> None:
        """Send a signal to all of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def wait_until(self, end: float) -> None:
        """Wait for it until that time of `time.monotonic()`, then kill what is left."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, end - time.monotonic()))
        self.send(signal.SIGKILL)
        self._process.wait()

    def show(self) -> None:
        """Print what it printed."""
        if self._kept:
            self._kept.seek(0)
            shutil.copyfileobj(self._kept, sys.stdout.buffer)
            self._kept.close()


def run(command: Sequence[str], targets: Sequence[str], lanes: int) -> list[Ended]:
    """Run `command target` for each target; return them in the order in which they ended.

    Raises Interrupted once all that ran has ended.
    """
    waiting, running, ended = list(targets), list[Running](), list[Ended]()
    try:
        while waiting or running:
            while waiting and len(running) < lanes:
                say(f"{waiting[0]}: started")
                running.append(Running(command, waiting.pop(0), shown=lanes == 1))
            time.sleep(_LOOK_EVERY_S)
            if _received:
                raise Interrupted(_received[0])
            for each in running[:]:
                if result := each.ended():
                    running.remove(each)
                    ended.append(result)
                    each.show()
                    say(told(result))
    except BaseException:
        for each in running:
            each.send(signal.SIGINT)
        end = time.monotonic() + END_WITHIN_S
        for each in running:
            each.wait_until(end)
            each.show()
            say(f"{each.target}: interrupted")
        raise
    return ended


def told(result: Ended) -> str:
    """A line about a target that has ended."""
    minutes, seconds = divmod(round(result.seconds), 60)
    how = f"FAILED with status {result.status}" if result.status else "passed"
    return f"{result.target}: {how} after {minutes}:{seconds:02}"


def say(text: str) -> None:
    """Print a line of its own, after what targets printed."""
    sys.stdout.write(f"── {text}\n")  # as one piece: a target may print at the same time
    sys.stdout.flush()


def usable_lanes(cores: int) -> int:
    """How many targets to run at once on so many cores."""
    return max(1, min(cores, LANES_AT_MOST))


def _without_jobs(flags: str) -> str:
    """The flags of the make that called, without its -j: it cannot be shared from here."""
    return " ".join(word for word in flags.split() if not word.startswith(("-j", "--jobserver")))


_received: list[int] = []
"""Signals that ask for the end. Only noted, so that a target that is just starting is not lost."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    _received.append(number)


def main() -> int:
    """Run the targets named on the command line; return the exit status."""
    parser = argparse.ArgumentParser(description="Run targets of the Makefile in lanes.")
    parser.add_argument("--lanes", type=int, default=usable_lanes(os.cpu_count() or 1))
    parser.add_argument("--command", default="make --no-print-directory", help="before each target")
    parser.add_argument("targets", nargs="+")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    lanes = min(given.lanes, len(given.targets))
    try:
        ended = run(given.command.split(), given.targets, lanes)
    except Interrupted as interrupted:
        say("interrupted")
        return 128 + interrupted.number
    say("In all:")
    for result in ended:
        print(f"   {told(result)}")
    failed = [result.target for result in ended if result.status]
    if failed:
        say(f"FAILED: {', '.join(failed)}. What {failed[0]} printed stands above, before its line.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
