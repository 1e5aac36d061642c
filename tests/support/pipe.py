"""Sink to queue to source, by the whole way but Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from door import Door

from spark_azqueue.options.choices import OnUndecodable
from spark_azqueue.options.parse import sink_config, source_config
from spark_azqueue.sink.columns import check_supplied
from spark_azqueue.sink.row_errors import requests
from spark_azqueue.sink.sender import Sender
from spark_azqueue.sink.tally import Sent
from spark_azqueue.sink.writers import tuples as tuples_of
from spark_azqueue.source.columns import Columns, source_columns
from spark_azqueue.source.driver.leased import LeasedConsumer
from spark_azqueue.source.large_bodies import carried, resolved
from spark_azqueue.source.log.consumer import LogConsumer
from spark_azqueue.source.offsets import OffsetJson
from spark_azqueue.source.rows import record_batches

ARROW = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32()}


def send(rows: Iterable[tuple[Any, ...]], schema: Columns, **options: str) -> Sent:
    """Write rows of these columns (Spark's names of types), by Arrow as Spark hands them over."""
    config = sink_config(options, {})
    columns = check_supplied(
        schema,
        ignore_extra=config.ignore_extra_columns,
        queue=config.queue,
        operation=config.operation,
    )
    names = [name for name, _ in schema]
    table = pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows],
        schema=pa.schema([(name, ARROW[kind]) for name, kind in schema]),
    )
    tuples = tuples_of(table.to_batches(), columns.places)
    return Sender(config).send(requests(tuples, columns, config))


class Source:
    """A query's source, run after run; every batch it gives is committed unless told otherwise."""

    def __init__(self, **options: str) -> None:
        self.config = source_config({"visibilityTimeout": "60", **options}, {})
        permissive = self.config.on_undecodable is OnUndecodable.PERMISSIVE
        self.columns = source_columns(self.config.body_type, permissive=permissive)
        carries, log = carried(self.columns, self.config), self.config.write_ahead_log
        self.consumer = Door(
            LogConsumer(self.config, carries, log) if log else LeasedConsumer(self.config, carries)
        )
        self.offset: OffsetJson = self.consumer.initial

    def batch(self) -> list[dict[str, Any]]:
        """The rows of one more batch; none where nothing is visible. Commits the one before."""
        end = self.consumer.latest(self.offset, None)
        if end == self.offset:
            return []
        partitions = self.consumer.plan(self.offset, end)
        self.offset = end
        return [row for partition in partitions for row in self.read(partition)]

    def read(self, partition: bytes) -> list[dict[str, Any]]:
        """What `read` gives for a partition, on an executor."""
        batches = resolved(record_batches(partition), self.columns, self.config)
        return [row for batch in batches for row in batch.to_pylist()]

    def drain(self) -> list[dict[str, Any]]:
        """All rows there are; everything is settled at the end."""
        rows = []
        while more := self.batch():
            rows += more
        return rows

    def close(self) -> None:
        """The end of the query."""
        self.consumer.close()
