"""Record batches as a task of `try_apply` gets them, and what it makes of them; without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from spark_azqueue.rows.try_apply.task import Work


def batches(
    columns: dict[str, Any], wanted: dict[str, pa.DataType], rows: int = 10_000
) -> Iterator[pa.RecordBatch]:
    """Batches of some rows: columns, and NULLs of the wanted types behind them, numbered."""
    table = pa.table(columns)
    for kind in (*wanted.values(), pa.string()):
        table = table.append_column("?", pa.nulls(table.num_rows, kind))
    table = table.rename_columns([f"_{n}" for n in range(table.num_columns)])
    yield from table.to_batches(max_chunksize=rows)


def work(
    function: Callable[[Any], Any],
    columns: Iterable[str],
    wanted: Iterable[str],
    *,
    arrow: bool = False,
    batch_rows: int = 256,
    limit: int | None = 32,
    zone: str = "Europe/Berlin",
) -> Work:
    return Work(function, arrow, (*columns,), (*wanted, "error"), batch_rows, limit, zone)


def applied(
    function: Callable[[Any], Any],
    columns: dict[str, Any],
    wanted: dict[str, pa.DataType],
    rows: int = 10_000,
    **more: Any,
) -> pa.Table:
    """What a task gives, with its columns of errors. rows: of a record batch at most."""
    given = batches(columns, wanted, rows)
    table = pa.Table.from_batches(work(function, columns, wanted, **more).on(given))
    return table.rename_columns([*columns, *wanted, "error"])
