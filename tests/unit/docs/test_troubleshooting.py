"""The troubleshooting page quotes what the package says, and leaves no error of it out.

A quote stands in the first column of a table, in backquotes; `…` is any value. A message of the
source is its text with `…` for each value.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest
from raised import ANY, modules, raised, text_of
from reference import with_conditions

REPOSITORY = Path(__file__).resolve().parents[3]
PAGE = REPOSITORY / "docs" / "troubleshooting.md"


@functools.cache
def texts() -> set[str]:
    """Every text in the package."""
    found = (text_of(node) for module in modules() for node in ast.walk(module))
    return {text for text in found if text}


@functools.cache
def raised_or_logged() -> set[str]:
    """What errors of the package say, and warnings in its log."""
    warnings = {
        text
        for module in modules()
        for call in ast.walk(module)
        if isinstance(call, ast.Call) and call.args and ast.unparse(call.func) == "log.warning"
        if (text := text_of(call.args[0]))
    }
    found = warnings | {each.text for each in raised()}
    return {text for text in found if text.strip(f"{ANY} ;:.")}


def quotes() -> list[str]:
    """What the page quotes: backquoted, in the first column of a table."""
    lines = PAGE.read_text(encoding="utf-8").split("\n")
    cells = (line.split("|")[1].strip() for line in lines if line.startswith("| `"))
    return [quote for cell in cells for quote in re.findall(r"`([^`]+)`", cell)]


def says(message: str, quote: str) -> bool:
    """Whether this quote is a part of this message; a `…` at the quote's end may stand for none."""
    return quote.removesuffix(ANY).strip() in message


@pytest.mark.parametrize("quote", quotes())
def test_what_the_page_quotes_is_in_the_source(quote: str) -> None:
    assert any(says(text, quote) for text in texts()), (
        f"nothing in spark_azqueue/ says {quote!r} any more: correct docs/troubleshooting.md"
    )


@pytest.mark.parametrize("message", sorted(raised_or_logged()))
def test_every_error_and_warning_is_on_the_page(message: str) -> None:
    assert any(says(message, quote) for quote in quotes()), (
        f"add it to docs/troubleshooting.md, with its cause and what to do: {message!r}"
    )


def test_the_page_lists_every_condition() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert with_conditions(page) == page, "run: python tools/reference.py"
    with pytest.raises(ValueError, match="markers"):
        with_conditions("# a page without the list")


def test_there_is_something_to_compare() -> None:
    assert len(quotes()) > 50
    assert len(raised_or_logged()) > 50
    assert not any(says(text, "no such text in any error") for text in texts())
