"""The demo: what it draws, and that it imports only what its own extra brings."""

from __future__ import annotations

import ast
import configparser
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from site_pages import REPOSITORY

FOLDER = REPOSITORY / "examples" / "demo"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import picture

    return picture


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import story

    monkeypatch.setattr(story, "LOOK_EVERY_S", 0)
    return story


class Running:
    """Screen, feeder and stream of a demo in which `counts` orders were received by each look."""

    def __init__(self, counts: Iterator[int], *, has_begun: Iterator[bool]) -> None:
        self.sent = 0
        self.killed_at: list[int] = []
        self._counts = counts
        self._has_begun = has_begun

    @property
    def restarts(self) -> int:
        return len(self.killed_at)

    def check(self) -> None:
        pass

    def line(self, text: str) -> None:
        self.said = text

    def progress(self, *_: object, last: bool = False) -> None:
        pass

    def received(self) -> int:
        self.sent = next(self._counts)
        return self.sent

    def kill(self) -> bool:
        if killed := next(self._has_begun):
            self.killed_at.append(self.sent)
        return killed


def drawn(module: ModuleType, held: list[int], title: str = "title") -> ElementTree.Element:
    """The picture of a look each second, with 100 messages received between two looks."""
    samples = [
        module.Sample(float(at), 100 * at + held[at], 100 * at, held[at]) for at in range(len(held))
    ]
    return ElementTree.fromstring(module.picture(samples, title, "subtitle"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_the_demo_imports_only_what_its_extra_brings() -> None:
    config = configparser.ConfigParser()
    config.read_string((REPOSITORY / "setup.cfg").read_text(encoding="utf-8"))
    modules = sorted(FOLDER.glob("*.py"))
    theirs = set().union(*map(imported, modules)) - {path.stem for path in modules}

    assert theirs - sys.stdlib_module_names == {"azure", "py4j", "pyspark", "spark_azqueue"}
    brought = config["options.extras_require"]["demo"].split()
    assert [re.split(r"[<>=]", each)[0] for each in brought] == ["pyspark", "azure-storage-queue"]


def test_the_backlog_reaches_from_the_first_look_to_the_last(module: ModuleType) -> None:
    backlog, sent = drawn(module, [0, 250, 500, 0]).findall(f"{SVG}polyline")
    places = [tuple(map(float, point.split(","))) for point in backlog.get("points", "").split()]
    heights = [height for _, height in places]

    assert len(places) == 4
    assert heights[0] == heights[-1] == max(heights)  # down is positive
    assert heights[1] == (heights[0] + heights[2]) / 2
    assert len(sent.get("points", "").split()) == 2


def test_each_two_seconds_have_a_bar_as_high_as_the_rate(module: ModuleType) -> None:
    bars = [
        rect
        for rect in drawn(module, [0] * 5).iter(f"{SVG}rect")
        if rect.get("fill") == "#3a9d7a" and rect.get("height") != "10"
    ]

    assert len({bar.get("height") for bar in bars[:2]}) == 1
    assert float(bars[0].get("height", "0")) > 100
    assert float(bars[2].get("height", "1")) == 0


def test_a_picture_of_a_single_look(module: ModuleType) -> None:
    assert drawn(module, [0]).get("viewBox")


def test_text_is_text(module: ModuleType) -> None:
    texts = [text.text for text in drawn(module, [0, 1], "3 < 4 & so on").iter(f"{SVG}text")]

    assert "3 < 4 & so on" in texts
    assert "messages per second" in texts


def test_the_source_is_killed_once_and_the_demo_ends_after_that(
    story: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "held", lambda queue: 0)
    counts = iter([0, 500, 1000, 1500, story.ORDERS, story.ORDERS, story.ORDERS])
    both = Running(counts, has_begun=iter([False, False, False, True]))

    samples = story.watch(both, both, both, both, None)

    assert both.killed_at == [story.ORDERS], "not before there is a process, and only once"
    assert samples[-1].received == story.ORDERS
    assert next(counts) == story.ORDERS, "one look is left: it ended as soon as it had killed"
    assert both.said == f"  kill -9     the source's process, after {story.ORDERS:,} orders"


def test_the_readme_shows_what_the_demo_prints() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    shown = readme.partition("    $ make demo\n")[2].partition("\n\n")[0].splitlines()
    code = (FOLDER / "story.py").read_text(encoding="utf-8")
    said = [
        part
        for line in shown
        for part in re.split(r"\s{2,}|, after [\d,]+ |; a dequeue ", line.strip())
    ]
    words = [part for part in said if not re.fullmatch(r"[\d,]*", part)]

    assert len(shown) == 7
    assert [part for part in words if part not in code] == []
    sent, received = (line.split()[1] for line in shown if line.split()[0] in ("sent", "received"))
    assert sent == received == "3,000"
