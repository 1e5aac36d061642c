"""A whole run's output is searched for its secrets: plans, logs, events, offsets, checkpoint."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_azqueue.testing import FakeQueueService

PROGRAM = """
import logging, os, sys
logging.basicConfig(level=logging.DEBUG)
logging.getLogger("py4j").setLevel(logging.INFO)  # repeats every call it makes, options too
from pyspark.sql import SparkSession

folder, text, queue = sys.argv[1], os.environ.pop("TEXT"), sys.argv[2]
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true").config("spark.eventLog.dir", folder + "/events")
    .config("spark.eventLog.rolling.enabled", "false").getOrCreate()
)
spark.sparkContext.setLogLevel("INFO")
options = {"secret.connectionString": text, "queue": queue}
spark.range(5).selectExpr("string(id) AS body").write.format("azqueue").mode("append").options(
    **options).save()
spark.read.format("azqueue").options(**options).load().explain(True)
frame = spark.readStream.format("azqueue").options(**options).load()
frame.explain(True)
query = (
    frame.writeStream.format("noop").option("checkpointLocation", folder + "/checkpoint")
    .trigger(availableNow=True).start()
)
query.awaitTermination()
query.explain(True)
print(query.lastProgress)
try:
    bad = spark.readStream.format("azqueue").options(**{**options, "queue": queue + "-none"}).load()
    bad.writeStream.format("noop").start().awaitTermination()
except Exception as error:
    print("EXPECTED", error)
spark.stop()
"""


@pytest.mark.parametrize("kind", ["key", "sas"])
def test_no_secret_shows_anywhere(
    fake: FakeQueueService, queue: str, tmp_path: Path, kind: str
) -> None:
    fake.create_queue(queue)
    if kind == "key":
        text, secret = fake.connection_string, fake.key
    else:
        secret = "dGhpcy1pcy1zZWNyZXQtMTIzNDU2Nzg5MA"
        text = f"QueueEndpoint={fake.url};SharedAccessSignature=sv=2021-12-02&sp=raup&sig={secret}"
    (tmp_path / "events").mkdir()
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), queue],
        env={**os.environ, "TEXT": text, "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-3000:]
    assert "EXPECTED" in output
    assert fake.requests["delete"] == 5

    found = {"output": secret in output}
    for path in tmp_path.rglob("*"):
        if path.is_file():
            found[str(path.relative_to(tmp_path))] = secret.encode() in path.read_bytes()
    assert any(name.startswith("checkpoint") for name in found)
    assert any(name.startswith("events") for name in found)
    assert not [name for name, shows in found.items() if shows]
