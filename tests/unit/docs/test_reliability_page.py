"""docs/reliability.md: each promise has a test in `make test`; its columns say what runs where."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
from dataclasses import dataclass
from functools import cache

import pytest
from site_pages import REPOSITORY

PAGE = REPOSITORY / "docs" / "reliability.md"
IN_TEST, IN_ALL = "in `make test`", "more in `make test-all`"
LEFT_OUT = {"more", "long"}
"""Marks of tests without Spark that `make test` does not run."""
CHOSEN = {"core"}
"""Marks of tests with Spark or Azurite that it runs."""


@dataclass(frozen=True)
class Found:
    """A test function, or one of its cases with a mark of its own."""

    folder: str
    stem: str
    name: str
    marks: frozenset[str]

    @property
    def is_in_test(self) -> bool:
        chosen = suites("test")
        if self.folder.split("/")[1] in chosen["all"]:
            return not self.marks & LEFT_OUT
        return self.folder.split("/")[1] in chosen["core"] and bool(self.marks & CHOSEN)


@cache
def suites(target: str) -> dict[str, set[str]]:
    """The folders of tests of which `make test` or `make test-all` runs all, or what is `core`."""
    recipe = re.search(rf"^{target}: .+\n((?:\t.+\n)+)", text("Makefile"), re.MULTILINE)
    lists = dict(re.findall(r"^(CHECKS|PROMISES) = (.+)$", text("Makefile"), re.MULTILINE))
    assert recipe
    assert len(lists) == 2
    found: dict[str, set[str]] = {"all": set(), "core": set()}
    for before, words in re.findall(r"@((?:\w+=\d )*)\$\((?:CHECK_)?LANES\) (.+)", recipe[1]):
        targets = words.replace("$(DELTA)", "test-delta")
        for name, listed in lists.items():
            targets = targets.replace(f"$({name})", listed)
        commands = subprocess.run(
            ["make", "--dry-run", *before.split(), *targets.split()],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for line in re.findall(r"pytest -q (.+)", commands):
            folders = set(re.findall(r"(?<!=)\btests/([a-z]+)", line))
            found["core" if "-m core" in line else "all"] |= folders
    return found


def text(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def marks(node: ast.AST) -> set[str]:
    """The names after `pytest.mark.` in this piece of code."""
    return {
        each.attr
        for each in ast.walk(node)
        if isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Attribute)
        and each.value.attr == "mark"
    }


def cases(function: ast.FunctionDef, of_file: dict[str, ast.expr]) -> list[set[str]]:
    """The marks of each case that has some of its own, after those of all cases."""
    own: set[str] = set()
    apart: list[set[str]] = []
    for decorator in function.decorator_list:
        named = [of_file[n.id] for n in ast.walk(decorator) if getattr(n, "id", "") in of_file]
        params = [
            each
            for tree in (decorator, *named)
            for each in ast.walk(tree)
            if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.param"
        ]
        apart += [found for each in params if (found := marks(each))]
        if ast.unparse(decorator).startswith("pytest.mark.") and not params:
            own |= marks(decorator)
    return [own, *[own | each for each in apart]]


@cache
def every_test() -> list[Found]:
    found = []
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
        of_file = {ast.unparse(node.targets[0]): node.value for node in assigned}
        shared = marks(of_file["pytestmark"]) if "pytestmark" in of_file else set()
        folder = str(path.parent.relative_to(REPOSITORY))
        classes = [each.body for each in tree.body if isinstance(each, ast.ClassDef)]
        for node in itertools.chain(tree.body, *classes):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for each in cases(node, of_file):
                    found.append(Found(folder, path.stem, node.name, frozenset(shared | each)))
    return found


@cache
def machines_of_properties() -> set[str]:
    """The names of the classes in tests/property, which are in `make test`."""
    files = (REPOSITORY / "tests" / "property").glob("test_*.py")
    code = "".join(path.read_text(encoding="utf-8") for path in files)
    return set(re.findall(r"^class (\w+)", code, re.MULTILINE))


def named(cell: str) -> list[list[Found]]:
    """The tests behind each name in a cell of a table."""
    words = [word for word in re.findall(r"`([^`]+)`", cell) if re.search(r"\btests?[_/]", word)]
    every = []
    for word in words:
        plain = re.sub(r"(\.py|…|\[.*)$", "", word)
        folder, _, last = plain.rpartition("/")
        every.append(
            [
                each
                for each in every_test()
                if f"{each.folder}/{each.stem}".startswith(plain)
                or (folder in ("", each.folder) and last == each.stem)
                or (not folder and each.name.startswith(last))
            ]
        )
        assert every[-1], word
    return every


def rows() -> list[tuple[str, dict[str, str]]]:
    """Each row of a table with tests: its first cell, and the others by the heads of columns."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        lines = [re.split(r" ?\| ?", line.strip())[1:-1] for line in table.splitlines()]
        if lines[0][-1].strip() == "broken by":
            for cells in lines[2:]:
                assert len(cells) == len(lines[0]), cells
                found.append((cells[0], dict(zip(lines[0], cells, strict=True))))
    return found


ROWS = rows()


@pytest.mark.parametrize(("promise", "cells"), ROWS, ids=[promise[:40] for promise, _ in ROWS])
def test_each_promise_has_a_test_that_make_test_runs(promise: str, cells: dict[str, str]) -> None:
    if IN_TEST not in cells:  # rules of the protocol: their tests stand in any column but the last
        before = " ".join([*cells.values()][:-1])
        all_named = [each for group in named(before) for each in group]
        machines = set(re.findall(r"`(\w+)`", before)) & machines_of_properties()
        assert machines or any(each.is_in_test for each in all_named)
        return
    groups = named(cells[IN_TEST])
    assert groups
    for group in groups:
        assert any(each.is_in_test for each in group), group[0]
    for group in named(cells[IN_ALL]):
        assert not all(each.is_in_test for each in group), group[0]


@pytest.mark.parametrize("number", range(1, 9))
def test_each_of_the_eight_promises_has_one_on_real_spark(number: int) -> None:
    (row,) = [cells for promise, cells in ROWS if promise.startswith(f"{number} ")]
    every = [each for group in named(row[IN_TEST]) for each in group]

    assert any(each.folder == "tests/engine" and each.is_in_test for each in every)


def test_what_make_test_takes_of_a_suite_is_marked() -> None:
    """A suite of which it takes what is marked `core` has such a test, and no other test is."""
    chosen = suites("test")["core"]
    marked = {each.folder.split("/")[1] for each in every_test() if "core" in each.marks}

    assert marked == chosen - {"packaging", "compat"} | marked & {"packaging", "compat"}
    assert not [each for each in every_test() if {"core", "long"} <= each.marks]
    assert not [each for each in every_test() if "more" in each.marks and each.folder in chosen]


def test_make_test_all_leaves_nothing_out_but_what_is_long() -> None:
    chosen = suites("test-all")

    assert chosen["core"] <= chosen["all"]
    assert {each.folder.split("/")[1] for each in every_test()} <= chosen["all"]
