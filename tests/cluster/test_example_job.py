"""examples/cluster: the job, by spark-submit on a cluster, with its log in blobs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
from processes import PATIENCE_S
from programs import Programs
from searching import holders
from standalone import Cluster

from spark_azqueue.testing import FakeQueueService
from spark_azqueue.testing.blobs import FakeBlobService

JOB = Path(__file__).parents[2] / "examples" / "cluster" / "many_queues_job.py"
QUEUES = 6


def test_many_queues_by_spark_submit(
    cluster: Cluster,
    installed: Path,
    programs: Programs,
    fake: FakeQueueService,
    queue: str,
    tmp_path: Path,
) -> None:
    sent: Counter[tuple[str, str]] = Counter()
    for number in range(QUEUES):
        name = f"{queue}-{number}"
        fake.create_queue(name)
        bodies = [f"m{each}" for each in range(10 + number)]
        fake.put_many(name, bodies)
        sent.update((name, body) for body in bodies)
    rows = tmp_path / "rows"
    with FakeBlobService() as blobs:
        program = programs.submit(
            cluster,
            installed,
            *(JOB, "--queues", f"{queue}-*", "--log", "blob:logs/orders", "--slots", 3),
            *("--rows", rows, "--checkpoint", tmp_path / "checkpoint"),
            conf={},
            AZURE_STORAGE_CONNECTION_STRING=fake.connection_string,
            LOG_CONNECTION_STRING=f"AccountName=a;AccountKey=a2V5;BlobEndpoint={blobs.url}",
        )
        assert program.process.wait(PATIENCE_S) == 0, program.said()[-5000:]
        slots = {
            name.rpartition("-")[2] for name in blobs.names("logs/orders/slots/") if "-s" in name
        }
    assert slots == {"s0000", "s0001", "s0002"}
    found = [pq.read_table(each).to_pylist() for each in rows.glob("*.parquet")]
    assert Counter((row["queue"], row["body"]) for table in found for row in table) == sent
    assert sum(fake.count(f"{queue}-{number}") for number in range(QUEUES)) == 0
    for folder in (tmp_path, cluster.folder):
        assert holders(folder, fake.key) == []
