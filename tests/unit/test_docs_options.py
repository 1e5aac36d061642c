"""The page of options is the table of options, and every option does something."""

import ast
import re
from pathlib import Path

import pytest

from spark_azqueue import account, config
from spark_azqueue.options import OPTIONS, reference

PAGE = Path(__file__).resolve().parents[2] / "docs" / "options.md"
NAMES = {option.name for option in OPTIONS}


def test_the_page_is_what_the_table_says():
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_the_page_lists_every_option_and_nothing_else():
    listed = re.findall(r"^\| `([^`]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert sorted(listed) == sorted(NAMES)


def looked_up(module):
    """Constants used as keys, or as members of tuples of keys, in a module."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return {text for text in texts if text in NAMES}


def subscripts_of_values():
    tree = ast.parse(Path(config.__file__).read_text(encoding="utf-8"))
    return {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "values"
    }


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_option_is_used(name):
    assert name in subscripts_of_values() | looked_up(account)


def test_only_options_are_looked_up():
    assert subscripts_of_values() <= NAMES
