"""With conf/log4j2.properties a failed batch takes few lines of the log, and tells its cause."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_azqueue.testing import FakeQueueService

ROOT = Path(__file__).resolve().parents[2]
MOST_LINES = 40

PROGRAM = """
import os, sys
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

how, folder, logging = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{logging}")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)

def body(batch):
    for frame in batch:
        raise ValueError("no order: the task says so")

def batch(frame, number):
    raise ValueError("no order: the batch says so")

frame = spark.readStream.format("azqueue").option("queue", "orders").load()
if how == "task":
    writer = frame.mapInPandas(body, "body string").writeStream.format("noop")
else:
    writer = frame.writeStream.foreachBatch(batch)
query = writer.option("checkpointLocation", folder).start()
print("BEGIN", file=sys.stderr, flush=True)
try:
    query.awaitTermination()
except StreamingQueryException:
    pass
else:
    sys.exit("the batch did not fail")
spark.stop()
"""


@pytest.mark.parametrize("how", ["task", "batch"])
def test_a_failed_batch_is_told_in_few_lines(how: str, tmp_path: Path) -> None:
    with FakeQueueService() as service:
        service.create_queue("orders")
        service.put("orders", "no order")
        done = subprocess.run(
            (
                *(sys.executable, "-c", PROGRAM, how),
                *(str(tmp_path / "checkpoint"), str(ROOT / "conf" / "log4j2.properties")),
            ),
            capture_output=True,
            text=True,
            timeout=240,
            env=os.environ
            | {"AZURE_STORAGE_CONNECTION_STRING": service.connection_string}
            | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            check=False,
        )

    assert done.returncode == 0, done.stderr
    lines = done.stderr.partition("BEGIN\n")[2].splitlines()
    assert any(f"ValueError: no order: the {how} says so" in line for line in lines)
    assert len(lines) <= MOST_LINES, done.stderr
