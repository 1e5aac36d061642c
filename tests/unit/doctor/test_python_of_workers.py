"""The doctor looks into the Python of Spark's workers."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from spark_azqueue.commands.doctor.installation import surroundings, workers
from spark_azqueue.errors.interpreter import VARIABLES
from spark_azqueue.version import __version__

HERE = platform.python_version()


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a Python on the path that says this of itself."""

    def make(**seen: Any) -> Path:
        found = tmp_path / "python3"
        told = {"prefix": "/elsewhere", "python": HERE, "ours": __version__, "missing": [], **seen}
        found.write_text(f"#!/bin/sh\necho '{json.dumps(told)}'\n")
        found.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        return found

    return make


def test_the_python_that_runs_the_doctor_is_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    found = workers()

    assert found is not None
    assert (found.good, found.text) == (True, "the workers' Python: this one")


def test_another_name_of_it_is_looked_into(python, monkeypatch: pytest.MonkeyPatch) -> None:
    python(prefix=sys.prefix)
    assert workers().text == "the workers' Python: this one"


def test_another_python_with_the_package_is_good(python) -> None:
    made = python()
    assert workers().good
    assert made.name in workers().text


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        ({"missing": ["pycurl"]}, 'has no pycurl: Spark finds no format "azqueue" there'),
        ({"ours": "0.0.9"}, "has spark-azqueue 0.0.9, and this one"),
        ({"python": "3.7.1", "ours": None}, f"is 3.7.1, and this one {HERE}"),
    ],
)
def test_a_python_in_which_spark_finds_nothing_is_named_with_the_remedy(python, seen, says) -> None:
    python(**seen)
    found = workers()

    assert found.good is False
    assert found.text.startswith("the workers' Python: python3 (PYSPARK_PYTHON is not set)")
    assert says in found.text
    assert f"export PYSPARK_PYTHON={sys.executable}" in found.advice


@pytest.mark.parametrize(
    "text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\necho no\n", "#!/bin/sh\necho 1\n"]
)
def test_one_that_does_not_run(python, text: str) -> None:
    python().write_text(text)

    assert workers().good is False
    assert "does not run" in workers().text


def test_one_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "gone"))

    assert workers().good is False
    assert "gone (PYSPARK_PYTHON) does not exist here" in workers().text


@pytest.mark.parametrize(("package", "looked_at"), [("pyspark", True), ("pyspark-client", False)])
def test_the_workers_of_a_connect_server_are_elsewhere(
    package: str, looked_at: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {package: "4.3.0"}
    monkeypatch.setattr("spark_azqueue.commands.doctor.installation._version", versions.get)

    told = [finding.text for finding in surroundings()]
    assert any(text.startswith("the workers' Python") for text in told) is looked_at


def test_the_drivers_python_comes_first(python, monkeypatch: pytest.MonkeyPatch) -> None:
    made = python(missing=["pyarrow"])
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", str(made))

    assert workers().text.startswith(f"the workers' Python: {made} (PYSPARK_DRIVER_PYTHON) has no")
    assert f"export PYSPARK_DRIVER_PYTHON={sys.executable}" in workers().advice


def test_on_a_platform_another_python_is_a_note(python, monkeypatch: pytest.MonkeyPatch) -> None:
    python(ours=None, missing=["pyarrow"])

    def found():
        (one,) = [each for each in surroundings() if each.text.startswith("the workers' Python")]
        return one

    assert found().good is False
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "19.0")
    assert found().good is None
    assert "a peek" in found().advice
