"""The examples as modules, on the fake service."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_on_the_path() -> Iterator[None]:
    """As if a script of that folder had been started."""
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


@pytest.fixture
def azure(fake: object) -> dict[str, str]:
    """The options of the fake's account."""
    return {"secret.connectionString": fake.connection_string}  # type: ignore[attr-defined]


@pytest.fixture
def main(spark: SparkSession, azure: dict[str, str], tmp_path: Path) -> Callable[[str], Path]:
    """Run an example's `main` by its name, and return its folder."""

    def run(name: str) -> Path:
        module = importlib.import_module(name)
        # Its functions go to the tasks as those of a script do.
        cloudpickle.register_pickle_by_value(module)
        module.main(spark, azure, tmp_path)
        return tmp_path

    return run
