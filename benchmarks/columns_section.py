"""What it saves to leave bodies out: the section `columns` of the benchmarks."""

from __future__ import annotations

import random
import statistics
import time
import uuid
from typing import TYPE_CHECKING, Any

from spark_azqueue.service.encoding import BodyType
from spark_azqueue.service.messages import Lease, Message, QueueRef
from spark_azqueue.source.batches.batch import BatchRows
from spark_azqueue.source.columns import Columns, source_columns
from spark_azqueue.source.rows import Row

if TYPE_CHECKING:
    from lab import Lab

Saw = dict[str, Any]

_TWO = "message_id STRING, queue STRING"
_COLUMNS: dict[str, Columns] = {
    "all": source_columns(BodyType.STRING, permissive=False),
    "two": (("message_id", "string"), ("queue", "string")),
}
_SIZES: tuple[Saw, ...] = (
    {"messages": 60_000, "size": 1000, "warm": 20_000},
    {"messages": 8000, "size": 48_000, "warm": 3000},
)


def columns(lab: Lab) -> Saw:
    """All columns of the source, and two without the body, in turns: bodies of 1 and of 48 KB."""
    kept = []
    with lab.contenders("consume.py", "ours") as (_, (ours,)):
        for work in _SIZES:
            ours.round(**work)  # for as long the JVM gets faster
            for number in range(lab.rounds):
                for name, schema in (("all", {}), ("two", {"schema": _TWO})):
                    saw = ours.round(**work, **schema)
                    kept.append({"name": name, "size": work["size"], "latency_s": 0.0, **saw})
                    lab.tell(f"round {number + 1}", kept[-1])
    return {"rounds": kept, "partitions": [partitions(1000, 4096), partitions(48_000, 2000)]}


def partitions(size: int, messages: int) -> Saw:
    """One batch alone, without Spark: bytes of its partitions, and CPU to make them, in turns."""
    rows = _rows(size, messages)
    spent: dict[str, list[float]] = {name: [] for name in _COLUMNS}
    made: dict[str, list[bytes]] = {}
    for _ in range(9):
        for name, each in _COLUMNS.items():
            began = time.process_time()
            batch = BatchRows.of(rows, each, messages, None, deleted_by_user=False)
            spent[name].append(time.process_time() - began)
            made[name] = batch.partitions
    ratios = [two / every for every, two in zip(spent["all"], spent["two"], strict=True)]
    return {
        "size": size,
        "bytes": {name: sum(map(len, parts)) / messages for name, parts in made.items()},
        "partitions": {name: len(parts) for name, parts in made.items()},
        "cpu_ratio": statistics.median(ratios),
    }


def _rows(size: int, messages: int) -> list[Row]:
    """Messages with JSON of about this size, that compresses as texts of events do."""
    chance, queue, rows = random.Random(size), QueueRef("a", "orders"), []
    for number in range(messages):
        items = ", ".join(
            f'{{"sku": {chance.randrange(10**9)}, "note": "n{chance.randrange(10**6)}"}}'
            for _ in range(size // 40)
        )
        body = f'{{"order_id": {number}, "items": [{items}]}}'[:size]
        name = str(uuid.UUID(int=chance.getrandbits(128)))
        message = Message(queue, name, body, 1_700_000_000_000_000, 1_700_604_800_000_000, 1)
        rows.append(Row(message, body, Lease(queue, name, f"r{number:030}")))
    return rows
