"""An experiment: the executors delete. Not part of the package, and not safe to use.

The receipts of batch N travel with the partitions of batch N+1; `read` deletes them while it hands
on its rows. The source's process takes every one for deleted: a failure is swallowed, and such a
message comes back as a new row when its lease runs out. What came of it stands in README.md.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from spark_azqueue.datasource import AzQueueDataSource
from spark_azqueue.errors import Outcome
from spark_azqueue.options.source_config import SourceConfig
from spark_azqueue.service.messages import Lease
from spark_azqueue.source.readers import AzQueueStreamReader, QueuePartition

AT_ONCE = 32
_services: dict[str, Any] = {}  # in a worker process: kept from task to task, as connections are


@dataclass
class WithDeletes(InputPartition):
    """Rows of this batch, and leases of the last one."""

    rows: QueuePartition
    leases: list[Lease]


class SpreadReader(AzQueueStreamReader):
    """The reader, with its settler put aside."""

    def __init__(self, config: SourceConfig, requested: Any, available: Any) -> None:
        super().__init__(config, requested, available)
        self._due: list[Lease] = []

    def _running(self) -> Any:
        fresh = self._consumer is None
        consumer = super()._running()
        if fresh:
            settler = consumer._holding.settler
            now = settler.begin

            def later(leases: Sequence[Lease], done: Any = None) -> None:
                self._due.extend(leases)
                for lease in leases:
                    settler._report(lease, Outcome.OK)
                if done:
                    done(False)

            settler.begin = later
            self._delete_now = now
        return consumer

    def latestOffset(self, start: Any = None, limit: Any = None) -> Any:
        offset = super().latestOffset(start, limit)
        if offset == start and self._due:  # nothing new to travel with
            due, self._due = self._due, []
            self._consumer._holding.settler._report = lambda lease, outcome: None
            self._delete_now(due)
        return offset

    def partitions(self, start: Mapping[str, Any], end: Any) -> list[InputPartition]:
        parts = super().partitions(start, end)
        due, self._due = self._due, []
        share = -(-len(due) // max(1, len(parts)))
        return [
            WithDeletes(part, due[at * share : (at + 1) * share]) for at, part in enumerate(parts)
        ]

    def read(self, partition: WithDeletes) -> Iterator[pa.RecordBatch]:
        worker = threading.Thread(target=self._delete, args=(partition.leases,))
        worker.start()
        yield from super().read(partition.rows)
        worker.join()

    def _delete(self, leases: list[Lease]) -> None:
        from spark_azqueue.service.queues.calls import Delete
        from spark_azqueue.service.queues.client import AzureQueueClient

        account = self._config.account
        service = _services.setdefault(account.name, None) or AzureQueueClient(account)
        _services[account.name] = service
        flight = service.in_flight()
        due = list(leases)
        try:
            while due or len(flight):
                while due and len(flight) < AT_ONCE:
                    flight.begin(None, Delete(due.pop()))
                flight.ended()
        finally:
            flight.close()

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_due": [], "_delete_now": None}


class SpreadDataSource(AzQueueDataSource):
    @classmethod
    def name(cls) -> str:
        return "azqueue-spread"

    def streamReader(self, schema: StructType) -> AzQueueStreamReader:
        whole = super().streamReader(schema)
        return SpreadReader(whole._config, whole._requested, whole._available)
