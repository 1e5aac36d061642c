"""The errors that the package raises, read from its source."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import spark_azqueue
from spark_azqueue import errors
from spark_azqueue.errors import AzQueueError
from spark_azqueue.errors.conditions import Condition

PACKAGE = Path(spark_azqueue.__file__).parent
ANY = "…"
"""Stands for any value in a text."""
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, AzQueueError)
}


class Raised(NamedTuple):
    """A call that makes an error. condition: None if it is decided while the program runs."""

    kind: str
    condition: Condition | None
    text: str


def text_of(node: ast.AST) -> str | None:
    """The text of a string or f-string, with `…` for values; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = re.sub(r"%(?:s|d|r)", ANY, node.value)
    elif isinstance(node, ast.JoinedStr):
        parts = (getattr(part, "value", None) for part in node.values)
        text = "".join(part if isinstance(part, str) else ANY for part in parts)
    else:
        return None
    return re.sub(f"{ANY}+", ANY, text)


@functools.cache
def modules() -> tuple[ast.Module, ...]:
    return tuple(
        ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))
    )


@functools.cache
def raised() -> tuple[Raised, ...]:
    """Every call of an error's class, or of a `partial` of one, whose text is in the source."""
    return tuple(sorted(set(_raised()), key=lambda each: (each.kind, each.text)))


def _raised() -> Iterator[Raised]:
    imported = {name: call for module in modules() for name, call in _partials(module).items()}
    for module in modules():
        partials = imported | _partials(module)
        for call in ast.walk(module):
            text = text_of(call.args[0]) if isinstance(call, ast.Call) and call.args else None
            if text:
                name = ast.unparse(call.func)
                of = partials.get(name, call)
                kind = ast.unparse(of.args[0]) if name in partials else name
                if kind in CLASSES:
                    yield Raised(kind, _condition(kind, of), text)


def _partials(module: ast.Module) -> dict[str, ast.Call]:
    """The module's own names of a class with a condition."""
    return {
        ast.unparse(node.targets[0]): node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "partial"
        and ast.unparse(node.value.args[0]) in CLASSES
    }


def _condition(kind: str, call: ast.Call) -> Condition | None:
    for keyword in call.keywords:
        if keyword.arg == "condition":
            return Condition.__members__.get(ast.unparse(keyword.value).removeprefix("Condition."))
    return CLASSES[kind].condition
