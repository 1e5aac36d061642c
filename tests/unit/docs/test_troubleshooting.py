"""The troubleshooting page quotes what the package says, and leaves no error of it out.

A quote stands in the first column of a table, in backquotes; `…` is any value. A message of the
source is its text with `…` for each value.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGE = REPOSITORY / "spark_azqueue"
PAGE = REPOSITORY / "docs" / "troubleshooting.md"

ANY = "…"
ERRORS = {
    node.name
    for node in ast.parse((PACKAGE / "errors.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
}


def sources() -> Iterator[ast.Module]:
    for path in PACKAGE.rglob("*.py"):
        yield ast.parse(path.read_text(encoding="utf-8"))


def text_of(node: ast.AST) -> str | None:
    """The text of a string or f-string, with `…` for values; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%(?:s|d|r)", ANY, node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", None) for part in node.values)
        return "".join(part if isinstance(part, str) else ANY for part in parts)
    return None


@functools.cache
def texts() -> set[str]:
    """Every text in the package."""
    found = (text_of(node) for module in sources() for node in ast.walk(module))
    return {re.sub(f"{ANY}+", ANY, text) for text in found if text}


@functools.cache
def raised_or_logged() -> set[str]:
    """What errors of the package say, and warnings in its log."""
    found = set()
    for module in sources():
        for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
            name = ast.unparse(call.func)
            text = text_of(call.args[0]) if call.args else None
            if text and text.strip(f"{ANY} ;:.") and (name in ERRORS or name == "log.warning"):
                found.add(re.sub(f"{ANY}+", ANY, text))
    return found


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


def test_there_is_something_to_compare() -> None:
    assert len(quotes()) > 50
    assert len(raised_or_logged()) > 50
    assert not any(says(text, "no such text in any error") for text in texts())
