"""The audit of `make soak CHAIN=1`: whatever is not in the table once is told."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SENT = {"a": "A", "b": "B"}
BOTH = [("a", "A"), ("b", "B")]


@pytest.fixture
def audited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Audits rows of committed files, one file for each list."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "soak"))
    import chain_audit
    from targets import Middle

    table = tmp_path / "a table"

    def run(*files: list[tuple[str, str]], hidden: int = 0, told: str = "") -> Any:
        (table / "_spark_metadata").mkdir(parents=True)
        for number, rows in enumerate(files):
            path = table / f"part-{number}.parquet"
            columns = dict(zip(("id", "body"), map(list, zip(*rows, strict=True)), strict=True))
            pq.write_table(pa.table(columns), path)
            entry = json.dumps({"path": path.as_uri(), "action": "add"})
            (table / "_spark_metadata" / f"{number}").write_text(f"v1\n{entry}")
        (tmp_path / "told").write_text(told)
        return chain_audit.audit_chain(SENT, table, Middle(hidden, 0), tmp_path / "told")

    yield run
    for name in ("chain_audit", "table", "targets"):
        sys.modules.pop(name, None)


def test_each_message_once_is_good(audited: Callable[..., Any]) -> None:
    assert audited(BOTH).good


@pytest.mark.parametrize(
    ("files", "found"),
    [
        pytest.param([BOTH, BOTH[:1]], "twice", id="again"),
        pytest.param([BOTH[:1]], "lost", id="lost"),
        pytest.param([[BOTH[0], ("b", "X")]], "altered", id="altered"),
        pytest.param([[*BOTH, ("c", "C")]], "foreign", id="never sent"),
    ],
)
def test_what_is_not_there_once_is_not_good(
    audited: Callable[..., Any], files: list[list[tuple[str, str]]], found: str
) -> None:
    findings = audited(*files)
    assert not findings.good
    assert len(getattr(findings, found)) == 1
    assert list(findings.stories.values()) == [f"    {found}"]


def test_files_that_spark_did_not_commit_do_not_count(
    audited: Callable[..., Any], tmp_path: Path
) -> None:
    table = tmp_path / "a table"
    table.mkdir()
    pq.write_table(pa.table({"id": ["a"], "body": ["A"]}), table / "of-a-killed-task.parquet")
    assert audited(BOTH).good


def test_what_the_sink_told_is_added_up(audited: Callable[..., Any]) -> None:
    line = {"rows": "2", "transaction": "write", "abandoned": "3", "vanished": "0", "expired": "0"}
    told = [line, line | {"transaction": "show", "abandoned": "1"}, {"rows": "2"}]
    findings = audited(BOTH, hidden=5, told="\n".join(map(json.dumps, told)))
    assert (findings.told["write"], findings.told["show"], findings.told["abandoned"]) == (1, 1, 4)
    assert findings.hidden == 5
