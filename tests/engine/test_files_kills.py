"""Files arrive while the job that reads them is killed: a short run of tests/soak/files_run.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_each_file_is_read_once_although_the_job_is_killed(tmp_path: Path) -> None:
    script = REPOSITORY / "tests" / "soak" / "files_run.py"
    size = [
        "--files",
        "120",
        "--kills",
        "1",
        "--seconds",
        "20",
        "--backfill",
        "20",
        "--outage",
        "5",
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *size, "--folder", str(tmp_path / "run")],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "1 kills" in done.stdout
