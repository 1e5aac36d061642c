"""A test that a page names as a proof exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
TESTS = (REPOSITORY / "tests", REPOSITORY / "examples")
PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))


def known() -> set[str]:
    """Names of tests, and of the modules and folders that hold them."""
    found = set()
    for path in (path for folder in TESTS for path in folder.rglob("*.py")):
        found |= {path.stem, path.parent.name}
        found |= set(re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tests_that_a_page_names_exist(page: Path) -> None:
    there = known()
    named = set(re.findall(r"\btest_\w+", page.read_text(encoding="utf-8")))
    missing = {name for name in named if not any(each.startswith(name) for each in there)}
    assert not missing


def test_there_is_something_to_compare() -> None:
    assert any("test_" in page.read_text(encoding="utf-8") for page in PAGES)
    assert "test_the_tests_that_a_page_names_exist" in known()
