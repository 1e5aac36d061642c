"""A Spark Connect server of this Python's Spark, in a session of processes of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)")
PATIENCE_S = 240
HERE = Path(__file__).resolve().parent
LOGGING = HERE.parents[1] / "conf" / "log4j2.properties"
INFO = "rootLogger.level = info"

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.structuredLogging.enabled": "false",
}


def clients_environment() -> dict[str, str]:
    """This environment without what would lead a client to our Spark or our package."""
    ours = ("SPARK", "PYTHON")
    return {name: value for name, value in os.environ.items() if not any(w in name for w in ours)}


def run_client(
    python: Path, script: str, address: str, *arguments: str | Path, **environment: str
) -> tuple[Any, str]:
    """Run a script of this folder against a server. Returns its result, and all that it said."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [str(python), str(HERE / script), address, *map(str, arguments)],
            env={**clients_environment(), **environment},
            cwd=elsewhere,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


@contextlib.contextmanager
def serving(folder: Path, settings: Mapping[str, str], *arguments: str) -> Iterator[str]:
    """Run a server on a free port of 127.0.0.1; yield its address. Its log is `folder/log`."""
    spec = importlib.util.find_spec("pyspark")
    assert spec
    assert spec.submodule_search_locations
    home = Path(spec.submodule_search_locations[0])
    conf = [
        word for pair in (SETTINGS | {**settings}).items() for word in ("--conf", "=".join(pair))
    ]
    logging = folder / "log4j2.properties"  # the shipped one, but at level info
    logging.write_text(LOGGING.read_text().replace("rootLogger.level = warn", INFO))
    conf += ["--conf", f"spark.driver.extraJavaOptions=-Dlog4j2.configurationFile=file:{logging}"]
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-submit"), *arguments, *conf, "--class", SERVER_CLASS],
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
