"""Every link from one page to another, or to a heading of it, leads somewhere."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from urllib.parse import unquote

import pytest
from site_pages import links as links_in

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = sorted(
    page
    for folder in (
        ".",
        "docs",
        "docs/decisions",
        "jars",
        "benchmarks",
        "conf",
        "notebooks",
        "deploy",
        "examples",
    )
    for page in (REPOSITORY / folder).glob("*.md")
)


def links(page: Path) -> list[str]:
    """Where the page's links lead, but those that leave the repository."""
    return links_in(page.read_text(encoding="utf-8"))


@functools.cache
def anchors(page: Path) -> set[str]:
    """The names by which GitHub links to headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.M)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    named = re.findall(r'<a id="([^"]+)">', text)
    headings = (re.sub(r"[^\w\- ]", "", heading).strip() for heading in plain)
    return {*named, *(heading.replace(" ", "-") for heading in headings)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert not broken, f"{page.relative_to(REPOSITORY)} links to what is not there: {broken}"


def test_there_is_something_to_check() -> None:
    assert sum(len(links(page)) for page in PAGES) > 50


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## Spark Connect", "spark-connect"),
        ("# Where a crash may come, and what it costs", "where-a-crash-may-come-and-what-it-costs"),
        ("### `deleteOnCommit=false`", "deleteoncommitfalse"),
        ("## 1. Install", "1-install"),
    ],
)
def test_anchors_are_made_as_github_makes_them(tmp_path: Path, heading: str, anchor: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{heading}\n\ntext\n", encoding="utf-8")

    assert anchors(page) == {anchor}
