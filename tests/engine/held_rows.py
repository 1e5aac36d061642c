"""What jobs that tests kill share: a session, maybe with Delta, and rows that can be held."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",  # 50 small tasks otherwise
}


def session(master: str, conf: Mapping[str, str]) -> SparkSession:
    """Make a session. The variable JARS names a folder with Delta's jars, if a table is Delta's."""
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    more = {}
    if jars := os.environ.get("JARS"):
        more = DELTA | {"spark.jars": ",".join(str(jar) for jar in Path(jars).glob("*.jar"))}
    for name, value in {**conf, **more}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def passing(
    folder: Path, plant: str | None = None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Pass rows on, but not while a file `hold` is in the folder. plant: a text for stderr."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if plant:
                print("worker", plant, file=sys.stderr)
            (folder / f"holding-{os.getpid()}").touch()
            while (folder / "hold").exists():
                time.sleep(0.05)
            yield batch

    return pass_on
