"""Writes tests/compat/surface.txt: all names of the package that users depend on.

    python tools/surface.py

`tests/unit/docs/test_surface.py` compares the file with the code. After 0.1.0 a line that changes
or goes breaks somebody's job: it takes a decision in docs/decisions, and a new version.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import spark_azqueue
import spark_azqueue.testing
from spark_azqueue.commands.command_line import COMMANDS
from spark_azqueue.errors.conditions import Condition
from spark_azqueue.metrics.exported import HISTOGRAMS, METRICS
from spark_azqueue.metrics.query_metrics import QueryMetrics
from spark_azqueue.options.of_commands import COMMANDS as WITH_OPTIONS
from spark_azqueue.options.of_commands import Use, use_of
from spark_azqueue.options.parse import OPTIONS
from spark_azqueue.service.encoding import BodyType
from spark_azqueue.sink.columns import SinkColumns
from spark_azqueue.source.columns import source_columns

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "tests" / "compat" / "surface.txt"
GOLDEN = ROOT / "tests" / "compat" / "golden"


def surface() -> str:
    """The text of the file."""
    parts = {
        "names in spark_azqueue": _names(spark_azqueue),
        "names in spark_azqueue.testing": _names(spark_azqueue.testing),
        "options": (f"{o.name} ({o.side.name.lower()}), default {o.shown}" for o in OPTIONS),
        "columns of the source": (
            f"{name} {kind}" for name, kind in source_columns(BodyType.STRING, permissive=True)
        ),
        "columns of the sink": (each.name for each in fields(SinkColumns)),
        "conditions of errors": (each.id for each in Condition),
        "metrics": sorted(each.name for each in (*METRICS, *HISTOGRAMS)),
        "columns of the listener": (each.name for each in fields(QueryMetrics)),
        "commands (exit status 0, 1, 2; 130 after Ctrl-C)": (
            f"{name} {each.arguments}".strip() for name, each in COMMANDS.items()
        ),
        "options of commands": _options_of_commands(),
        "objects of logs, by their golden files": _golden(),
    }
    return "\n".join(
        f"# {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items()
    )


def _names(module: ModuleType) -> Iterator[str]:
    for name in sorted(module.__all__):
        found = getattr(module, name)
        yield f"{name}{_signature(found)}"
        if not inspect.isclass(found) or issubclass(found, Exception):
            continue
        for method, value in sorted(vars(found).items()):
            if not method.startswith("_"):
                yield f"  .{method}{_signature(value)}"


def _signature(found: Any) -> str:
    """The parameters with their defaults, as far as these print alike everywhere."""
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if not callable(found) or (inspect.isclass(found) and issubclass(found, Exception)):
        return ""
    parts = []
    for each in inspect.signature(found).parameters.values():
        if each.name in ("self", "cls"):
            continue
        name = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name
        is_key = each.kind is each.KEYWORD_ONLY
        if each.default is each.empty:
            parts.append(f"{name}=" if is_key else name)
        else:
            is_plain = each.default is None or isinstance(each.default, str | int | float | tuple)
            parts.append(f"{name}={each.default!r}" if is_plain else f"{name}=…")
    return f"({', '.join(parts)})"


def _options_of_commands() -> Iterator[str]:
    for command in WITH_OPTIONS:
        taken = (each.name for each in OPTIONS if use_of(command, each.name) is Use.TAKEN)
        yield f"{command}: {' '.join(taken)}"


def _golden() -> Iterator[str]:
    for path in sorted(GOLDEN.rglob("*")):
        if path.is_file():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            yield f"{path.relative_to(GOLDEN).as_posix()} {digest}"


if __name__ == "__main__":
    FILE.write_text(surface(), encoding="utf-8")
