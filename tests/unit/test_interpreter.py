"""Whether Spark starts another Python than this one, before anything is started to see it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_azqueue.commands.doctor import installation
from spark_azqueue.commands.doctor.finding import Finding
from spark_azqueue.errors.interpreter import is_in_doubt, is_this_python

DRIVER = {"pyspark": None, "__main__": SimpleNamespace(__spec__=None)}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A folder with another `python3`."""
    found = tmp_path / "python3"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    return tmp_path


def test_a_driver_that_leaves_it_to_the_path_is_in_doubt(other: Path) -> None:
    assert is_in_doubt({"PATH": str(other)}, DRIVER)
    assert is_in_doubt({"PATH": str(other), "PYSPARK_PYTHON": ""}, DRIVER)
    assert is_in_doubt({"PATH": str(other / "nothing")}, DRIVER), "Spark will find none"


@pytest.mark.parametrize("name", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE"])
def test_what_a_variable_decides_is_in_no_doubt(other: Path, name: str) -> None:
    assert not is_in_doubt({"PATH": str(other), name: "python"}, DRIVER)


def test_the_same_python_on_the_path_is_in_no_doubt() -> None:
    assert not is_in_doubt({"PATH": os.path.dirname(sys.executable)}, DRIVER)


@pytest.mark.parametrize("module", ["pyspark.daemon", "pyspark.sql.worker.lookup_data_sources"])
def test_a_process_of_spark_is_no_driver(other: Path, module: str) -> None:
    of_spark = SimpleNamespace(__spec__=SimpleNamespace(name=module))
    assert not is_in_doubt({"PATH": str(other)}, DRIVER | {"__main__": of_spark})


def test_without_spark_there_is_no_driver(other: Path) -> None:
    assert not is_in_doubt({"PATH": str(other)}, {})


def test_a_name_beside_it_that_leads_to_the_same_file_is_this_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in an environment, whose `python` and `python3` both lead to the Python of the system."""
    (tmp_path / "system").write_text("")
    (tmp_path / "newer").write_text("")
    for folder, names in {"one": ["python", "python3"], "two": ["python3"]}.items():
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).symlink_to(tmp_path / "system")
    (tmp_path / "one" / "python3.99").symlink_to(tmp_path / "newer")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "one" / "python"))

    assert is_this_python(str(tmp_path / "one" / "python3"))
    assert not is_this_python(str(tmp_path / "two" / "python3"))
    assert not is_this_python(str(tmp_path / "one" / "python3.99"))


BAD = Finding(False, "the workers' Python: python3 has no pycurl", "set PYSPARK_PYTHON")


@pytest.mark.parametrize(
    ("found", "platform", "says"),
    [
        (BAD, "", ["the workers' Python: python3 has no pycurl; set PYSPARK_PYTHON"]),
        (BAD, "19.0", []),
        (Finding(True, "the workers' Python: this one"), "", []),
    ],
)
def test_one_line_says_what_is_wrong_and_what_to_do(
    found: Finding,
    platform: str,
    says: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(installation, "workers", lambda: found)
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", platform)

    with caplog.at_level(logging.WARNING):
        installation.warn_of_another_python()

    ours = [record for record in caplog.records if record.name == installation.__name__]
    assert [record.getMessage() for record in ours] == says


@pytest.mark.parametrize(("modules", "lines"), [("sys.modules['pyspark'] = sys; ", 1), ("", 0)])
def test_the_first_import_in_a_driver_says_it(other: Path, modules: str, lines: int) -> None:
    """No module of Spark is needed: what counts is that the program has imported it before."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_REMOTE")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {modules}import spark_azqueue, spark_azqueue"],
        env=environment | {"PATH": str(other)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == ""
    said = done.stderr.splitlines()
    assert len(said) == lines
    assert all("python3 (PYSPARK_PYTHON is not set) does not run" in line for line in said)
    assert all(line.endswith(f"export PYSPARK_PYTHON={sys.executable}") for line in said)
