"""The Python on the pages is Python, and the options in it exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from spark_azqueue.options.parse import OPTIONS

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
SPARKS = {"path", "checkpointLocation", "txnAppId", "txnVersion"}
KNOWN = {option.name for option in OPTIONS} | SPARKS


def blocks() -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for code in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            if not code.startswith("%"):  # a notebook's own command
                found.append((page.name, code))
    return found


def named_options(tree: ast.AST) -> set[str]:
    """What is given to `.option(…)` and `.options(…)`."""
    names = set()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        method = getattr(call.func, "attr", "")
        if method == "option" and isinstance(call.args[0], ast.Constant):
            names.add(str(call.args[0].value))
        if method == "options":
            names |= {word.arg for word in call.keywords if word.arg}
    return names


def parsed(code: str) -> ast.AST:
    """A block, which may be a piece of a chain of calls."""
    return ast.parse(f"(_\n{code})" if code.lstrip().startswith(".") else code)


@pytest.mark.parametrize(("page", "code"), blocks())
def test_it_parses_and_names_options_that_exist(page: str, code: str) -> None:
    assert named_options(parsed(code)) <= KNOWN


SAFE = {"start_http_server": "addr", "blob_events": "trusted", "read_new_files": "trusted"}
"""Calls that a page must not show without this argument."""


@pytest.mark.parametrize("call", SAFE)
def test_what_is_copied_from_a_page_is_not_open_to_others(call: str) -> None:
    nodes = (node for _, code in blocks() if f"{call}(" in code for node in ast.walk(parsed(code)))
    calls = [
        {word.arg for word in node.keywords}
        for node in nodes
        if isinstance(node, ast.Call)
        and call in (getattr(node.func, "id", ""), getattr(node.func, "attr", ""))
    ]
    assert calls
    assert all(SAFE[call] in words for words in calls)


def test_there_is_something_to_check() -> None:
    assert len(blocks()) > 20
    assert named_options(ast.parse('a.option("x", 1).options(**b, y=2)')) == {"x", "y"}


def test_settings_in_the_text_exist() -> None:
    """Settings as `name=value`: the names are the table's, in the table's spelling."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    given = re.findall(r"`([a-z]+[A-Z][A-Za-z]+)=", text)

    assert len(given) > 50
    assert set(given) <= KNOWN
