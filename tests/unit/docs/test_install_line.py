"""As long as the package is not on PyPI, nothing says to install what has its name there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from release_check import is_unreleased
from site_pages import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FOLDERS = (
    *("benchmarks", "conf", "deploy", "docs", "examples", "jars", "notebooks", "tests/soak"),
    *("pyspark_azqueue", "spark_azqueue"),
)
SUFFIXES = {".md", ".py", ".ipynb", ".yml", ".yaml", ".conf", ".bicep", ".sh", ".toml", ""}
BY_NAME = re.compile(
    r"""\b(?:pip3?|uv|conda|mamba|poetry)\b[^\n;&|]*?\b(?:install|add)\b[^\n;&|]*?
    (?:(?<![\w./=@-])spark[-_]azqueue(?![\w./-]*(?:\.whl|/))|\{_PACKAGE\})
    |\bpackage:\s*["']?spark-azqueue""",
    re.VERBOSE,
)
"""A command, or an entry of a list of libraries, that asks the index for the name."""


def told() -> Iterator[Path]:
    """All that a user reads or runs."""
    yield from REPOSITORY.glob("*.md")
    for folder in FOLDERS:
        for path in (REPOSITORY / folder).rglob("*"):
            if path.is_file() and path.suffix in SUFFIXES:
                yield path


def asked_by_name(text: str) -> list[str]:
    return [found[0] for found in BY_NAME.finditer(text)]


def test_nothing_asks_the_index_for_the_name() -> None:
    if not is_unreleased(README):
        pytest.skip("the package has been released")
    found = {
        str(path.relative_to(REPOSITORY)): commands
        for path in told()
        if (commands := asked_by_name(path.read_text(encoding="utf-8", errors="replace")))
    }

    assert not found, "whoever registers the name would run code on drivers: name a clone or wheel"


@pytest.mark.parametrize(
    "text",
    [
        "pip install spark-azqueue",
        "%pip install -q 'spark-azqueue[prometheus]' pandas",
        'python -m pip install --upgrade "spark_azqueue==0.1.0"',
        "uv add spark-azqueue",
        "conda install -c conda-forge spark-azqueue",
        'f"pip install --upgrade {_PACKAGE}"',
        "- pypi:\n    package: spark-azqueue",
    ],
)
def test_a_command_that_asks_for_the_name_is_noticed(text: str) -> None:
    assert asked_by_name(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install '.[spark]'",
        "pip install ./dist/spark_azqueue-0.1.0-py3-none-any.whl",
        "pip install dist/spark_azqueue*.whl",
        "pip install prometheus-client; python -m spark_azqueue",
        "git clone https://github.com/spark-azqueue/spark-azqueue && cd spark-azqueue",
    ],
)
def test_a_clone_or_a_wheel_is_none(text: str) -> None:
    assert not asked_by_name(text)


def test_the_readme_says_how_to_install_it_from_a_clone() -> None:
    if not is_unreleased(README):
        pytest.skip("the package has been released")
    assert re.search(r"git clone \S+ && cd spark-azqueue\n(?:.*\n)*?.*pip install '\.\[", README)
