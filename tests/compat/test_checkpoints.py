"""Checkpoints of earlier releases stay readable: as values, and by a query that goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_azqueue.errors import CheckpointMismatch
from spark_azqueue.journal.pending import PendingDelete, fingerprint
from spark_azqueue.service.messages import Lease, MessageKey, QueueRef
from spark_azqueue.source.offsets import QueueOffset
from spark_azqueue.testing import FakeQueueService

from .going_on import go_on

CHECKPOINTS = Path(__file__).parent / "checkpoints"

# What each release's query had leased in its last batch.
LEASES = {
    "0.1": (
        ("orders", "ecc1cd6e-eccb-6f9d-047b-2dd979094454", "AgAAAAMAAAAA+/AAMCbG2q553QE="),
        ("orders", "d54d3581-8086-9ada-cdb6-6dcf6a638a61", "AgAAAAMAAAAA+/AAMSbG2q553QE="),
        ("orders", "ad6852ad-2863-a9c0-f1ab-31c97807a604", "AgAAAAMAAAAA+/AAMibG2q553QE="),
        ("returns", "dda3bf15-6ec8-84e5-a018-1d20a0ee3273", "AgAAAAMAAAAA+/AAgPnG2q553QE="),
    )
}
LEASES["0.1-blobs"] = LEASES["0.1-kept"] = LEASES["0.1-report"] = LEASES["0.1"]
LEASES["0.1-pending"] = LEASES["0.1"]

# The blobs that hold bodies of theirs, by message id.
BLOBS = {
    "0.1": {},
    "0.1-blobs": {
        "ecc1cd6e-eccb-6f9d-047b-2dd979094454": "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
        "ad6852ad-2863-a9c0-f1ab-31c97807a604": "00112233445566778899aabbccddeeff",
    },
    "0.1-kept": {},
    "0.1-report": {},
    "0.1-pending": {},
}

# Messages of earlier batches whose deletes were pending: queue, id, text, expiry.
PENDING = {
    "0.1-pending": (
        ("orders", "0f7f1a2b-3c4d-4e5f-8a9b-0c1d2e3f4a5b", "older 0", 253_402_300_799),
        ("orders", "1f7f1a2b-3c4d-4e5f-8a9b-0c1d2e3f4a5b", "older 1", 0),
        ("returns", "2f7f1a2b-3c4d-4e5f-8a9b-0c1d2e3f4a5b", "older 2", 253_402_300_799),
    )
}

KEPT = {"0.1-kept"}
"""Written with deleteOnCommit=false: their messages are never deleted by a later run."""


def last_offset(checkpoint: Path) -> dict[str, object]:
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    value: dict[str, object] = json.loads(newest.read_text().splitlines()[-1])
    return value


def test_every_golden_checkpoint_is_listed() -> None:
    assert {path.name for path in CHECKPOINTS.iterdir() if path.is_dir()} == set(LEASES)


@pytest.mark.core
@pytest.mark.parametrize("release", LEASES)
def test_offsets_are_read_as_they_were_meant(release: str) -> None:
    offset = QueueOffset.from_json(last_offset(CHECKPOINTS / release), account="fakeaccount")
    assert offset.leases == tuple(
        Lease(QueueRef("fakeaccount", queue), *rest) for queue, *rest in LEASES[release]
    )
    assert {lease.message_id: name for lease, name in offset.blobs.items()} == BLOBS[release]
    assert offset.is_deleted_on_commit is (release not in KEPT)
    assert offset.pending == tuple(
        PendingDelete(
            MessageKey(QueueRef("fakeaccount", queue), message), fingerprint(text), expires
        )
        for queue, message, text, expires in PENDING.get(release, ())
    )
    texts = [fingerprint(f"old {at}") for at in range(4)] if release in PENDING else []
    assert list(offset.texts.values()) == texts
    assert offset.leased_s == (1800 if release in KEPT else 0)
    # (Not compared as text: builds of zlib differ, and only what Spark stored has to be equal.)
    assert QueueOffset.from_json(offset.to_json(), account="fakeaccount") == offset


def test_a_future_version_is_refused_in_clear_words() -> None:
    future = json.loads((CHECKPOINTS / "future-version.json").read_text())
    with pytest.raises(CheckpointMismatch, match=r"newer spark-azqueue.*upgrade"):
        QueueOffset.from_json(future, account="fakeaccount")


@pytest.mark.parametrize("release", LEASES)
@pytest.mark.parametrize("committed", [True, False], ids=["committed", "unfinished"])
def test_a_query_goes_on_from_it(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, release: str, committed: bool
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(CHECKPOINTS / release, checkpoint)
    if not committed:
        shutil.rmtree(checkpoint / "commits")
    for queue in ("orders", "returns"):
        fake.create_queue(queue)
        fake.put(queue, f"new in {queue}")
    batches = go_on(spark, fake, checkpoint)

    rows = [body for batch in batches.values() for body in batch]
    assert sorted(rows) == ["new in orders", "new in returns"]
    # The old messages are long gone: each receipt was tried, to delete it or to release it.
    gone = 0 if committed and release in KEPT else 4
    assert fake.statuses["delete" if committed else "update", 404] >= gone
    assert gone or fake.statuses["delete", 404] == 0
    assert fake.count("orders") == fake.count("returns") == 0
