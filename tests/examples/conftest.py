"""The examples as modules, on the fake service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

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
