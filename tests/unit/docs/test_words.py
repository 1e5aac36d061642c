"""The words of the field, on pages for users and in the package: no private vocabulary."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from site_pages import REPOSITORY, configuration, nav_pages

CONTRIBUTE = (
    "CONTRIBUTING",
    "CODE_OF",
    "SECURITY",
    "design",
    "reliability",
    "service",
    "decisions",
)
PAGES = [
    page
    for page in nav_pages(configuration()["nav"])
    if not any(word in page for word in (*CONTRIBUTE, "benchmarks"))
]
INSTEAD = {
    r"owed": "pending",
    r"forgotten": "evicted",
    r"(give|gives|gave|given) out|hand(s|ed)? out": "deliver",
    r"whoever|nobody|somebody": "name who: a consumer, you, another query",
    r"heard|told": "observed, reported",
    r"goes on|go on": "continue, resume",
    r"stands": "is",
    r"vanished|abandoned message": "missing, orphaned",
    r"copies suppressed|left to expire|lanes|gathering": "see the glossary",
}
"""What must not be on a page, and the word to use."""
ALSO_IN_CODE = (r"forgotten", r"vanished|abandoned message")
"""States of the ledger and a parameter have these names."""
NOT_HELD = ("testing/",)
GENERATED = {
    "docs/options.md": 3_000,
    "docs/api.md": 7_700,
    "docs/troubleshooting.md": 3_400,
    "CHANGELOG.md": 400,
}
"""Pages to look something up, and the most words of each, code included."""
TO_PRODUCTION = ("README.md", "docs/quickstart.md", "docs/production.md", "docs/permissions.md")
"""What leads from nothing to a first job in production."""
QUOTED = re.compile(r"^```.*?^```|^    .*?$|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def words(text: str) -> str:
    """The prose of a page: without code, quotes and addresses."""
    return QUOTED.sub(" ", text)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_uses_the_words_of_the_field(page: str) -> None:
    text = words((REPOSITORY / page).read_text(encoding="utf-8"))
    found = {
        match[0]: instead
        for pattern, instead in INSTEAD.items()
        for match in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE)
    }

    assert not found, f"{page}: other words, please: {found}"


def comments(module: Path) -> Iterator[str]:
    """The docstrings and comments of a module, without what is in backquotes."""
    with tokenize.open(module) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.COMMENT or re.match(r'r?"""', token.string):
                yield re.sub(r"`[^`]*`", " ", token.string)


def test_the_package_uses_the_words_of_the_field() -> None:
    package = REPOSITORY / "spark_azqueue"
    held = re.compile(rf"\b(?:{'|'.join(set(INSTEAD) - set(ALSO_IN_CODE))})\b", re.IGNORECASE)
    found = [
        f"{name}: {match[0]}"
        for module in sorted(package.rglob("*.py"))
        if not (name := module.relative_to(package).as_posix()).startswith(NOT_HELD)
        for text in comments(module)
        for match in held.finditer(text)
    ]

    assert not found, f"other words, please (see INSTEAD): {found}"


def counted(page: str) -> int:
    """How many words a page has, code included."""
    return len((REPOSITORY / page).read_text(encoding="utf-8").split())


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED])
def test_a_page_can_be_finished(page: str) -> None:
    prose = words((REPOSITORY / page).read_text(encoding="utf-8")).split()
    count = sum(bool(word.strip("|:-")) for word in prose)  # not the lines of tables
    assert count <= 1_500, f"{page} has {count} words of prose: split, shorten, or link"


@pytest.mark.parametrize(("page", "most"), GENERATED.items())
def test_a_page_for_looking_up_stays_short(page: str, most: int) -> None:
    count = counted(page)
    assert count <= most, f"{page} has {count} words: shorten docstrings, options or conditions"


def test_there_are_few_pages_and_a_short_way_to_production() -> None:
    pages = [page for page in PAGES if page.startswith("docs/")]
    assert len(pages) <= 27, f"merge two of {pages}"
    count = sum(map(counted, TO_PRODUCTION))
    assert count <= 4_000, f"{', '.join(TO_PRODUCTION)} have {count} words"


def test_the_readme_is_short() -> None:
    text = words((REPOSITORY / "README.md").read_text(encoding="utf-8"))

    assert len([word for word in text.split() if re.search(r"\w", word)]) <= 500


def test_prose_alone_is_looked_at() -> None:
    assert "owed" not in words("a `word owed` and [x](owed.md)\n\n    owed\n\n```\nowed\n```\n")
    assert "owed" in words("what is owed")
