"""What a release must have before anything is built."""

from __future__ import annotations

import re

import pytest
from release import REPOSITORY, problems, section, tag_of, version_now

import spark_azqueue

CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-31

### Added

- A thing.

## [0.1.0] - 2026-11-30

- The first.

## [0.0.2]

- No date.

## [0.0.1] - 2026-01-01
"""


def test_a_clean_tree_with_a_dated_section_can_be_released() -> None:
    assert problems("0.2.0", CHANGELOG, ["v0.1.0"], "") == []


@pytest.mark.parametrize(
    ("version", "tags", "changes", "complaint"),
    [
        ("0.2.0", [], " M README.md\n", "the tree is not clean.*\n M README.md$"),
        ("0.2.0", ["v0.1.0", "v0.2.0"], "", r"the tag v0\.2\.0 exists"),
        ("0.3.0", [], "", r"CHANGELOG\.md has no section \[0\.3\.0\]"),
        ("0.2", [], "", "'0.2' in spark_azqueue/version.py is not like"),
        ("Unreleased", [], "", "'Unreleased' in spark_azqueue/version.py is not like"),
        ("0.0.2", [], "", r"the section \[0\.0\.2\] of CHANGELOG\.md needs a date"),
        ("0.0.1", [], "", r"the section \[0\.0\.1\] of CHANGELOG\.md needs a date and some text"),
    ],
)
def test_what_stops_a_release(version: str, tags: list[str], changes: str, complaint: str) -> None:
    found = problems(version, CHANGELOG, tags, changes)

    assert any(re.match(complaint, each, re.DOTALL) for each in found), found


def test_all_problems_are_told_at_once() -> None:
    assert len(problems("0.3.0", CHANGELOG, ["v0.3.0"], "?? x")) == 3


def test_a_section_ends_at_the_next() -> None:
    assert section(CHANGELOG, "0.2.0") == ("2026-12-31", "### Added\n\n- A thing.")
    assert section(CHANGELOG, "0.0.1") == ("2026-01-01", "")
    assert section(CHANGELOG, "0.2.1") is None
    assert section("## [0a1b0] - 2026-01-01\n\n- x\n", "0.1.0") is None


def test_the_version_is_the_packages() -> None:
    assert version_now() == spark_azqueue.__version__
    assert tag_of("0.2.0") == "v0.2.0"


def test_the_changelog_has_a_section_for_what_comes() -> None:
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "## [Unreleased]\n" in text or section(text, version_now())
