"""Exactly once into Postgres: the job dies at each step of a batch."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from postgres import postgres

from spark_azqueue.testing import FakeQueueService

from .conftest import EXAMPLES

psycopg = pytest.importorskip("psycopg")

STEPS = ("number", "rows", "amid", "commit", "committed")
JOB = Path(__file__).with_name("postgres_job.py")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with postgres(tmp_path) as found:
        with psycopg.connect(found) as connection:
            connection.execute(importlib.import_module("into_postgres").SCHEMA)
        yield found


def bodies(address: str) -> Counter[str]:
    with psycopg.connect(address) as connection:
        return Counter(body for (body,) in connection.execute("SELECT body FROM orders"))


def lived(fake: FakeQueueService, folder: Path, address: str, step: str) -> bool:
    """Run the job until it dies at this step, or ends. Returns True if it ended."""
    settings = {
        "connection": fake.connection_string,
        "folder": str(folder / "job"),
        "address": address,
        "step": step,
        "path": [str(EXAMPLES)],
    }
    file = folder / "settings.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    with (folder / "job.log").open("ab") as log:
        done = subprocess.run(
            [sys.executable, JOB, file],
            stdout=log,
            stderr=log,
            timeout=240,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        )
    assert done.returncode in (0, -9), (folder / "job.log").read_text()[-3_000:]
    return done.returncode == 0


def killed(fake: FakeQueueService, folder: Path, address: str, steps: Sequence[str]) -> None:
    fake.create_queue("example-orders")
    sent = 0
    for step in steps:
        fake.put_many("example-orders", [f"order {sent + i}" for i in range(30)])
        sent += 30
        assert not lived(fake, folder, address, step), f"not killed at {step}"
        fake.clock.advance(3_600)
    while fake.count("example-orders"):
        assert lived(fake, folder, address, "")
        fake.clock.advance(3_600)
    assert bodies(address) == Counter(f"order {i}" for i in range(sent))


@pytest.mark.parametrize(
    "steps", [("amid", "committed"), pytest.param(6 * STEPS, marks=pytest.mark.long)], ids=len
)
def test_kills_within_a_transaction_cost_no_row_and_double_none(
    fake: FakeQueueService, tmp_path: Path, address: str, steps: Sequence[str]
) -> None:
    killed(fake, tmp_path, address, steps)


def test_into_postgres(
    main: Callable[[str], Path],
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("DATABASE_URL", address)
    main("into_postgres")
    assert "(50,)" in capsys.readouterr().out
