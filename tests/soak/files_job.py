"""The Spark program that is killed: reads new files into a folder, a file for each batch.

    python files_job.py settings.json

A batch that comes again is compared with what it wrote before; if it differs, it says so in a file.
Ends with status 0 when asked to stop (by a file), and at once when its parent is gone.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_azqueue import read_new_files

_PARENT = os.getppid()


def main(settings: dict[str, Any]) -> None:
    """Run the query until somebody asks to stop."""
    output, chance = Path(settings["output"]), random.Random(settings["seed"])
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Few tasks for many small files: there are two cores.
        .config("spark.sql.files.openCostInBytes", "65536")
        .config("spark.sql.sources.parallelPartitionDiscovery.parallelism", "4")
        .config("spark.local.dir", settings["scratch"])
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")

    def each(rows: DataFrame, number: int) -> None:
        found = rows.selectExpr("id", "_metadata.file_name AS file").collect()
        text = json.dumps(sorted([row.id, row.file] for row in found))
        target = output / f"{number:06}.json"
        time.sleep(max(0.0, chance.uniform(-1, 1)))
        if target.exists() and target.read_text() != text:
            (output / f"{number:06}.differs").write_text(text)
        aside = output / f"{number:06}.{os.getpid()}.aside"
        aside.write_text(text)
        aside.rename(target)
        time.sleep(max(0.0, chance.uniform(-1, 1)))

    Path(settings["starting_file"]).touch()
    query = read_new_files(
        spark,
        {"secret.connectionString": settings["connection"], "queue": "arrived"},
        trusted=[*settings["containers"]],
        paths=settings["containers"],
        format="json",
        schema="id INT",
        each=each,
        checkpoint=settings["checkpoint"],
        max_files_per_trigger=1000,
        backfill_interval=float(settings["backfill"]),
        set_aside_queue="arrived-bad",
    )
    stop = Path(settings["stop_file"])
    while not stop.exists() and os.getppid() == _PARENT:
        query.awaitTermination(0.2)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
