"""The notebooks for Databricks, cell by cell, and the bundle that runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from spark_azqueue.options.parse import OPTIONS
from spark_azqueue.running.supervisor import RestartLimits
from spark_azqueue.testing import FakeQueueService

from .databricks import BREAK, HEAD, Dbutils, cells, execute, magic

FOLDER = Path(__file__).resolve().parents[2] / "notebooks" / "databricks"
NOTEBOOKS = sorted(FOLDER.glob("*.py"))
BUNDLE = yaml.safe_load((FOLDER / "databricks.yml").read_text(encoding="utf-8"))
JOB = BUNDLE["resources"]["jobs"]["orders_job"]
PIPELINE = BUNDLE["resources"]["pipelines"]["orders_pipeline"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text.startswith(HEAD)
    assert (magic(cells(path)[0]) or "").startswith("%md")
    assert text.count("# COMMAND") == text.count(BREAK)
    for cell in cells(path):
        if magic(cell) is None:
            compile(cell, path.name, "exec")


def test_no_notebook_installs_a_wheel_of_a_fixed_path() -> None:
    assert not [
        path for path in NOTEBOOKS for cell in cells(path) if cell.startswith("# MAGIC %pip")
    ]


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
        "account": fake.url.replace("http:", "https:"),  # to which no token goes
        "table": table,
        "volume": str(tmp_path),
    }

    with pytest.raises(Exception, match="the token of an identity is sent to those only"):
        execute(FOLDER / "orders_job.py", spark=spark, dbutils=Dbutils(widgets, {}))


class Sessions:
    """A session whose `register` refuses, as that of Spark 4.0 does."""

    def __init__(self, spark: SparkSession, refusal: str) -> None:
        self._spark, self._refusal = spark, refusal
        self.dataSource = self

    def register(self, _: object) -> None:
        raise RuntimeError(self._refusal)

    def __getattr__(self, name: str) -> object:
        return getattr(self._spark, name)


def test_a_format_that_spark_found_itself_is_no_failure(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, table: str
) -> None:
    fake.create_queue("orders")
    fake.put("orders", '{"order_id": 1}')
    dbutils = Dbutils(
        {"table": table, "volume": str(tmp_path)}, {("shop", "queues"): fake.connection_string}
    )
    exists = Sessions(spark, "[DATA_SOURCE_ALREADY_EXISTS] Data source 'azqueue' already exists.")

    assert execute(FOLDER / "orders_job.py", spark=exists, dbutils=dbutils)[1] == "1"
    with pytest.raises(RuntimeError, match="no session"):
        execute(FOLDER / "orders_job.py", spark=Sessions(spark, "no session"), dbutils=dbutils)


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
    for name, value in PIPELINE["configuration"].items():
        spark.conf.set(name, resolved(value))
    secrets = {("shop", "queues"): "AccountName=shop;AccountKey=a2V5"}
    execute(FOLDER / "orders_pipeline.py", spark=spark, dbutils=Dbutils({}, secrets))
    spark.sql("CREATE TABLE orders_received (message_id STRING, body STRING) USING parquet")
    try:
        raw, orders = pipelines["orders_received"](), pipelines["orders_parsed"]()
    finally:
        spark.sql("DROP TABLE orders_received")

    assert raw.isStreaming
    assert raw.columns == ["message_id", "insertion_time", "body"]
    assert orders.isStreaming
    assert orders.columns == ["message_id", "order_id", "quantity"]


def resolved(text: str) -> str:
    """A value of the bundle with its variables put in."""
    return re.sub(r"\$\{var\.(\w+)}", lambda found: BUNDLE["variables"][found[1]]["default"], text)


def test_the_bundle_names_notebooks_widgets_and_settings_that_exist() -> None:
    (task,) = JOB["tasks"]
    job = (FOLDER / task["notebook_task"]["notebook_path"]).read_text(encoding="utf-8")
    source = (FOLDER / PIPELINE["libraries"][0]["notebook"]["path"]).read_text(encoding="utf-8")
    variables = set(re.findall(r"\$\{var\.(\w+)}", str(BUNDLE)))

    widgets = set(re.findall(r'widgets\.text\("(\w+)"', job))
    assert set(task["notebook_task"]["base_parameters"]) <= widgets
    assert widgets == set(re.findall(r'widgets\.get\("(\w+)"', job))
    assert set(re.findall(r'conf\.get\("([\w.]+)"', source)) == set(PIPELINE["configuration"])
    assert variables == BUNDLE["variables"].keys()


def test_one_run_at_a_time_and_enough_starts_to_find_a_poison_message() -> None:
    text = (FOLDER / "orders_job.py").read_text(encoding="utf-8")
    most = next(each.default for each in OPTIONS if each.name == "maxDequeueCount")

    assert JOB["max_concurrent_runs"] == 1
    assert "spark_azqueue.drain(start, " in text
    assert RestartLimits().restarts > most + 8  # with a log


# ── rules of the CLI: of databricks/cli, bundle/config (commit 7bbe285, August 2026) ──────────────


def test_no_two_resources_have_one_key() -> None:
    """validate/unique_resource_keys.go: the key alone is what `bundle run` is given."""
    keys = [key for resources in BUNDLE["resources"].values() for key in resources]

    assert len(keys) == len(set(keys))


def test_a_production_target_has_a_root_path_of_its_own() -> None:
    """mutator/resourcemutator/validate_target_mode.go"""
    targets = BUNDLE["targets"]

    assert targets["prod"]["mode"] == "production"
    assert "current_user" in targets["prod"]["workspace"]["root_path"]
    assert not PIPELINE.get("development")
    assert targets["dev"]["mode"] == "development"
    assert "workspace" not in targets["dev"]  # the default path has the user's name


REQUIRED = {
    "artifacts.*.files[*]": {"source"},
    "bundle": {"name"},
    "resources.jobs.*.job_clusters[*]": {"job_cluster_key"},
    "resources.jobs.*.schedule": {"quartz_cron_expression", "timezone_id"},
    "resources.jobs.*.tasks[*]": {"task_key"},
    "resources.jobs.*.tasks[*].notebook_task": {"notebook_path"},
    "resources.volumes.*": {"catalog_name", "name", "schema_name", "volume_type"},
}
"""internal/validation/generated/required_fields.go: all that is about fields of this bundle."""

ENUMS = {
    "artifacts.*.type": "whl jar",
    "resources.jobs.*.job_clusters[*].new_cluster.data_security_mode": "DATA_SECURITY_MODE_AUTO"
    " DATA_SECURITY_MODE_DEDICATED DATA_SECURITY_MODE_STANDARD LEGACY_PASSTHROUGH"
    " LEGACY_SINGLE_USER LEGACY_SINGLE_USER_STANDARD LEGACY_TABLE_ACL NONE SINGLE_USER"
    " USER_ISOLATION",
    "resources.volumes.*.volume_type": "EXTERNAL MANAGED",
}
"""internal/validation/generated/enum_fields.go: the same."""


def at(path: str) -> list[Any]:
    """What the bundle has at a path: `*` stands for any key, `[*]` for any place in a list."""
    found: list[Any] = [BUNDLE]
    for step in path.replace("[*]", ".[*]").split("."):
        found = [
            each
            for value in found
            for each in (
                value
                if step == "[*]"
                else value.values()
                if step == "*"
                else [value[step]] * (step in value)
            )
        ]
    return found


@pytest.mark.parametrize("path", REQUIRED)
def test_required_fields_are_set(path: str) -> None:
    """validate/required.go"""
    assert at(path)
    assert all(each.get(name) is not None for each in at(path) for name in REQUIRED[path])


@pytest.mark.parametrize("path", ENUMS)
def test_a_field_with_fixed_values_has_one_of_them(path: str) -> None:
    """validate/enum.go"""
    assert at(path)
    assert set(at(path)) <= set(ENUMS[path].split())


def test_every_resource_has_a_value_and_a_key_without_variables() -> None:
    """validate/all_resources_have_values.go, validate/no_variable_reference_in_resource_key.go"""
    kinds = [BUNDLE["resources"], *(each.get("resources", {}) for each in at("targets.*"))]
    resources = [
        (key, value) for kind in kinds for each in kind.values() for key, value in each.items()
    ]

    assert len(resources) == 3
    assert all(value is not None for _, value in resources)
    assert not [key for key, _ in resources if "${" in key]
    assert "${" not in BUNDLE["bundle"]["name"]  # validate/no_interpolation_in_bundle_name.go


def test_a_task_says_on_what_it_runs() -> None:
    """validate/job_task_cluster_spec.go"""
    places = {"job_cluster_key", "environment_key", "existing_cluster_id", "new_cluster"}

    assert all(len(places & task.keys()) == 1 for task in JOB["tasks"])


def test_the_notebooks_are_files_that_are_synchronized() -> None:
    """validate/files_to_sync.go: what is in the folder, and not in a .gitignore."""
    assert "sync" not in BUNDLE
    named = [task["notebook_task"]["notebook_path"] for task in JOB["tasks"]]
    named += [each["notebook"]["path"] for each in PIPELINE["libraries"]]
    assert [(FOLDER / name).is_file() for name in named] == [True, True]
    ignored = subprocess.run(
        ("git", "check-ignore", *named), cwd=FOLDER, capture_output=True, text=True
    )
    if ignored.returncode == 128:
        pytest.skip("this is no clone of the repository")
    assert ignored.stdout == ""


def test_development_mode_pauses_the_schedule_and_production_mode_does_not() -> None:
    """config/mutator/resourcemutator/apply_presets.go: only where no pause_status is written."""
    assert "pause_status" not in JOB["schedule"]
    assert "trigger_pause_status" not in str(BUNDLE["targets"])


def test_two_developers_share_no_schema_and_no_queue() -> None:
    """config/mutator/resourcemutator/apply_presets.go: the names of volumes get no prefix.

    libs/iamutil/user.go: a short name may hold an underscore, which no queue may.
    """
    names = BUNDLE["targets"]["dev"]["variables"]

    assert names["schema"].endswith("_${workspace.current_user.short_name}")
    assert names["queue"].endswith("-${workspace.current_user.domain_friendly_name}")
    assert set(at("resources.volumes.*.schema_name")) == {"${var.schema}"}
    assert PIPELINE["schema"] == "${var.schema}"


def test_a_task_names_a_cluster_that_exists_and_a_single_node_is_marked() -> None:
    """validate/job_cluster_key_defined.go, validate/single_node_cluster.go"""
    clusters = {each["job_cluster_key"]: each["new_cluster"] for each in JOB["job_clusters"]}

    assert {task["job_cluster_key"] for task in JOB["tasks"]} <= clusters.keys()
    for cluster in clusters.values():
        assert cluster["num_workers"] > 0 or (
            cluster["spark_conf"]["spark.databricks.cluster.profile"] == "singleNode"
            and cluster["spark_conf"]["spark.master"].startswith("local")
            and cluster["custom_tags"]["ResourceClass"] == "SingleNode"
        )


def test_the_wheel_is_built_into_the_folder_of_the_bundle_and_installed_from_there() -> None:
    """mutator/translate_paths.go: a local path outside this folder is refused."""
    (artifact,) = BUNDLE["artifacts"].values()
    root = (FOLDER / artifact["path"]).resolve()

    assert (root / "setup.cfg").is_file()
    (out,) = re.findall(r"--outdir (\S+)", artifact["build"])
    (removed,) = re.findall(r"rm -rf ([^&]+) &&", artifact["build"])
    # What else the project keeps in build/ is not the bundle's.
    assert removed.split() == ["build/lib", "build/bdist.*", out]
    assert root / out == FOLDER / "dist"
    assert artifact["files"] == [{"source": "dist/*.whl"}]
    (wheel,) = JOB["tasks"][0]["libraries"]
    assert wheel == {"whl": "./dist/*.whl"}
    assert PIPELINE["environment"]["dependencies"] == ["./dist/*.whl"]


def test_the_job_and_the_pipeline_make_tables_of_different_names() -> None:
    (table,) = re.findall(r"\.(\w+)$", JOB["tasks"][0]["notebook_task"]["base_parameters"]["table"])
    source = (FOLDER / "orders_pipeline.py").read_text(encoding="utf-8")
    made = re.findall(r'@dp\.table\(name="(\w+)"', source)

    assert len(made) == 2
    assert table not in made
