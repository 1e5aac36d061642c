"""IngestJob into Delta: kills at the worst point, a new column, and a folder that was restored."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from engine.ingesting import IngestsJob
from engine.killing import before_commit, live_and_die
from test_delta import PATIENCE_S, jars  # noqa: F401 (a fixture)

from spark_azqueue.testing import FakeQueueService

DELTA = """
spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.databricks.delta.snapshotPartitions 1
"""


def test_a_delta_table_has_each_message_once(
    jars: None,  # noqa: F811
    tmp_path: Path,
    fake: FakeQueueService,
) -> None:
    job = IngestsJob(tmp_path, fake)
    options = {"maxMessagesPerTrigger": "20", "visibilityTimeout": "6"}
    query = job.query("sink", options, format="delta", more={"way": "run"})
    try:
        live_and_die(job, {query: before_commit})
    finally:
        job.destroy()
    query.check()

    older = shutil.copytree(query.folder / "checkpoint", tmp_path / "older")
    found = ",".join(map(str, Path(os.environ["JARS"]).glob("*.jar")))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(f"{DELTA}\nspark.jars {found}\n")
    written = {"secret.connectionString": fake.connection_string, "queue": "sink"}
    (tmp_path / "options").write_text("\n".join("=".join(each) for each in written.items()))

    def drain(schema: str, folder: Path = query.folder) -> tuple[int, str]:
        """Run the command."""
        command = [sys.executable, "-m", "spark_azqueue", "ingest", "--drain", "--format", "delta"]
        command += ["--options-file", str(tmp_path / "options"), "--schema", schema]
        command += ["--folder", str(folder), "--into", "./output"]
        done = subprocess.run(
            command,
            cwd=query.folder,
            env={**os.environ, "SPARK_CONF_DIR": str(tmp_path / "conf")},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    query.send(1)
    status, said = drain("order_id BIGINT, note STRING")
    assert status == 0, said[-3000:]
    assert "1 rows and 0 bad messages in 1 batches" in said
    shutil.rmtree(query.folder / "checkpoint")
    shutil.copytree(older, query.folder / "checkpoint")
    query.send(1)
    status, said = drain("order_id BIGINT, note STRING")
    assert (status, "would be lost" in said) == (1, True), said[-3000:]

    for name in ("checkpoint", "log"):  # as if the folder were lost
        shutil.rmtree(query.folder / name)
    (query.folder / "ingest.json").unlink()
    status, said = drain("order_id BIGINT, note STRING")
    assert (status, "this folder is new: rows would be" in said) == (1, True), said[-3000:]
    status, said = drain("order_id BIGINT, note STRING", tmp_path / "other")
    assert (status, "belongs to the job in" in said) == (1, True), said[-3000:]
    assert fake.count("sink") == 1
