"""Real Spark by a SAS with a user delegation key, and by one that is replaced in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

PROVIDER = """
import os
from azure.core.credentials import AzureSasCredential


def sas(folder: str) -> AzureSasCredential:
    with open(os.path.join(folder, "sas")) as file:
        return AzureSasCredential(file.read())
"""

JOB = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession

folder, url = Path(sys.argv[1]), sys.argv[2]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
by = {
    "accountUrl": url,
    "sasProvider": f"provider_of_the_test:sas({folder})",
}
orders = spark.readStream.format("azqueue").options(**by, queue="orders").load()
query = (
    orders.select("body").writeStream.format("azqueue").options(**by, queue="answers")
    .option("checkpointLocation", str(folder / "checkpoint")).start()
)
while not (folder / "stop").exists():
    query.awaitTermination(0.1)
query.stop()
spark.stop()
"""

WITHIN_S = 120.0


def test_source_and_sink_by_a_user_delegation_sas(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path
) -> None:
    for name in ("orders", "answers"):
        fake.create_queue(name)
    fake.put_many("orders", [str(number) for number in range(10)])

    def by(queue: str, letters: str) -> dict[str, str]:
        sas = fake.delegated_sas(queue, letters)
        return {"accountUrl": fake.url, "sasToken": sas, "queue": queue}

    query = (
        spark.readStream.format("azqueue")
        .options(**by("orders", "up"))
        .load()
        .select("body")
        .writeStream.format("azqueue")
        .options(**by("answers", "a"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        fake.wait_until(lambda: fake.count("answers") == 10 and not fake.count("orders"), WITHIN_S)
    finally:
        query.stop()

    assert sorted(m.text for m in fake.messages("answers")) == sorted(map(str, range(10)))


def test_a_query_outlives_its_sas(fake: FakeQueueService, tmp_path: Path) -> None:
    for name in ("orders", "answers"):
        fake.create_queue(name)
    (tmp_path / "sas").write_text(fake.sas())
    (tmp_path / "provider_of_the_test.py").write_text(PROVIDER)
    (tmp_path / "job.py").write_text(JOB)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    job = subprocess.Popen(
        [sys.executable, str(tmp_path / "job.py"), str(tmp_path), fake.url],
        env={
            **os.environ,
            "PYTHONPATH": path,
            "AZQUEUE_POLICY": '{"hosts": ["http://127.0.0.1"]}',
        },
    )
    try:
        fake.put("orders", "before")
        fake.wait_until(lambda: fake.count("answers") == 1, WITHIN_S)
        # The SAS that it has is refused from now on; the provider has another one.
        fake.key = "YW5vdGhlciBrZXk="
        (tmp_path / "sas").write_text(fake.sas())
        fake.put("orders", "after")
        fake.wait_until(lambda: fake.count("answers") == 2 and not fake.count("orders"), WITHIN_S)
        assert job.poll() is None, "the query has not failed"
        (tmp_path / "stop").touch()
        assert job.wait(60) == 0
    finally:
        job.kill()
        job.wait()

    assert [m.text for m in fake.messages("answers")] == ["before", "after"]
    assert any(status == 403 for _, status in fake.statuses)
