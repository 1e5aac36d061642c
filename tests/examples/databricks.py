"""Notebooks in Databricks' source format, cell by cell, and what Databricks puts around them.

The mocks take what the public documents say: `dbutils.widgets.text(name, defaultValue, label)`,
`dbutils.secrets.get(scope, key)`, `dbutils.notebook.exit(value)`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = "# Databricks notebook source\n"
BREAK = "\n# COMMAND ----------\n"
MAGIC = "# MAGIC "


class Exit(Exception):  # noqa: N818
    """The notebook ended itself with this value."""


class Widgets:
    """Values come from the job, else from the notebook's own defaults."""

    def __init__(self, given: dict[str, str]) -> None:
        self.given = given
        self.defaults: dict[str, str] = {}

    def text(self, name: str, defaultValue: str, label: str = "") -> None:
        self.defaults[name] = defaultValue

    def get(self, name: str) -> str:
        return self.given.get(name, self.defaults[name])


class Secrets:
    def __init__(self, secrets: dict[tuple[str, str], str]) -> None:
        self._secrets = secrets

    def get(self, scope: str, key: str) -> str:
        return self._secrets[scope, key]


class Notebook:
    def exit(self, value: str) -> None:
        raise Exit(value)


class Dbutils:
    """What a notebook of ours uses of `dbutils`."""

    def __init__(self, widgets: dict[str, str], secrets: dict[tuple[str, str], str]) -> None:
        self.widgets = Widgets(widgets)
        self.secrets = Secrets(secrets)
        self.notebook = Notebook()


def cells(path: Path) -> list[str]:
    """The cells of a notebook. A cell of another language or with a command is all `# MAGIC`."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    return [cell.strip("\n") for cell in text.removeprefix(HEAD).split(BREAK)]


def magic(cell: str) -> str | None:
    """The text of a cell with a command (`%md …`, `%pip …`); None for one of Python."""
    lines = cell.split("\n")
    marked = [line for line in lines if line.startswith(MAGIC.strip())]
    assert not marked or marked == lines, "a cell is all magic, or none"
    return "\n".join(line.removeprefix(MAGIC.strip()).strip() for line in lines) if marked else None


def execute(path: Path, **names: Any) -> tuple[dict[str, Any], str | None]:
    """Run the cells of Python, one after the other, in one namespace.

    Returns the names at the end, and the value of `dbutils.notebook.exit`, None without.
    """
    for number, cell in enumerate(cells(path)):
        if magic(cell) is None:
            try:
                exec(compile(cell, f"{path.name}, cell {number}", "exec"), names)
            except Exit as left:
                return names, str(left)
    return names, None
