"""Plans of earlier releases stay readable: as values, and by a query that goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.commands.doctor.log_checks import examine_log
from spark_azqueue.journal.file_store import FileStore
from spark_azqueue.options.parse import source_config
from spark_azqueue.service.names import EXECUTORS
from spark_azqueue.source.executors.folder import PlanFolder
from spark_azqueue.source.executors.names import START
from spark_azqueue.source.executors.plan import Plan
from spark_azqueue.testing import FakeQueueService

from .going_on import copied, go_on

FOLDERS = Path(__file__).parent / "executors"

# What each release's plans gave: queue and body of each message.
PLANS = {
    "0.1": [
        [("orders", "order 0 ü"), ("orders", "order 1 ü"), ("orders", "order 2 ü")],
        [("orders", "order 3 ü"), ("returns", "return 0")],
    ]
}
PLANS["0.1-marks"] = PLANS["0.1"]  # and marks of tasks that were about to dequeue


def test_every_golden_folder_is_listed() -> None:
    assert {path.name for path in FOLDERS.iterdir()} == {*PLANS}


@pytest.mark.core
@pytest.mark.parametrize("release", PLANS)
def test_offsets_and_slots_are_read_as_they_were_meant(release: str) -> None:
    golden = FOLDERS / release
    folder = PlanFolder(FileStore(str(golden / "log"), EXECUTORS), "fakeaccount")
    assert folder.identify()
    before = START
    for number, messages in enumerate(PLANS[release]):
        text = (golden / "checkpoint" / "offsets" / f"{number}").read_text().splitlines()[-1]
        plan = Plan.from_json(json.loads(text), account="fakeaccount")
        assert json.loads(text) == plan.to_json()
        assert folder.following(before) == plan
        before = plan.id
        found = []
        for slot in range(len(plan.slots)):
            stands, settled = folder.segment(plan, slot), folder.settled(plan, slot)
            assert stands
            assert settled
            assert (settled.messages, settled.pending) == (len(stands[0].received), ())
            found += [(each.queue.name, each.text) for each, _ in stands[0].received]
        assert sorted(found) == messages


@pytest.mark.parametrize("release", PLANS)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "unfinished"])
def test_a_query_goes_on_from_it(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, release: str, committed: bool
) -> None:
    checkpoint, log = copied(FOLDERS / release, tmp_path, None if committed else 1)
    for queue in ("orders", "returns"):
        fake.create_queue(queue)
    fake.put("orders", "new")
    options = {"writeAheadLog": f"file:{log}", "deleteAfter": "log", "leaseOn": "executors"}

    rows = go_on(spark, fake, checkpoint, **options)

    again = {} if committed else {1: ["order 3 ü", "return 0"]}
    assert {number: sorted(bodies) for number, bodies in rows.items()} == again | {2: ["new"]}
    assert fake.count("orders") == 0

    account = {"secret.connectionString": fake.connection_string, "queue": "orders,returns"}
    config = source_config(account | options, {})
    assert config.write_ahead_log
    told = [each.text for each in examine_log(config, config.write_ahead_log)]
    assert any("holds batches 1 to 3" in text for text in told), told
    assert any("batch 3 has 1 slots; 1 gave something" in text for text in told), told
