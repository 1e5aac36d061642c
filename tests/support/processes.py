"""What is running on this machine, and waiting for it: for tests that kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

PATIENCE_S = 180

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, timeout: float = PATIENCE_S) -> T:
    """Wait for something outside this process, which nobody can announce; return what it is."""
    end = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < end, f"waited {timeout} s for: {what}"
        time.sleep(0.05)
    return found


def processes() -> dict[int, tuple[int, int, str]]:
    """Process id -> (parent, session, command line), of everything that is running."""
    listing = subprocess.run(
        ["ps", "-axww", "-o", "pid=,ppid=,sess=,stat=,command="],
        capture_output=True,
        text=True,
        check=True,
    )
    found = {}
    for line in listing.stdout.splitlines():
        pid, parent, session, state, command = line.split(None, 4)
        if not state.startswith("Z"):
            found[int(pid)] = (int(parent), int(session), command)
    return found


def of_session(leader: int, *words: str) -> list[int]:
    """Processes of one session whose command has all these words."""
    return [
        pid
        for pid, (_, session, command) in processes().items()
        if session == leader and all(word in command for word in words)
    ]


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to processes; one that went by itself meanwhile is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """Kill everything in the session that this process began."""
    while left := of_session(process.pid):
        kill(left)
    process.wait()
