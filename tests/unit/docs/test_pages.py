"""What every page has: for whom it is, and one address of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from reference import NAME_THE_REPOSITORY, repository_url, with_repository
from site_pages import REPOSITORY, links, nav_pages

from spark_azqueue.commands.command_line import COMMANDS

CONFIG = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8"))
OF_OTHERS = r"docs/decisions/0.*|CHANGELOG\.md|.*/results/.*"
"""Pages that another page leads to, and which say there for whom they are."""
PAGES = [page for page in nav_pages(CONFIG["nav"]) if not re.fullmatch(OF_OTHERS, page)]


@pytest.mark.parametrize("page", PAGES)
def test_the_first_three_lines_say_for_whom_it_is(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    lines = [line for line in text.split("\n") if line.strip() and not line.startswith("<!--")]

    assert lines[0].startswith("# ")
    assert re.match(r"For [a-z]", lines[1]), f"say for whom {page} is, and what it answers"


def test_the_readme_has_few_links_and_ten_lines() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")

    assert len(links(text)) <= 12
    (ten,) = re.findall(r"^## Ten lines\n.*?^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len([line for line in ten.split("\n") if line.strip()]) == 10


@pytest.mark.parametrize("page", [*nav_pages(CONFIG["nav"])])
def test_what_folds_is_markdown_on_the_site_too(page: str) -> None:
    """GitHub reads Markdown within HTML; the site does so where an attribute says it."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")

    assert all('markdown="1"' in tag for tag in re.findall(r"<details[^>]*>", text))


def test_there_are_no_long_lists_in_the_nav() -> None:
    assert len(CONFIG["nav"]) <= 8
    for group in CONFIG["nav"]:
        for entries in group.values():
            assert len(entries) <= 10


@pytest.mark.parametrize("name", NAME_THE_REPOSITORY)
def test_the_address_of_the_repository_is_that_of_setup_cfg(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")

    assert repository_url() in text
    assert with_repository(text, repository_url()) == text, "run: python tools/reference.py"


def test_no_page_leaves_the_address_open() -> None:
    for page in [REPOSITORY / "README.md", *REPOSITORY.glob("docs/*.md")]:
        assert "<this repository>" not in page.read_text(encoding="utf-8"), page


def test_an_address_is_filled_in(tmp_path: Path) -> None:
    text = "    git clone x && cd y\nrepo_url: z\n"

    assert with_repository(text, "https://a/b") == (
        "    git clone https://a/b && cd y\nrepo_url: https://a/b\n"
    )


def test_no_command_names_a_wheel_of_one_version() -> None:
    for page in REPOSITORY.glob("docs/*.md"):
        assert not re.search(r"pip install \S+\d\.\d\S*\.whl", page.read_text(encoding="utf-8")), (
            page
        )


def test_redrive_is_shown_with_a_poison_queue() -> None:
    """It refuses any other without `--to`."""
    for page in REPOSITORY.glob("docs/*.md"):
        for line in page.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"\s*python -m spark_azqueue redrive (\S+)", line):
                assert found[1].endswith("-poison") or "--to" in line, f"{page}: {line}"


def test_each_command_is_in_a_table_of_its_page() -> None:
    page = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    first = re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)
    named = {word for cell in first for word in re.findall(r"`([a-z]+)[ `]", cell)}
    assert [word for word in COMMANDS if word not in named] == []
