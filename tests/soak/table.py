"""The table at the end of a chain: Parquet files that Spark's file sink has committed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq


def committed(table: Path) -> list[Path]:
    """The files that count: those which the sink's own log names. Others are of killed tasks."""
    found = set()
    for file in table.glob("_spark_metadata/[0-9]*"):
        _, *entries = file.read_text(encoding="utf-8").splitlines()  # the first is the version
        found |= {unquote(urlsplit(json.loads(entry)["path"]).path) for entry in entries}
    return [Path(path) for path in sorted(found)]


def rows(table: Path) -> Iterator[tuple[str, str]]:
    """The id that each row's message had in the first queue, and its body."""
    for path in committed(table):
        found = pq.read_table(path, columns=["id", "body"]).to_pydict()
        yield from zip(found["id"], found["body"], strict=True)
