"""docs/pipelines.md: a live list of files, into a table with Spark's row-level operations.

No connector for Spark 4.2 has such tables yet, so it is Spark's own, from its tests. It is gone
when the run is over, so a view of the same run writes down what it has.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pyspark
from engine.test_docs_examples import examples
from engine.test_pipelines import project, run
from pyarrow import parquet
from storage_events import BLOB, Event

from spark_azqueue.testing import FakeQueueService

JAR = Path(__file__).resolve().parents[2] / "jars" / "tests" / "spark-catalyst.jar"
CATALOG = "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"
WRITTEN_DOWN = """

@dp.materialized_view
def written_down():
    return spark.read.table("lake.shop.files").select("path", "size", "etag")
"""


def event(path: str, happened: str, sequencer: str, size: int, container: str = "landing") -> str:
    found = Event(
        f"Microsoft.Storage.Blob{happened}",
        f"/blobServices/default/containers/{container}/blobs/{path}",
        {
            "url": f"{BLOB}/{container}/{quote(path)}",
            "contentLength": size,
            "eTag": f"0x{sequencer}",
            "sequencer": sequencer,
        },
    )
    return json.dumps(found.event_grid())


def test_a_live_list_of_files(fake: FakeQueueService, tmp_path: Path) -> None:
    assert pyspark.__version__.startswith("4.2.")
    project(tmp_path, examples("docs/pipelines.md")[1] + WRITTEN_DOWN)
    with (tmp_path / "conf" / "spark-defaults.conf").open("a") as file:
        file.write(f"\nspark.driver.extraClassPath {JAR}\nspark.sql.catalog.lake {CATALOG}\n")
    fake.create_queue("file-events")
    fake.put_many(
        "file-events",
        [
            event("a.csv", "Created", "01", 1),
            event("a.csv", "Created", "03", 3),
            event("a.csv", "Created", "02", 2),  # late
            event("in/b c.csv", "Created", "04", 4),
            event("in/b c.csv", "Deleted", "05", 0),
            event("c.csv", "Deleted", "05", 0),
            event("c.csv", "Created", "04", 4),  # later than its end
            base64.b64encode(event("d.csv", "Created", "01", 5).encode()).decode(),
            event("e.csv", "TierChanged", "01", 6),
            event("f.csv", "Created", "01", 7, container="other"),
            "no event",
            "[" * 20_000,
        ],
    )

    run(tmp_path, fake)

    assert fake.count("file-events") == 0
    rows = parquet.read_table(tmp_path / "spark-warehouse" / "written_down").to_pylist()
    assert {row["path"]: (row["size"], row["etag"]) for row in rows} == {
        "a.csv": (3, "0x03"),
        "d.csv": (5, "0x01"),
    }
