"""Checkpoints of streams that read a log (`readLog`): a later release goes on from them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_azqueue.source.replay.batches import ReplayOffset

HERE = Path(__file__).parent
READERS = {"0.1": [(1, 1), (2, 2)]}
"""For each release the first and the last batch of the log in each micro-batch."""


def test_every_golden_checkpoint_is_listed() -> None:
    assert {path.name for path in (HERE / "readers").iterdir()} == {*READERS}


@pytest.mark.core
@pytest.mark.parametrize("release", READERS)
def test_offsets_are_read_as_they_were_meant(release: str) -> None:
    identity = json.loads((HERE / "logs" / release / "log" / "log.json").read_text().split("\n")[0])
    for number, (first, batch) in enumerate(READERS[release]):
        path = HERE / "readers" / release / "checkpoint" / "offsets" / str(number)
        written = json.loads(path.read_text().splitlines()[-1])
        offset = ReplayOffset.from_json(written)
        assert offset == ReplayOffset(identity["log"], first, batch)
        assert offset.to_json() == written


@pytest.mark.parametrize("release", READERS)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "unfinished"])
def test_a_reader_goes_on_from_it(
    spark: SparkSession, tmp_path: Path, release: str, committed: bool
) -> None:
    shutil.copytree(HERE / "readers" / release / "checkpoint", tmp_path / "checkpoint")
    shutil.copytree(HERE / "logs" / release / "log", tmp_path / "log")
    if not committed:
        (tmp_path / "checkpoint" / "commits" / "1").unlink()
    rows: dict[int, list[str]] = {}

    def take(batch: DataFrame, number: int) -> None:
        rows[number] = sorted(row.body for row in batch.collect())

    query = (
        spark.readStream.format("azqueue")
        .option("readLog", f"file:{tmp_path}/log")
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)

    assert rows == ({} if committed else {1: ["order 3 ü", "return 0"]})
