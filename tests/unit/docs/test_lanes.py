"""Lanes: every target runs, what each prints stays whole, and a failure is told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lanes import Ended, run, told, usable_lanes
from processes import wait_for
from site_pages import REPOSITORY

SHELL = ("sh", "-c")
SCRIPT = REPOSITORY / "tools" / "lanes.py"


def lanes(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--command", "sh -c", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_failure_is_told_at_the_end_and_the_others_run_on() -> None:
    done = lanes("--lanes", "2", "echo bad; exit 3", "echo good")

    assert done.returncode == 1
    *_, last = done.stdout.splitlines()
    assert last.startswith("── FAILED: echo bad; exit 3.")
    assert "echo bad; exit 3: FAILED with status 3 after 0:0" in done.stdout
    assert "echo good: passed after 0:0" in done.stdout


@pytest.mark.parametrize("count", ["1", "2"])
def test_all_is_well_if_every_target_ends_well(count: str) -> None:
    done = lanes("--lanes", count, "echo one", "echo two >&2", "echo three")

    assert done.returncode == 0
    assert "FAILED" not in done.stdout
    for word in ("one", "two", "three"):
        assert word in re.findall(r"^\w+$", done.stdout + done.stderr, re.MULTILINE)


def test_what_a_target_prints_stays_whole(tmp_path: Path) -> None:
    def turns(mine: str, other: str) -> str:
        """Print `mine` twice, and between that wait until the other target has printed, too."""
        waiting = f"while [ ! -e {tmp_path}/{other} ]; do sleep 0.01; done"
        return f"echo {mine}; touch {tmp_path}/{mine}; {waiting}; echo {mine}"

    done = lanes("--lanes", "2", turns("a", "b"), turns("b", "a"))

    assert done.returncode == 0
    assert "".join(re.findall(r"^[ab]$", done.stdout, re.MULTILINE)) in ("aabb", "bbaa")


def test_no_more_run_at_once_than_there_are_lanes(tmp_path: Path) -> None:
    alone = f"mkdir {tmp_path}/busy && sleep 0.05 && rmdir {tmp_path}/busy"

    ended = run(SHELL, [alone] * 3, lanes=1)

    assert [each.status for each in ended] == [0, 0, 0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all_and_shows_what_was_printed(number: int, tmp_path: Path) -> None:
    name = f"{tmp_path}/target"
    target = f"echo begun; sleep 600 & echo $! > {name}-$$; wait"
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), "--lanes", "2", "--command", "sh -c", target, target],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(lambda: len([f for f in tmp_path.iterdir() if f.read_text()]) == 2, "both targets", 60)

    process.send_signal(number)
    said, _ = process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert re.findall(r"^begun$", said, re.MULTILINE) == ["begun"] * 2
    assert said.endswith("── interrupted\n")
    for file in tmp_path.glob("target-*"):
        wait_for(lambda file=file: not alive(int(file.read_text())), "a target's child to end", 10)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not status.exists() or "State:\tZ" not in status.read_text()


def test_a_line_tells_minutes() -> None:
    assert told(Ended("a", 0, 59.6)) == "a: passed after 1:00"
    assert told(Ended("a", -9, 3)) == "a: FAILED with status -9 after 0:03"


def test_a_lane_for_each_core_but_three_at_most() -> None:
    assert [usable_lanes(cores) for cores in (0, 1, 2, 3, 64)] == [1, 1, 2, 3, 3]


def test_the_make_that_called_shares_no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAKEFLAGS", "k -j4 --jobserver-auth=3,4 -- N=2")

    (ended,) = run(SHELL, ['test "$MAKEFLAGS" = "k -- N=2"'], lanes=2)

    assert ended.status == 0
