"""What the pages say of CPU and speed is what was measured, and the same on each."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from site_pages import REPOSITORY, configuration, nav_pages

BENCHMARKS = REPOSITORY / "benchmarks"
RESULTS = json.loads((BENCHMARKS / "results" / "results.json").read_text(encoding="utf-8"))
PLANNED = (2_000, 20_000, 200_000)
"""The rows of the table of capacities."""


def page(name: str) -> str:
    """The text of a page, with spaces for line breaks."""
    return " ".join((REPOSITORY / name).read_text(encoding="utf-8").split())


README, SCALING = page("README.md"), page("docs/scaling.md")


@pytest.fixture
def plot(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that draws, which is imported as a script of its folder does."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("figures", "plot"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import plot

    return plot


def cpu_of(plot: ModuleType, section: str, *roles: str) -> float:
    """CPU ms per message of ours at 10 ms, of some roles or of all."""
    rounds = RESULTS[section]["rounds"]
    ours = [saw for saw in rounds if (saw["name"], saw["latency_s"]) == ("ours", plot.AT_S)]
    return float(plot.median_of(ours, lambda saw: plot.cpu_ms(saw, *roles)))


def test_every_page_for_users_names_the_same_cpu_for_a_message(plot: ModuleType) -> None:
    whole, source = cpu_of(plot, "source"), cpu_of(plot, "source", "source")
    pages = [each for each in nav_pages(configuration()["nav"]) if each.startswith("docs/")]
    users = [each for each in pages if not each.startswith(("docs/decisions/", "docs/service"))]
    named = {
        figure
        for name in ["README.md", *users]
        for figure in re.findall(r"(\d\.\d+) ms of CPU", page(name))
    }

    assert named == {f"{whole:.2f}"}
    assert f"It takes {source:.2f} ms of the {whole:.2f} ms of CPU that a message" in SCALING


def test_capacities_are_planned_from_that_figure_and_tls(plot: ModuleType) -> None:
    plain, tls = cpu_of(plot, "source"), cpu_of(plot, "tls")

    assert f"Computed from {plain:.2f} ms of CPU for each message, plus a third for TLS" in SCALING
    assert tls / plain == pytest.approx(4 / 3, abs=0.05)
    for planned in PLANNED:
        cores = (each * planned / 1000 for each in (tls, cpu_of(plot, "tls", "source")))
        said = ", ".join(f"{each:.0f}" if each > 10 else f"{each:.1f}" for each in cores)
        assert re.search(rf"\| {planned:,} \|[^\n]*?\| {re.escape(said)} \|", SCALING), said


def test_the_readme_says_what_the_picture_says(plot: ModuleType) -> None:
    bars = plot.bars_of(RESULTS["source"]["rounds"])
    ours, best = next(bar for bar in bars if bar.name == "ours"), plot.best_of(bars)
    cap = plot.CAP_OF_A_QUEUE / ours.requests

    for said in (
        f"{ours.cpu:.2f} ms of CPU with all of Spark, and {best.cpu:.2f} ms with the best consumer",
        f"queue's limit, {plot.CAP_OF_A_QUEUE:,} messages a second, takes"
        f" {cap * ours.cpu / 1000:.0%} of a core",
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
