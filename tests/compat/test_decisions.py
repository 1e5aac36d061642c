"""What options decided about a logged batch stays decided, whatever they are later.

The golden batch has "order 0 ü", "order 1 !" and "order 2 ü". The first and the last were sent in
base64. It was logged with onUndecodable=permissive, and repeated with `poison`.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

WITH_DECISIONS = "0.1-decisions"
ROWS = ["order 0 ü", "order 2 ü"]
MODES = {"logs": {}, "executors": {"leaseOn": "executors", "deleteAfter": "log"}}


@pytest.mark.parametrize("mode", MODES)
def test_a_repetition_and_a_reader_have_the_rows_that_were_decided(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, mode: str
) -> None:
    shutil.copytree(Path(__file__).parent / mode / WITH_DECISIONS, tmp_path / "query")
    checkpoint, log = tmp_path / "query" / "checkpoint", tmp_path / "query" / "log"
    (checkpoint / "commits" / "0").unlink()
    for queue in ("orders", "returns", "orders-poison"):
        fake.create_queue(queue)
    rows: dict[int, list[str]] = {}

    query = (
        spark.readStream.format("azqueue")
        .option("secret.connectionString", fake.connection_string)
        .option("queue", "orders,returns")
        .option("writeAheadLog", f"file:{log}")
        .options(**MODES[mode])
        .load()
        .writeStream.foreachBatch(
            lambda batch, number: rows.update({number: sorted(row.body for row in batch.collect())})
        )
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)

    assert rows == {0: ROWS}
    assert fake.count("orders-poison") == 0
    read = spark.read.format("azqueue").option("readLog", f"file:{log}").load()
    assert sorted(row.body for row in read.collect()) == ROWS
