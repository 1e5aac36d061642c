"""The random search: it tries every file, ends in time, and says how to repeat what it finds."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import random_search
from random_search import REPOSITORY, files, run_file, search, words_of

FINDS = """
from hypothesis import given, strategies as st

@given(st.integers())
def test_finds(number):
    print("tried", number)
    assert number < 1_000
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tests with the settings of ours."""
    shutil.copy(REPOSITORY / "tests" / "conftest.py", tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", f"-c {REPOSITORY / 'setup.cfg'}")
    monkeypatch.delenv("AZQUEUE_SEARCH", raising=False)
    return tmp_path


def test_each_file_with_hypothesis_is_tried() -> None:
    found = files()

    assert "tests/property/test_promises.py" in found
    assert "tests/property/test_combined.py" in found
    assert "tests/unit/source/test_log_segment.py" in found
    assert "tests/unit/docs/test_lanes.py" not in found


def test_files_run_in_turn_each_with_another_seed_until_the_time_is_over() -> None:
    now, ran = [0.0], []

    def run(name: str, seed: int) -> int:
        ran.append((name, seed))
        now[0] += 1.0
        return int(name == "b")

    count, failed = search(["a", "b", "c"], 7.0, random.Random(1), run, lambda: now[0])

    assert count == 7
    assert {name for name, _ in ran[:3]} == {name for name, _ in ran[3:6]} == {"a", "b", "c"}
    assert len({seed for _, seed in ran}) == 7
    assert failed == [(name, seed) for name, seed in ran if name == "b"]


@pytest.mark.more
def test_a_failure_is_shown_and_the_line_repeats_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "test_finds.py"
    path.write_text(FINDS)
    monkeypatch.setattr(random_search, "files", lambda: [str(path)])
    monkeypatch.setattr(sys, "argv", ["random_search", "--seconds", "0.001"])

    assert random_search.main() == 1
    said = capsys.readouterr().out
    assert "1 files tried" in said
    (line,) = [line for line in said.splitlines() if line.startswith("Repeat it: ")]
    words = line.removeprefix("Repeat it: ").split()
    variables = dict(word.split("=", 1) for word in words if word.startswith("AZQUEUE_"))
    command = [sys.executable, *words[words.index("-m") :]]

    again = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    tried = [line for line in again.stdout.splitlines() if line.startswith("tried")]
    assert again.returncode == 1
    assert tried
    assert tried == [line for line in said.splitlines() if line.startswith("tried")]


@pytest.mark.more
def test_the_same_examples_come_each_time_unless_others_are_asked_for(folder: Path) -> None:
    path = folder / "test_finds.py"
    path.write_text(FINDS.replace("number < 1_000", "True"))

    def tried(seed: int, **variables: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, *words_of(str(path), seed), "-s"],
            cwd=REPOSITORY,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in done.stdout.splitlines() if "tried" in line]

    assert tried(1) == tried(2) != []
    assert tried(1, AZQUEUE_SEARCH="1") != tried(2, AZQUEUE_SEARCH="1")


@pytest.mark.more
def test_a_file_in_which_nothing_runs_is_no_failure(folder: Path) -> None:
    path = folder / "test_none.py"
    path.write_text("import pytest\n\n@pytest.mark.long\ndef test_long(): ...\n")

    assert run_file(str(path), 1) == 0


def test_a_file_that_does_not_end_is_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "test_endless.py"
    path.write_text("def test_endless():\n    while True:\n        pass\n")

    assert run_file(str(path), 1, most_s=2.0) == 1
    assert "did not end" in capsys.readouterr().out
