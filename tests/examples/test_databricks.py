"""The notebooks for Databricks, cell by cell, and the bundle that runs them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_azqueue.testing import FakeQueueService

from .databricks import BREAK, HEAD, Dbutils, cells, execute, magic

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "databricks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))
BUNDLE = yaml.safe_load((FOLDER / "databricks.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.startswith(HEAD)
    assert (magic(cells(path)[0]) or "").startswith("%md")
    assert text.count("# COMMAND") == text.count(BREAK)
    for cell in cells(path):
        if magic(cell) is None:
            compile(cell, path.name, "exec")


def test_the_job_installs_the_wheel_first() -> None:
    (pip,) = [
        text for cell in cells(FOLDER / "orders_job.py") if "%pip" in (text := magic(cell) or "")
    ]

    assert re.fullmatch(r'%pip install /Volumes/\S+\.whl "azure-storage-blob>=[\d.]+"', pip)


@pytest.fixture
def table(spark: SparkSession):
    yield "orders_of_the_notebook"
    spark.sql("DROP TABLE IF EXISTS orders_of_the_notebook")


def test_the_job_reads_what_is_there_and_goes_on_in_its_next_run(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, table: str
) -> None:
    fake.create_queue("orders")
    widgets = {"table": table, "volume": str(tmp_path)}
    secrets = {("shop", "queues"): fake.connection_string}
    said = []

    for bodies in (['{"order_id": 1, "quantity": 2}', "no order"], ['{"order_id": 3}']):
        fake.put_many("orders", bodies)
        _, value = execute(FOLDER / "orders_job.py", spark=spark, dbutils=Dbutils(widgets, secrets))
        said.append(value)

    assert said == ["2", "1"]
    assert fake.count("orders") == 0
    rows = {row.body: (row.order_id, row.quantity) for row in spark.table(table).collect()}
    assert rows == {
        '{"order_id": 1, "quantity": 2}': (1, 2),
        "no order": (None, None),
        '{"order_id": 3}': (3, None),
    }
    assert (tmp_path / "orders" / "checkpoint" / "offsets").is_dir()


def test_with_a_service_credential_no_secret_is_asked_for(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, table: str
) -> None:
    widgets = {
        "credential": "shop-queues",
        "account": fake.url.replace("http:", "https:"),  # a token goes nowhere else
        "table": table,
        "volume": str(tmp_path),
    }

    with pytest.raises(Exception, match="credential=databricks works on Databricks only"):
        execute(FOLDER / "orders_job.py", spark=spark, dbutils=Dbutils(widgets, {}))


@pytest.fixture
def pipelines(monkeypatch: pytest.MonkeyPatch) -> dict:
    """`pyspark.pipelines`, whose `table(name=, comment=)` notes the functions."""
    tables: dict = {}
    module = ModuleType("pyspark.pipelines")

    def table(*, name: str, comment: str):
        return lambda function: tables.setdefault(name, function)

    module.table = table  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(sys.modules["pyspark"], "pipelines", module, raising=False)
    return tables


def test_the_pipeline_has_streaming_tables_of_the_queue(
    spark: SparkSession, pipelines: dict
) -> None:
    for name, value in BUNDLE["resources"]["pipelines"]["orders"]["configuration"].items():
        spark.conf.set(name, resolved(value))
    execute(FOLDER / "orders_pipeline.py", spark=spark)
    spark.sql("CREATE TABLE orders_raw (message_id STRING, body STRING) USING parquet")
    try:
        raw, orders = pipelines["orders_raw"](), pipelines["orders"]()
    finally:
        spark.sql("DROP TABLE orders_raw")

    assert raw.isStreaming
    assert raw.columns == ["message_id", "insertion_time", "body"]
    assert orders.isStreaming
    assert orders.columns == ["message_id", "order_id", "quantity"]


def resolved(text: str) -> str:
    """A value of the bundle with its variables put in."""
    return re.sub(r"\$\{var\.(\w+)}", lambda found: BUNDLE["variables"][found[1]]["default"], text)


def test_the_bundle_names_notebooks_widgets_and_settings_that_exist() -> None:
    (task,) = BUNDLE["resources"]["jobs"]["orders"]["tasks"]
    job = (FOLDER / task["notebook_task"]["notebook_path"]).read_text(encoding="utf-8")
    pipeline = BUNDLE["resources"]["pipelines"]["orders"]
    source = (FOLDER / pipeline["libraries"][0]["notebook"]["path"]).read_text(encoding="utf-8")
    variables = set(re.findall(r"\$\{var\.(\w+)}", str(BUNDLE)))

    widgets = set(re.findall(r'widgets\.text\("(\w+)"', job))
    assert set(task["notebook_task"]["base_parameters"]) <= widgets
    assert widgets == set(re.findall(r'widgets\.get\("(\w+)"', job))
    assert set(re.findall(r'conf\.get\("([\w.]+)"', source)) == set(pipeline["configuration"])
    assert variables == BUNDLE["variables"].keys()


def test_one_run_at_a_time_and_enough_starts_to_find_a_poison_message() -> None:
    job = BUNDLE["resources"]["jobs"]["orders"]
    text = (FOLDER / "orders_job.py").read_text(encoding="utf-8")
    found = re.search(r'"maxDequeueCount", "(\d+)"', text)

    assert job["max_concurrent_runs"] == 1
    assert found
    assert job["tasks"][0]["max_retries"] > int(found[1]) + 1
