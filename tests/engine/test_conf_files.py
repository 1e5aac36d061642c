"""conf/: one start of Spark with both files. They work, and hide what they are to hide."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark

CONF = Path(__file__).resolve().parents[2] / "conf"
KEY = "c2VjcmV0LWtleS1vZi1hLXRlc3Q="

PROGRAM = f"""
import json
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
print("KNOWN", json.dumps([row.key for row in spark.sql("SET -v").collect()]))
print("CHECKPOINT", spark.conf.get("spark.sql.streaming.checkpointLocation"))
stream = spark.readStream.format("azqueue").option("queue", "orders")
stream.option("secret.connectionString", "AccountName=shop;AccountKey={KEY}").load().explain(True)
tasks = "org.apache.spark.scheduler.TaskSetManager"
tasks = spark._jvm.org.apache.logging.log4j.LogManager.getLogger(tasks)
tasks.warn("Stage 7 contains a task of very large size (1489 KiB).")
tasks.warn("Lost task 0.0 (of a test)")
spark.stop()
"""

# Settings that work and that Spark keeps out of its own list.
INTERNAL = {
    "spark.sql.streaming.minBatchesToRetain",  # on 4.0 and 4.1
    "spark.sql.streaming.pollingDelay",
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled",
}


def names() -> list[str]:
    lines = (CONF / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip() and line[0] != "#"]


def test_spark_takes_both_files_and_hides_what_is_secret(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    logging = CONF / "log4j2.properties"
    done = subprocess.run(
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--properties-file", str(CONF / "spark-defaults.conf")),
            *("--conf", "spark.ui.enabled=false"),
            *("--driver-java-options", f"-Dlog4j2.configurationFile=file:{logging}"),
            str(program),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "CHECKPOINT abfss://checkpoints@" in done.stdout
    found = re.search("KNOWN (.*)", done.stdout)
    assert found
    streaming = {name for name in names() if name.startswith("spark.sql.")}
    assert streaming - INTERNAL <= set(json.loads(found[1])), "a name that Spark does not know"
    assert re.search(r"connectionstring\W+\*+\(redacted\)", done.stdout, re.IGNORECASE), done.stdout
    assert KEY not in done.stdout + done.stderr
    assert "WARN TaskSetManager: Lost task" in done.stderr
    assert not re.search(r" (WARN|ERROR) (?!.*of a test)", done.stderr), done.stderr
