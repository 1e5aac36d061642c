"""The notebooks as they are saved: complete, in order, clean, and telling nothing of a machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))

OF_A_MACHINE = re.compile(r"/(?:home|root|tmp|work|usr|var|opt|Users)/|127\.0\.0\.1|localhost|\x1b")

Cell = dict[str, Any]


def cells(path: Path, kind: str) -> list[Cell]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def outputs(path: Path) -> list[Cell]:
    return [output for cell in cells(path, "code") for output in cell["outputs"]]


def text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)


def test_all_are_there() -> None:
    assert [path.stem for path in PATHS] == [
        "01_quickstart",
        "02_poison_and_redrive",
        "03_pipeline",
        "04_long_jobs",
        "05_exactly_once",
        "06_files",
        "07_transactions",
    ]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_saved_by_one_run_from_top_to_bottom(path: Path) -> None:
    counts = [cell["execution_count"] for cell in cells(path, "code")]
    assert counts == list(range(1, len(counts) + 1)), "run `make notebooks`"
    drawn = [output for output in outputs(path) if "image/png" in output.get("data", {})]
    assert len(drawn) >= 2


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_outputs_are_clean(path: Path) -> None:
    for output in outputs(path):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr", text(output["text"])
        data = {kind: body for kind, body in output.get("data", {}).items() if "image" not in kind}
        shown = text(output.get("text", "")) + "".join(map(text, data.values()))
        assert not OF_A_MACHINE.search(shown), shown


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_where_it_runs_and_how_plots_look_is_the_same_in_all(path: Path) -> None:
    for own, first in zip(cells(path, "code")[:2], cells(PATHS[0], "code")[:2], strict=True):
        assert text(own["source"]) == text(first["source"])
    later = [text(cell["source"]) for cell in cells(path, "code")[1:]]
    assert not any("databricks" in source or "AZURE_STORAGE" in source for source in later)


@pytest.mark.parametrize("path", [*PATHS, FOLDER / "README.md"], ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    readme = path.suffix == ".md"
    said = [path.read_text(encoding="utf-8")] if readme else []
    said += [] if readme else [text(cell["source"]) for cell in cells(path, "markdown")]
    links = [link for words in said for link in re.findall(r"\]\(([^)]+)\)", words)]
    assert links
    for link in links:
        assert (FOLDER / link).exists(), link
