"""The documentation site has every page of docs/ once, and every file that its pages link to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from site_pages import REPOSITORY, collect, links, main, nav_pages, redirects

CONFIG = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
NAV = list(nav_pages(CONFIG["nav"]))


def test_every_page_of_docs_is_in_the_nav() -> None:
    pages = {str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs").rglob("*.md")}

    assert pages <= set(NAV), f"add to the nav in mkdocs.yml: {pages - set(NAV)}"


def test_the_nav_names_each_page_once() -> None:
    assert sorted(NAV) == sorted(set(NAV))


def test_the_list_of_decisions_names_each() -> None:
    folder = REPOSITORY / "docs" / "decisions"
    listed = links((folder / "README.md").read_text(encoding="utf-8"))

    assert listed == sorted(page.name for page in folder.glob("0*.md"))


def test_the_links_of_its_pages_stay_on_the_site() -> None:
    _, wrong = collect(REPOSITORY, NAV)

    assert wrong == []


def test_the_pages_are_copied_with_what_they_link_to(tmp_path: Path) -> None:
    assert main(tmp_path / "pages") == 0

    copied = {str(path.relative_to(tmp_path / "pages")) for path in tmp_path.rglob("*.*")}
    assert {*NAV, "benchmarks/results/throughput.png", "conf/source.options"} <= copied
    assert not any(path.endswith(".py") for path in copied)


def test_an_old_address_leads_to_a_page_that_there_is(tmp_path: Path) -> None:
    redirects(CONFIG, tmp_path)

    for old, new in CONFIG["extra"]["redirects"].items():
        page = (tmp_path / old.removesuffix(".md") / "index.html").read_text(encoding="utf-8")
        target = re.findall(r'href="([^"]+)"', page)[0]
        at = tmp_path / old.removesuffix(".md") / target.partition("#")[0]
        assert f"{at.resolve().relative_to(tmp_path.resolve())}.md" == new.partition("#")[0]
        assert new.partition("#")[0] in NAV
        assert old not in NAV


def test_a_nav_may_have_levels() -> None:
    assert list(nav_pages([{"A": "a.md"}, {"B": [{"C": "c.md"}, {"D": [{"E": "e.md"}]}]}])) == [
        *("a.md", "c.md", "e.md")
    ]


@pytest.mark.parametrize(
    ("link", "complaint"),
    [
        ("other.md", None),
        ("other.md#part", None),
        ("#part", None),
        ("data.csv", None),
        ("https://example.org/nowhere", None),
        ("nowhere.md", "which does not exist"),
        ("../outside.md", "which does not exist"),
        ("folder/", "a folder: link to a file in it"),
        ("hidden.md", "which is not in the nav of mkdocs.yml"),
    ],
)
def test_a_link_must_lead_to_what_the_site_has(
    tmp_path: Path, link: str, complaint: str | None
) -> None:
    repository = tmp_path / "repository"
    (repository / "folder").mkdir(parents=True)
    for name in ("other.md", "hidden.md", "data.csv", "../outside.md"):
        (repository / name).write_text("text")
    (repository / "page.md").write_text(f"[x]({link}) `[code](nowhere)`")

    _, wrong = collect(repository, ["page.md", "other.md"])

    assert wrong == ([f"page.md links to {link}, {complaint}"] if complaint else [])


def test_a_page_of_the_nav_must_exist(tmp_path: Path) -> None:
    assert collect(tmp_path, ["page.md"])[1] == ["the nav names page.md, which does not exist"]
