"""docs/cookbook.md: Spark's own `spark-pipelines` runs a table from a queue, and a sink."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

from .test_docs_examples import examples
from .test_stream import PATIENCE_S

REPOSITORY = Path(__file__).resolve().parents[2]
HOME = Path(pyspark.__file__).parent
BEGIN = "## Declarative pipelines"
"""Where the page has them."""


def project(folder: Path, code: str) -> None:
    """The files of the page, in this folder, with this code of tables and flows."""
    page = (REPOSITORY / "docs" / "cookbook.md").read_text(encoding="utf-8")
    page = page[page.index(BEGIN) :]
    (spec,) = re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    settings = re.findall(r"^    (spark\..+)\n", page, re.MULTILINE)
    settings += ["spark.ui.enabled false", "spark.sql.shuffle.partitions 2"]
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text("\n".join(settings))
    (folder / "transformations").mkdir()
    storage = f"file://{folder}/storage"
    (folder / "spark-pipeline.yml").write_text(spec.replace("file:///pipelines/orders", storage))
    (folder / "transformations" / "code.py").write_text(code)


def orders(**options: str) -> str:
    """The pipeline of the page. options: of the source, beside the page's."""
    (code,) = examples("docs/cookbook.md", begin=BEGIN)
    more = "".join(f'.option("{name}", "{value}")' for name, value in options.items())
    return code.replace(".load()", f"{more}.load()")


def update(folder: Path, fake: FakeQueueService) -> subprocess.CompletedProcess[str]:
    """One update of the pipeline."""
    done = subprocess.run(
        [str(HOME / "bin" / "spark-pipelines"), "--remote", "local[2]", "run"],
        env={
            **os.environ,
            "AZURE_STORAGE_CONNECTION_STRING": fake.connection_string,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert fake.key not in done.stdout + done.stderr
    return done


def run(folder: Path, fake: FakeQueueService) -> str:
    """The same; it ends well. Returns what it printed."""
    done = update(folder, fake)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed[-5000:]
    return printed


def test_a_table_from_a_queue_and_a_sink_behind_it(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path
) -> None:
    for queue in ("orders", "answers"):
        fake.create_queue(queue)
    fake.put_many("orders", [f"order {number}" for number in range(40)])
    project(tmp_path, orders())

    first = run(tmp_path, fake)

    assert "orders" in first
    assert fake.count("orders") == 0, "deleted at the end of the run"
    rows = spark.read.parquet(f"{tmp_path}/spark-warehouse/orders").collect()
    assert sorted(row.body for row in rows) == sorted(f"order {number}" for number in range(40))
    sent = sorted(view.text for view in fake.messages("answers"))
    assert sent == sorted(f"taken: order {number}" for number in range(40))

    fake.put(queue="orders", text="order 40")
    run(tmp_path, fake)

    assert fake.count("orders") == 0
    assert spark.read.parquet(f"{tmp_path}/spark-warehouse/orders").count() == 41
    assert fake.count("answers") == 41, "each row of the table was sent once"


def test_a_table_whose_tasks_lease(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path
) -> None:
    for queue in ("orders", "answers"):
        fake.create_queue(queue)
    log = {"writeAheadLog": f"file:{tmp_path}/log", "deleteAfter": "log"}
    project(tmp_path, orders(leaseOn="executors", **log))

    for part in (1, 2):
        fake.put_many("orders", [f"order {part} {number}" for number in range(20)])
        run(tmp_path, fake)
        assert fake.count("orders") == 0

    rows = spark.read.parquet(f"{tmp_path}/spark-warehouse/orders").collect()
    assert len({row.body for row in rows}) == len(rows) == 40
    assert fake.count("answers") == 40


CDC = """
@dp.temporary_view
def changes():
    return spark.readStream.table("orders").selectExpr("body AS path", "message_id AS sequencer")


dp.create_streaming_table("files")
dp.create_auto_cdc_flow("files", "changes", keys=["path"], sequence_by="sequencer")
"""


def test_auto_cdc_into_parquet_is_refused_before_anything_is_taken(
    fake: FakeQueueService, tmp_path: Path
) -> None:
    for queue in ("orders", "answers"):
        fake.create_queue(queue)
    fake.put_many("orders", ["a", "b"])
    project(tmp_path, orders() + CDC)

    done = update(tmp_path, fake)

    assert done.returncode != 0
    assert "AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE" in done.stdout + done.stderr
    assert fake.requests["dequeue"] == 0
    assert fake.visible("orders") == 2
