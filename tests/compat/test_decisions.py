"""What options decided about a logged batch stays decided, whatever they are later.

The golden batch has "order 0 ü", "order 1 !" and "order 2 ü". The first and the last were sent in
base64. It was logged with onUndecodable=permissive, and repeated with `poison`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

from .going_on import copied, go_on

WITH_DECISIONS = "0.1-decisions"
ROWS = ["order 0 ü", "order 2 ü"]
MODES = {"logs": {}, "executors": {"leaseOn": "executors", "deleteAfter": "log"}}


@pytest.mark.parametrize("mode", MODES)
def test_a_repetition_and_a_reader_have_the_rows_that_were_decided(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, mode: str
) -> None:
    golden = Path(__file__).parent / mode / WITH_DECISIONS
    checkpoint, log = copied(golden, tmp_path, uncommitted=0)
    for queue in ("orders", "returns", "orders-poison"):
        fake.create_queue(queue)

    rows = go_on(spark, fake, checkpoint, writeAheadLog=f"file:{log}", **MODES[mode])

    assert {number: sorted(bodies) for number, bodies in rows.items()} == {0: ROWS}
    assert fake.count("orders-poison") == 0
    read = spark.read.format("azqueue").option("readLog", f"file:{log}").load()
    assert sorted(row.body for row in read.collect()) == ROWS
