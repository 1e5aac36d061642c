"""The page of measurements by commit is what was measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from site_pages import REPOSITORY

RESULTS = REPOSITORY / "benchmarks" / "results"


@pytest.fixture
def over_time(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, which is imported as a script of its folder does."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    for name in ("figures", "over_time", "plot"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import over_time

    return over_time


def point(commit: str, date: str, ours: float = 0.1) -> dict[str, Any]:
    figures = {"cpu_ms": ours, "per_second": 9000}, {"cpu_ms": 1.0, "per_second": 800}
    return {
        "commit": commit,
        "date": date,
        "load": 0.5,
        "figures": dict(zip(("ours", "sdk-async"), figures, strict=True)),
    }


def test_the_page_is_what_the_figures_say(over_time: ModuleType) -> None:
    kept = RESULTS / "over_time.json"
    points = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else []
    told = (RESULTS / "over_time.md").read_text(encoding="utf-8")
    assert over_time.page(points) == told, "run: python benchmarks/over_time.py draw"


def git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(("git", *arguments), cwd=REPOSITORY, capture_output=True, text=True)


@pytest.mark.skipif(
    git("rev-parse", "--is-shallow-repository").stdout.strip() != "false",
    reason="the history of the repository is not there",
)
def test_each_commit_that_was_measured_is_in_the_history() -> None:
    points = json.loads((RESULTS / "over_time.json").read_text(encoding="utf-8"))
    found = {each["commit"]: git("log", "-1", "--format=%cI", each["commit"]) for each in points}

    assert {commit: told.stdout.strip() for commit, told in found.items()} == {
        each["commit"]: each["date"] for each in points
    }
    for commit in found:
        assert git("merge-base", "--is-ancestor", commit, "HEAD").returncode == 0, commit


def test_a_commit_is_there_once_and_points_are_in_order(over_time: ModuleType) -> None:
    points = over_time.added([], point("b", "2026-02-01"))
    points = over_time.added(points, point("a", "2026-01-01"))
    points = over_time.added(points, point("b", "2026-02-01", ours=0.2))

    assert [(each["commit"], over_time.ratio(each)) for each in points] == [("a", 10), ("b", 5)]


def test_the_newest_commit_comes_first_on_the_page(over_time: ModuleType) -> None:
    text = over_time.page([point("aaa", "2026-01-01"), point("bbb", "2026-02-01", 0.25)])

    assert text.index("`bbb`") < text.index("`aaa`")
    assert "| `bbb` | 2026-02-01 | 0.250 | 1.000 | 4.0 | 9,000 | 800 | 0.5 |" in text


def test_without_points_the_page_says_so_and_shows_no_picture(over_time: ModuleType) -> None:
    assert over_time.NO_POINTS in over_time.page([])
    assert "over_time.png" not in over_time.page([])


def test_the_curve_is_drawn(over_time: ModuleType, tmp_path: Path) -> None:
    over_time.draw([point("a", "2026-01-01"), point("b", "2026-02-01", 0.2)], tmp_path / "a.png")

    assert (tmp_path / "a.png").stat().st_size > 10_000


def test_the_work_of_a_round_never_changes(over_time: ModuleType) -> None:
    assert over_time.ROUNDS == 3
    assert over_time.WORK == {
        "ours": {"messages": 60_000, "warm": 30_000, "held": 50_000},
        "sdk-async": {"messages": 4000},
        "raw": {"messages": 20_000},
    }
