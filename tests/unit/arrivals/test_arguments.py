"""What `read_new_files` refuses before it asks Spark or the service anything."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_azqueue.files import read_new_files


def start(spark: Any, **more: Any) -> None:
    read_new_files(
        spark,
        {"queue": "arrived"},
        **{
            "trusted": "shopdata/landing",
            "format": "json",
            "each": lambda rows, number: None,
            "checkpoint": "/checkpoints/x",
            **more,
        },
    )


def test_spark_connect() -> None:
    """Its function runs in a process of the server, where the log is not."""
    with pytest.raises(ValueError, match="does not work on Spark Connect"):
        start(SimpleNamespace())


def test_more_files_to_remember_than_a_snapshot_holds() -> None:
    with pytest.raises(ValueError, match=r"10,000,001 is more than a log can hold \(10,000,000\)"):
        start(SimpleNamespace(_jsparkSession=None), max_files_remembered=10_000_001)
