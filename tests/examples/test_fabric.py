"""The notebook for Microsoft Fabric, cell by cell, with a stand-in for what Fabric brings."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import spark_azqueue.__main__ as command_line
from spark_azqueue.testing import FakeQueueService

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "fabric" / "orders.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def execute(parameters: dict[str, str], **names: Any) -> dict[str, Any]:
    """Run the cells of code in one namespace. parameters: set after the cell with that tag."""
    for number, cell in enumerate(CELLS):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
            if "parameters" in cell["metadata"].get("tags", []):
                assert set(parameters) <= set(names)
                names.update(parameters)
    return names


@pytest.fixture
def certified(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command line, but for `certify`, which is only noted: tests/contract runs it."""
    calls: list[list[str]] = []
    real = command_line.main

    def main(arguments: list[str]) -> int:
        if arguments[0] != "certify":
            return real(arguments)
        calls.append(arguments)
        return 0

    monkeypatch.setattr(command_line, "main", main)
    return calls


def test_it_certifies_looks_peeks_and_drains(
    spark: SparkSession, fake: FakeQueueService, tmp_path: Path, certified: list[list[str]]
) -> None:
    fake.create_queue("orders")
    fake.put_many("orders", ['{"order_id": 1, "quantity": 2}', "no order"])
    secrets = {("https://shop.vault.azure.net/", "queues"): fake.connection_string}
    credentials = SimpleNamespace(getSecret=lambda vault, secret: secrets[vault, secret])
    parameters = {
        "vault": "https://shop.vault.azure.net/",
        "table": "orders_of_fabric",
        "checkpoint": str(tmp_path / "checkpoint"),
        "log": f"file:{tmp_path}/log",
    }

    try:
        names = execute(
            parameters, spark=spark, notebookutils=SimpleNamespace(credentials=credentials)
        )
        table = spark.table("orders_of_fabric").collect()
    finally:
        spark.sql("DROP TABLE IF EXISTS orders_of_fabric")

    rows = {row.body: (row.order_id, row.quantity) for row in table}
    assert rows == {'{"order_id": 1, "quantity": 2}': (1, 2), "no order": (None, None)}
    assert fake.count("orders") == 0
    assert (names["result"].finished, names["result"].read) == (True, 2)
    assert names["healthy"] == 0
    assert [call[0] for call in certified] == ["certify"]
    assert fake.connection_string in " ".join(certified[0])


def test_without_a_vault_it_asks_for_the_token_of_who_runs_it(
    spark: SparkSession, fake: FakeQueueService, certified: list[list[str]]
) -> None:
    account = fake.url.replace("http:", "https:")  # to which no token goes

    with pytest.raises(Exception, match="the token of an identity is sent to those only"):
        execute({"account": account}, spark=spark, notebookutils=None)

    assert "credential=fabric" in certified[0]


def test_it_is_saved_without_outputs() -> None:
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in CELLS)
