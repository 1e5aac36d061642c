"""docs/delivery.md: MERGE on message_id keeps each message once; a transaction's version does not.

With a write-ahead log, Delta's own sink does. AZQUEUE_TEST_KILLS: how many kills in a row between
Delta's commit and Spark's (default: 1).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from engine.killing import MODES, KilledQuery, Point, QueriesJob, before_commit, live_and_die
from engine.test_crashes import BODIES, Job
from packed import arrow_pack, in_base64, stream_of

from spark_azqueue.testing import FakeQueueService

REPOSITORY = Path(__file__).resolve().parents[2]
LINE = ".".join(pyspark.__version__.split(".")[:2])
JARS = REPOSITORY / "jars" / LINE
SCRIPT = Path(__file__).with_name("job.py")
KILLS = int(os.environ.get("AZQUEUE_TEST_KILLS", "1"))
PATIENCE_S = 600  # Delta on a busy machine


class DeltaJob(Job):
    script = SCRIPT
    patience_s = PATIENCE_S


@pytest.fixture
def jars(monkeypatch: pytest.MonkeyPatch) -> None:
    if not (JARS / ".fetched").exists():
        missing = f"no jars of Delta for Spark {LINE}: run `make test-delta`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    monkeypatch.setenv("JARS", str(JARS))


@pytest.fixture
def job(jars: None, tmp_path: Path, fake: FakeQueueService, queue: str) -> Iterator[Job]:
    fake.create_queue(queue)
    fake.put_many(queue, BODIES)
    made = DeltaJob(tmp_path, fake, queue)
    yield made
    made.destroy()


def test_the_ten_lines_of_the_readme_into_a_delta_table(jars: None, tmp_path: Path) -> None:
    """The session of the page first, then its ten lines, as pasted in the folder with the jars."""
    page = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    ten, session = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    ((more, read),) = re.findall(r"^Add `(.+?)`, and read by `(.+?)`\.", page, re.MULTILINE)
    (tmp_path / "jars").symlink_to(REPOSITORY / "jars")
    ten = ten.replace('into="./orders"', f'into="./orders", {more}')
    code = session + ten.replace('spark.read.parquet("orders")', read)
    assert more in code
    assert read in code
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code.replace("jars/4.2", f"jars/{LINE}")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] == "300 rows; 0 left"
    assert (tmp_path / "orders" / "_delta_log").is_dir()


@pytest.mark.parametrize(
    ("way", "log", "copies"), [("merge", "", 1), ("txn", "", 2), ("txn", "log", 1)]
)
def test_a_kill_between_deltas_commit_and_sparks(
    job: Job, monkeypatch: pytest.MonkeyPatch, way: str, log: str, copies: int
) -> None:
    monkeypatch.setenv("WAY", way)
    monkeypatch.setenv("LOG", log)
    job.hold()
    job.start()
    job.wait_until_held()  # Delta has committed, Spark has not
    assert list((job.folder / "checkpoint" / "offsets").glob("0"))
    assert not list((job.folder / "checkpoint" / "commits").glob("0"))
    job.destroy()  # kill -9 of everything

    job.release()
    job.start()
    job.wait_until_settled()
    job.end()

    counts = json.loads((job.folder / "counts.json").read_text())
    assert counts == {"n": copies * len(BODIES), "ids": len(BODIES)}


def test_rows_of_packs_are_in_the_table_once(
    jars: None,
    tmp_path: Path,
    fake: FakeQueueService,
    queue: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same kill, with ten rows in each message."""
    for name, value in (("WAY", "txn"), ("LOG", "log"), ("PACKED", "1")):
        monkeypatch.setenv(name, value)
    fake.create_queue(queue)
    parts = [BODIES[start : start + 10] for start in range(0, len(BODIES), 10)]
    batches = (pa.RecordBatch.from_pydict({"body": part}) for part in parts)
    fake.put_many(queue, [in_base64(arrow_pack(stream_of(each))) for each in batches])
    job = DeltaJob(tmp_path, fake, queue)
    try:
        job.hold()
        job.start()
        job.wait_until_held()
        job.destroy()
        job.release()
        job.start()
        job.wait_until_settled()
        job.end()
    finally:
        job.destroy()

    counts = json.loads((job.folder / "counts.json").read_text())
    assert counts == {"n": len(BODIES), "ids": len(parts)}


def test_deltas_own_sink_with_a_log_and_without(
    jars: None, tmp_path: Path, fake: FakeQueueService
) -> None:
    """Delta keeps the number of the batch with its rows, and skips one that it has."""
    job = QueriesJob(tmp_path, fake)
    options = {"maxMessagesPerTrigger": "20", "visibilityTimeout": "6"}
    without = job.query("without-a-log", options, format="delta")
    exact = [job.query(f"{mode}-log", options | log, format="delta") for mode, log in MODES.items()]
    kills: list[dict[KilledQuery, Point]] = [{each: before_commit} for each in exact] * KILLS
    try:
        live_and_die(job, *kills, {without: before_commit})
    finally:
        job.destroy()

    for query in exact:
        assert query.bodies() == sorted(query.sent)
        assert len(query.sent) >= 10 + 40 * KILLS
    found = Counter(without.bodies())
    assert found.keys() == set(without.sent)
    assert Counter(found.values()) == {1: len(without.sent) - 20, 2: 20}, "the killed batch: twice"


def test_the_pages_show_what_is_tested() -> None:
    for name, place in (("merge", "delivery.md"), ("txn", "exactly-once.md")):
        page = (REPOSITORY / "docs" / place).read_text(encoding="utf-8")
        code = re.search(rf"# \[{name}\]\n(.*?)\n+# \[/{name}\]", SCRIPT.read_text(), re.DOTALL)
        assert code
        assert code[1].strip() in page


ABFSS = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

jars = ",".join(str(jar) for jar in Path(sys.argv[1]).glob("*.jar"))
spark = SparkSession.builder.master("local[1]").config("spark.jars", jars)
spark = spark.config("spark.ui.enabled", "false").getOrCreate()
conf = spark.sparkContext._jsc.hadoopConfiguration()
conf.set("fs.azure.account.key.a.dfs.core.windows.net", "a2V5")
conf.set("fs.azure.account.hns.enabled", "false")  # else it would ask the account
conf.set("fs.azure.io.retry.max.retries", "0")
path = spark._jvm.org.apache.hadoop.fs.Path("abfss://c@a.dfs.core.windows.net/x")
print("LOADED", path.getFileSystem(conf).getClass().getName())
spark.stop()
"""


def test_the_abfss_file_system_is_there(job: Job, tmp_path: Path) -> None:
    """It loads with all it needs. No account is asked: there is none on this machine."""
    process = subprocess.Popen(
        [sys.executable, "-c", ABFSS, str(JARS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):  # Java too, if it is still there
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert "LOADED org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem" in said, said[-3000:]
