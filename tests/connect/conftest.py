"""The Python of a Connect client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / ".matrix" / "client" / "bin" / "python"


@pytest.fixture(scope="session")
def client() -> Path:
    """A Python with Spark's client package, and nothing of ours."""
    if not CLIENT.exists():
        missing = "no Connect client in .matrix/client: run `make .matrix/client/.installed`"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return CLIENT
