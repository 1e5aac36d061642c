"""A Postgres server for a test: the system's, or the one in the wheel `pgserver`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """Start a server whose files are in `folder`; give its address. Skips without one."""
    if os.getuid() and shutil.which("initdb") and shutil.which("pg_ctl"):
        yield from _of_system(folder)
        return
    pgserver = pytest.importorskip("pgserver", reason="needs Postgres, or the wheel pgserver")
    server = pgserver.get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _of_system(folder: Path) -> Iterator[str]:
    """Postgres refuses to run as root, which is why pgserver is for that."""
    data, options = folder / "pg", f"-c listen_addresses='' -k {folder}"

    def run(command: str, *arguments: str | Path) -> None:
        subprocess.run([command, "-D", data, *arguments], check=True, stdout=subprocess.DEVNULL)

    run("initdb", "-U", "postgres", "-A", "trust")
    run("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        run("pg_ctl", "-w", "-m", "immediate", "stop")
