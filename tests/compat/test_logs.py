"""Write-ahead logs of earlier releases stay readable: as values, and by a query that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.source.log.log import WriteAheadLog
from spark_azqueue.source.log.progress import LogProgress
from spark_azqueue.source.log.segment import decode_segment
from spark_azqueue.source.log.state import LogOffset
from spark_azqueue.testing import FakeQueueService

from .going_on import copied, go_on

LOGS = Path(__file__).parent / "logs"

# What each release's segments hold, in order: queue and body of each message, and the partitions.
SEGMENTS = {
    "0.1": [
        ([("orders", "order 0 ü"), ("orders", "order 1 ü"), ("orders", "order 2 ü")], (2, 1)),
        ([("returns", "return 0"), ("orders", "order 3 ü")], (2,)),
    ]
}


WITH_A_LIST = "0.1-pending"
"""As 0.1, and a third batch that Spark has not named, with a list of pending deletes."""


def test_every_golden_log_is_listed() -> None:
    assert {path.name for path in LOGS.iterdir()} == {*SEGMENTS, WITH_A_LIST}


@pytest.mark.core
def test_a_list_of_pending_deletes_is_read_as_it_was_meant() -> None:
    folder = LOGS / WITH_A_LIST / "log"
    log = WriteAheadLog(FileStore(str(folder)), "fakeaccount", 100)
    assert log.identify()

    progress = log.survey().progress

    assert len(progress.pending) == 131
    assert {each.fingerprint for each in progress.pending} == {7, *range(20, 150)}
    assert progress.began == (0, 1)
    assert (progress.hidden, progress.hidden_until) == (3, 1795262100)
    assert progress.has_ended
    header = decode_segment((folder / "seg/000000000003").read_bytes()).header
    assert header.progress.pending == ()
    assert header.progress.pending_list


@pytest.mark.core
@pytest.mark.parametrize("release", SEGMENTS)
def test_offsets_segments_and_marks_are_read_as_they_were_meant(release: str) -> None:
    folder = LOGS / release
    identity = json.loads((folder / "log" / "log.json").read_text().splitlines()[0])
    for number, (messages, cut) in enumerate(SEGMENTS[release], 1):
        segment = decode_segment((folder / f"log/seg/{number:012d}").read_bytes())
        assert [(each.queue.name, each.text) for each in segment.messages] == messages
        assert (segment.header.cut, segment.header.log) == (cut, identity["log"])
        text = (folder / f"checkpoint/offsets/{number - 1}").read_text().splitlines()[-1]
        offset = LogOffset.from_json(json.loads(text), account="fakeaccount")
        assert (offset.number, offset.log) == (number, identity["log"])
        assert segment.digest.startswith(offset.segment)
        assert json.loads(text) == offset.to_json()
    (mark,) = (folder / "log" / "marks").iterdir()
    progress = LogProgress.from_mark(mark.read_bytes(), account="fakeaccount")
    assert (progress.committed, progress.done, progress.pending) == (2, 2, ())


@pytest.mark.parametrize("release", [*SEGMENTS, WITH_A_LIST])
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "unfinished"])
def test_a_query_goes_on_from_it(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, release: str, committed: bool
) -> None:
    checkpoint, log = copied(LOGS / release, tmp_path, None if committed else 1)
    for queue in ("orders", "returns"):
        fake.create_queue(queue)
    fake.put("orders", "new")

    rows = go_on(spark, fake, checkpoint, writeAheadLog=f"file:{log}")

    again = {} if committed else {1: ["return 0", "order 3 ü"]}
    ahead = {2: ["order 4 ü"], 3: ["new"]} if release == WITH_A_LIST else {2: ["new"]}
    assert rows == again | ahead
    assert fake.count("orders") == 0
