"""The code on the cookbook's page is that of the scripts, which the tests run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from site_pages import REPOSITORY
from snippets import filled, main

PAGES = {
    name: (REPOSITORY / "docs" / name).read_text(encoding="utf-8")
    for name in (
        "cookbook.md",
        "delivery.md",
        "exactly-once.md",
        "files.md",
        "scaling.md",
        "testing.md",
        "writing.md",
    )
}
_FROM = re.compile(r"<!-- from examples/([^/\s]+) -->")
_BLOCK = re.compile(r"^```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCRIPTS = {path.name for path in (REPOSITORY / "examples").glob("*.py")} - {"surroundings.py"}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_shows_the_scripts_as_they_are(name: str) -> None:
    assert filled(PAGES[name]) == PAGES[name], f"run: python tools/snippets.py docs/{name}"


def test_every_script_is_on_a_page_and_in_the_list() -> None:
    listed = (REPOSITORY / "examples" / "README.md").read_text(encoding="utf-8")

    shown = [name for page in PAGES.values() for name in _FROM.findall(page)]
    assert sorted(shown) == sorted(SCRIPTS)
    assert set(re.findall(r"^\| `(\S+\.py)`", listed, re.MULTILINE)) == SCRIPTS


def test_a_recipe_is_short() -> None:
    pages = [PAGES[name] for name in ("cookbook.md", "files.md", "writing.md")]
    blocks = [found for page in pages for found in re.findall(_BLOCK, page)]
    lengths = [sum(bool(line.strip()) for line in block.split("\n")) for block in blocks]

    assert len(lengths) > 20
    assert max(lengths) <= 20


def test_roles_in_the_cookbook_are_those_of_the_page_about_rights() -> None:
    roles = re.findall(r'"(Storage [\w ]+)"', PAGES["cookbook.md"])
    rights = (REPOSITORY / "docs" / "permissions.md").read_text(encoding="utf-8")

    assert len(roles) == 2
    short = [role.removeprefix("Storage Queue Data ") for role in roles]  # as in the table
    assert "Storage Queue Data …" in rights
    assert [role for role in short if role not in rights] == []


def test_a_block_is_filled_with_the_marked_part(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import x\n\n# [recipe]\none()\n\n\n# [end]\ntwo()\n")
    (tmp_path / "b.txt").write_text("all\nof it\n")
    page = "A\n<!-- from a.py -->\n```python\nold\n```\nB\n<!-- from b.txt -->\n```text\n```\nC\n"

    text = filled(page, tmp_path)

    assert text == (
        "A\n<!-- from a.py -->\n```python\none()\n```\nB\n"
        "<!-- from b.txt -->\n```text\nall\nof it\n```\nC\n"
    )
    assert filled(text, tmp_path) == text


@pytest.mark.parametrize("page", ["<!-- from a.py -->\n", "<!-- from a.py -->\n```python\n```\n"])
def test_a_marker_without_a_block_or_a_script_is_an_error(page: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not followed by a block|which does not exist"):
        filled(page, tmp_path)


def test_pages_are_renewed_in_place(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- from examples/fan_out.py -->\n```python\n```\n")

    assert main([str(page)]) == 0
    assert "visibility_delay" in page.read_text()
