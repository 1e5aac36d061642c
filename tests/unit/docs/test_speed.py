"""What the README says of CPU and speed is what was measured."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from site_pages import REPOSITORY

BENCHMARKS = REPOSITORY / "benchmarks"
RESULTS = json.loads((BENCHMARKS / "results" / "results.json").read_text(encoding="utf-8"))
README = " ".join((REPOSITORY / "README.md").read_text(encoding="utf-8").split())


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that draws, which is imported as a script of its folder does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("figures", "plot"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import plot

    return plot


def test_the_readme_says_what_the_picture_says(plot: ModuleType) -> None:
    bars = plot.bars_of(RESULTS["source"]["rounds"])
    ours, best = next(bar for bar in bars if bar.name == "ours"), plot.best_of(bars)
    cap = plot.CAP_OF_A_QUEUE / ours.requests

    for said in (
        f"{ours.cpu:.2f} ms of CPU with all of Spark, and {best.cpu:.2f} ms with the best consumer",
        f"{plot.CAP_OF_A_QUEUE:,} messages a second, takes {cap * ours.cpu / 1000:.0%} of a core",
        f"with that consumer {cap * best.cpu / 1000:.1f} cores",
    ):
        assert said in README


def test_cpu_comes_before_speed(plot: ModuleType) -> None:
    said = plot.headline(plot.bars_of(RESULTS["source"]["rounds"]))

    assert (
        said.index("of CPU") < said.index("One real queue") < said.index("times the best by hand")
    )


def test_all_that_was_measured_is_drawn(plot: ModuleType, tmp_path: Path) -> None:
    plot.draw(RESULTS, tmp_path / "all.png")
    plot.draw({}, tmp_path / "none.png")

    assert (tmp_path / "all.png").stat().st_size > 50_000
    assert not (tmp_path / "none.png").exists()
