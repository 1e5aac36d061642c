"""Spark Connect: the connector on the server alone, a client with Spark's client package alone."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_azqueue.testing import FakeQueueService

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / ".matrix" / "client" / "bin" / "python"
SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)")
PATIENCE_S = 240


@pytest.fixture(scope="session")
def client() -> Path:
    if not CLIENT.exists():
        missing = "no Connect client in .matrix/client: run `make .matrix/client/.installed`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return CLIENT


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server on a free port of 127.0.0.1, with the connector in its Python."""
    folder = tmp_path_factory.mktemp("server")
    spec = importlib.util.find_spec("pyspark")
    assert spec
    assert spec.submodule_search_locations
    home = Path(spec.submodule_search_locations[0])
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "INFO",
        "spark.log.structuredLogging.enabled": "false",
    }
    arguments = [word for item in settings.items() for word in ("--conf", "=".join(item))]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), *arguments, "--class", SERVER_CLASS],
            env={
                **os.environ,
                "SPARK_HOME": str(home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            cwd=folder,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        end = time.monotonic() + PATIENCE_S
        while not (found := STARTED.search(log.read_text(errors="replace"))):
            assert process.poll() is None, log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{found[1]}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_client_without_the_connector_uses_source_and_sink(
    client: Path, server: str, fake: FakeQueueService, queue: str, tmp_path: Path
) -> None:
    other = f"{queue}-other"
    for name in (queue, other):
        fake.create_queue(name)

    done = subprocess.run(
        [str(client), str(HERE / "client.py"), server, str(tmp_path), queue, other],
        env={
            **{name: value for name, value in os.environ.items() if "SPARK" not in name},
            "TEXT": fake.connection_string,
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["ours"] is False
    assert seen["peeked"] == 20
    assert seen["columns"][:3] == ["message_id", "body", "queue"]
    assert seen["bodies"] == sorted(f"m{i}" for i in range(20))
    assert "unknown option 'quue'; did you mean 'queue'?" in seen["error"]
    assert (fake.count(queue), fake.count(other)) == (0, 0)  # settled, on Spark 4.2 and newer
    assert fake.key not in done.stdout + done.stderr
