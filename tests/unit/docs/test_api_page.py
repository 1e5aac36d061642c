"""The page of the Python API is the docstrings', and names everything that is public."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from api_page import api_page
from docstrings import markdown
from site_pages import REPOSITORY

import spark_azqueue
from spark_azqueue import errors, testing

PAGE = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")


def test_the_page_is_what_the_code_says() -> None:
    assert api_page() == PAGE, "run: python tools/reference.py"


@pytest.mark.parametrize("module", [spark_azqueue, testing], ids=lambda each: each.__name__)
def test_every_public_name_is_on_the_page_with_where_it_is_imported_from(module: object) -> None:
    """Users import from these two alone."""
    name: str = module.__name__  # type: ignore[attr-defined]
    imports = set(re.findall(rf"^from {re.escape(name)} import (\w+)$", PAGE, re.MULTILINE))

    names = set(module.__all__) - {"__version__"}  # type: ignore[attr-defined]
    assert imports == {each for each in names if not _is_error(getattr(module, each))}


def test_the_door_says_the_same_to_python_and_to_tools_that_check_types() -> None:
    """The names are written twice: for imports, and for who reads the code without running it."""
    tree = ast.parse((REPOSITORY / "spark_azqueue" / "__init__.py").read_text(encoding="utf-8"))
    for_types = {
        alias.name: node.module
        for branch in tree.body
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert for_types == {
        name: home for home, names in spark_azqueue.NAMES.items() for name in names
    }


def test_the_door_loads_neither_spark_nor_arrow() -> None:
    code = "import sys, spark_azqueue; print({'pyspark', 'pyarrow'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"


def test_every_error_is_on_the_page() -> None:
    raised = {name for name, each in vars(errors).items() if _is_error(each)}

    assert raised == set(re.findall(r"^\| `(\w+)` \|", PAGE.partition("## Errors")[2], re.M))


def _is_error(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, errors.AzQueueError)


def test_arguments_become_a_list() -> None:
    doc = "Do it.\n\nwhen: a condition,\n    or two. delay, wait: seconds.\n\nReturns: x. when: y"

    assert markdown(doc, {"when", "delay", "wait"}) == (
        "Do it.\n\n- `when`: a condition, or two.\n- `delay`, `wait`: seconds.\n\n"
        "Returns: x. when: y"
    )


def test_code_and_tables_stay_what_they_are() -> None:
    table = "====  ===\nname  is\n====  ===\n`a`   one\n      <1>\n`b`   two\n====  ==="

    assert markdown(f"    a = 1\n    b = 2\n\n{table}", set()) == (
        "```py\na = 1\nb = 2\n```\n\n| name | is |\n|---|---|\n| `a` | one &lt;1> |\n| `b` | two |"
    )


def test_what_a_browser_would_take_for_a_tag_is_text() -> None:
    assert markdown("Is <a> like `<b>`?", set()) == "Is &lt;a> like `<b>`?"
