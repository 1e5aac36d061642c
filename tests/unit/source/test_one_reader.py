"""The lock of a load(), between processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_azqueue.errors import LoadConflict
from spark_azqueue.source import one_reader

LOAD = "0123456789abcdef"
HOLD = (
    "import sys; from spark_azqueue.source import one_reader;"
    f"one_reader.take({LOAD!r}); print('held', flush=True); sys.stdin.read(); {{}}"
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    one_reader.leave(LOAD)


def holder(at_the_end: str = "") -> subprocess.Popen[str]:
    """Another process beside the same JVM, which holds the load until its input ends."""
    made = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(at_the_end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert made.stdout
    assert made.stdout.readline() == "held\n"
    return made


def waits() -> list[float]:
    """Take the load; each wait was this long."""
    slept: list[float] = []
    one_reader.take(LOAD, sleep=slept.append)
    return slept


def test_a_second_reader_is_refused_after_it_has_waited_for_the_first_to_end() -> None:
    first = holder()
    slept: list[float] = []
    with pytest.raises(LoadConflict, match="joins the stream with itself"):
        one_reader.take(LOAD, sleep=slept.append)
    assert 14 < sum(slept) < 16
    first.kill()
    first.communicate()
    assert waits() == [], "the system releases what a killed process held"


def test_a_reader_that_is_ending_is_waited_for(folder: Path) -> None:
    first = holder(f"one_reader.leave({LOAD!r})")

    def ends(_: float) -> None:
        first.communicate("")

    one_reader.take(LOAD, sleep=ends)
    assert len(list(folder.iterdir())) == 1
    one_reader.leave(LOAD)
    assert list(folder.iterdir()) == []


def test_one_process_takes_it_once(folder: Path) -> None:
    assert waits() == waits() == []
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("is_there", ["a pipe", "no folder", "no locks"])
def test_where_no_lock_can_be_had_the_query_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, is_there: str
) -> None:
    if is_there == "a pipe":
        waits()
        (file,) = folder.iterdir()
        one_reader.leave(LOAD)
        os.mkfifo(file)
    elif is_there == "no folder":
        monkeypatch.setattr(tempfile, "tempdir", str(folder / "missing"))
    else:
        monkeypatch.setattr(one_reader, "fcntl", None)
    assert waits() == []


def test_what_a_killed_process_left_is_removed_by_the_next_one(folder: Path) -> None:
    """Of no load that is read: a lock says so."""
    killed, alive = folder / "spark-azqueue-load-1.lock", holder()
    killed.touch()
    one_reader.take("another", sleep=lambda _: None)
    one_reader.leave("another")
    (file,) = folder.iterdir()
    assert LOAD in file.name
    alive.communicate("")
