"""The page of errors has the conditions as they are declared, and quotes what the package says.

A quote stands in the first column of a table, in backquotes; `…` is any value.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from raised import ANY, modules, text_of
from reference import END, with_conditions

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = (REPOSITORY / "docs" / "troubleshooting.md").read_text(encoding="utf-8")


@functools.cache
def texts() -> set[str]:
    """Every text in the package."""
    found = (text_of(node) for module in modules() for node in ast.walk(module))
    return {text for text in found if text}


def quotes() -> list[str]:
    """What the page quotes: backquoted, in the first column of a table that is not generated."""
    lines = PAGE.partition(END)[2].split("\n")
    cells = (line.split("|")[1].strip() for line in lines if line.startswith("| `"))
    return [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]


def is_said(quote: str) -> bool:
    """Whether a text of the package has this quote; a `…` at its end may stand for none."""
    return any(quote.removesuffix(ANY).strip() in text for text in texts())


@pytest.mark.parametrize("quote", quotes())
def test_what_the_page_quotes_is_in_the_source(quote: str) -> None:
    assert is_said(quote), f"nothing in spark_azqueue/ says {quote!r} any more: correct the page"


def test_the_page_lists_every_condition() -> None:
    assert with_conditions(PAGE) == PAGE, "run: python tools/reference.py"
    with pytest.raises(ValueError, match="markers"):
        with_conditions("# a page without the list")


def test_there_is_something_to_compare() -> None:
    assert len(quotes()) > 5
    assert not is_said("no such text in any error")
