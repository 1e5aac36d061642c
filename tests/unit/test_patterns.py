"""Every regular expression of the package takes linear time, or says here why it may not."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ambiguity import is_ambiguous

import spark_azqueue
from spark_azqueue.commands.doctor.redaction import STATEMENTS
from spark_azqueue.errors.explanation import SYMPTOMS
from spark_azqueue.files.events.trusted import places

PACKAGE = Path(spark_azqueue.__file__).parent
FUNCTIONS = ("compile", "search", "match", "fullmatch", "sub", "split", "findall", "finditer")
OTHERS = [STATEMENTS, *(each.pattern for each in SYMPTOMS)]
OTHERS += [each.pattern for each in places(["shopdata/landing", "http://127.0.0.1:1/abc/xyz"])]

LINEAR = {
    "service/redaction.py": "each repeat ends where another could begin",
    "commands/certify/trial.py": "a repeat begins where no character of it is before",
    "sink/events.py": "matched from the beginning, by `_FORMS`",
    "testing/azurite.py": "a repeat begins where no character of it is before",
    "commands/doctor/command_line.py": "its last part goes to the end of the text: it never fails",
}
"""Files with expressions that assertions make linear, which `is_ambiguous` leaves out."""

NOT_FROM_OUTSIDE = {
    "files/checks.py": "the user's own glob",
    "files/hadoop.py": "names of Java's classes",
    "files/events/parsing.py": "possessive, and too large for this test",
}


class Pattern(NamedTuple):
    file: str
    text: str
    flags: int
    search: bool
    whole: bool


def value(node: ast.expr, module: Any) -> Any:
    return eval(compile(ast.Expression(node), "", "eval"), vars(module))


def patterns() -> Iterator[Pattern]:
    for path in sorted(PACKAGE.rglob("*.py")):
        file = path.relative_to(PACKAGE).as_posix()
        source = path.read_text(encoding="utf-8")
        if "import re\n" not in source or file in NOT_FROM_OUTSIDE:
            continue
        module = importlib.import_module(f"spark_azqueue.{file[:-3].replace('/', '.')}")
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Call)):
                continue
            called = node if isinstance(node, ast.Call) else node.value
            if not (
                isinstance(called, ast.Call)
                and isinstance(called.func, ast.Attribute)
                and ast.unparse(called.func.value) == "re"
                and called.func.attr in FUNCTIONS
            ):
                continue
            uses = {called.func.attr}
            if called.func.attr == "compile":
                if isinstance(node, ast.Call):
                    continue  # found by its name
                name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
                uses = {*re.findall(rf"\b{name}\.(\w+)", source)}
            try:
                text = value(called.args[0], module)
                more = [value(each, module) for each in called.args[1:]]
            except NameError:
                more, text = [], None  # made of a local name, which is escaped or a test's
            if isinstance(text, (str, bytes)):
                flags = sum(each for each in more if isinstance(each, re.RegexFlag))
                flags |= sum(value(each.value, module) for each in called.keywords)
                decoded = text if isinstance(text, str) else text.decode("latin-1")
                search = not uses or not uses <= {"match", "fullmatch"}
                yield Pattern(file, decoded, flags, search, uses == {"fullmatch"})


FOUND = [*patterns()]


@pytest.mark.parametrize("pattern", FOUND, ids=lambda each: f"{each.file}-{each.text[:30]!a}")
def test_no_text_takes_more_than_linear_time(pattern: Pattern) -> None:
    of, text, flags, search, whole = pattern

    assert of in LINEAR or not is_ambiguous(text, flags, search=search, whole=whole)


@pytest.mark.parametrize("text", OTHERS)
def test_nor_does_one_that_is_used_elsewhere(text: str) -> None:
    assert not is_ambiguous(text.replace(r"\z", r"\Z"))


def test_all_of_them_are_looked_at() -> None:
    assert len(FOUND) > 80
    for file in LINEAR:
        some = [each for each in FOUND if each.file == file]
        found = [is_ambiguous(e.text, e.flags, search=e.search, whole=e.whole) for e in some]
        assert any(found), f"{file} needs no exception any more"


@pytest.mark.parametrize(
    "text",
    [
        *(
            r"(a+)+b",
            r"(?:a|a)+b",
            r"(?:a|ab|b)+c",
            r"a.*b.*c",
            r"\A(?:\s*x?\s*y)",
            r"\w+x",
            "a*ab",
        ),
        *(r"x(?:a*)*b", r"(?=a*a*b)c", r"a{0,500}a{0,500}b", r"(?i)\AA+a+b", r"\A(a+)\1b"),
    ],
)
def test_it_finds_what_takes_more(text: str) -> None:
    assert is_ambiguous(text)


@pytest.mark.parametrize(
    "text",
    [
        *(r"\Aa+b", r"\Aa*x?b*c", r"x[a-z]+", r"\A\s*(?:x\s*)?y", r"\A(?:ab|cd)+\Z", r"[0-9]{4}x"),
        *(r"x.*", r"a{3}b", r"\A[^=]*=.*\Z", r"\A(?:a|b)*c"),
    ],
)
def test_and_nothing_else(text: str) -> None:
    assert not is_ambiguous(text)
