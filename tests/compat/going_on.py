"""A query that goes on from what an earlier release has left."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService


def copied(golden: Path, folder: Path, uncommitted: int | None) -> tuple[Path, Path]:
    """The checkpoint and the log of a copy, without the commit of that batch."""
    shutil.copytree(golden, folder / "query")
    checkpoint, log = folder / "query" / "checkpoint", folder / "query" / "log"
    if uncommitted is not None:
        (checkpoint / "commits" / f"{uncommitted}").unlink()
    return checkpoint, log


def go_on(
    spark: SparkSession, fake: FakeQueueService, checkpoint: Path, **options: str
) -> dict[int, list[str]]:
    """Run it until nothing is left. Returns the bodies of each batch, as they came."""
    rows: dict[int, list[str]] = {}
    query = (
        spark.readStream.format("azqueue")
        .option("secret.connectionString", fake.connection_string)
        .option("queue", "orders,returns")
        .options(**options)
        .load()
        .writeStream.foreachBatch(
            lambda batch, number: rows.update({number: [row.body for row in batch.collect()]})
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    return rows
