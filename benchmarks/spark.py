"""A local Spark for the benchmarks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
from harness import CORES, DELTA_JARS
from pyspark.sql import SparkSession

LOCAL = f"local[{CORES}]"
CLUSTER = f"local-cluster[{CORES},1,1024]"
"""As many executors of one core each, every one a process of its own, beside the driver's."""


THREE_EXECUTORS = "local-cluster[3,1,1024]"


def delta() -> dict[str, str]:
    """The settings for Delta, which needs the Spark that it is built for (`make jars`)."""
    return {
        "spark.jars": ",".join(str(jar) for jar in DELTA_JARS.glob("*.jar")),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # 50 small tasks otherwise
    }


def session(folder: str, master: str = LOCAL, **settings: str) -> SparkSession:
    """Spark on as many cores as the benchmark has."""
    if master != LOCAL:
        os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # What is defined here must be found by Spark's Python processes, too.
    given = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    os.environ["PYTHONPATH"] = os.pathsep.join([*given, str(Path(__file__).parent)])
    builder = (
        SparkSession.builder.master(master)
        .appName("benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "2g")
    )
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
