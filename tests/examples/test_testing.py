"""The tests that docs/testing.md shows pass, and fail if the job is wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import EXAMPLES


def pytest_on(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, as a user would: with none of this project's settings."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(EXAMPLES.parent), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / "testing", tmp_path / "testing"))


def test_they_pass(folder: Path) -> None:
    done = pytest_on(folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_they_notice_a_job_that_drops_rows(folder: Path) -> None:
    job = folder / "orders_job.py"
    text = job.read_text(encoding="utf-8")
    dropped = text.replace(".writeStream", '.where("order_id > 1").writeStream')
    assert dropped != text
    job.write_text(dropped, encoding="utf-8")

    done = pytest_on(folder)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "3 failed" in done.stdout
